"""The pods of a node, and the cards that each was given."""

from collections.abc import Iterable, Mapping

from fairlead.apps.agent.strangers import Given, Tenant
from fairlead.model.gpus import CardUse, Grant, instance_id
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import CardFacts

#: A static pod's processes go by the hash of its manifest, and not by the uid of its mirror.
_STATIC = "kubernetes.io/config.hash"
_NOTHING: Given = {}


def tenants(pods: Iterable[Pod], cards: Iterable[CardFacts]) -> dict[str, Tenant]:
    """By each uid that a pod's processes may go by."""
    known = {card.uuid: card for card in cards}
    by_index = {str(card.index): card for card in cards}
    found: dict[str, Tenant] = {}
    for pod in pods:
        given = given_to(pod, by_index | known)
        tenant = Tenant(pod.namespace, pod.name, pod.uid, pod.version, given, over=pod.finished)
        found[pod.uid] = tenant
        if _STATIC in pod.annotations:
            found[pod.annotations[_STATIC]] = tenant
    return found


def given_to(pod: Pod, cards: Mapping[str, CardFacts]) -> Given | None:
    """None where a device plugin chose the cards, or they are named in a way we do not know."""
    if pod.problem or (pod.grant is None and pod.request.gpus is not None):
        return None
    if pod.grant is None:
        return _NOTHING
    return _given(pod.grant, cards)


def _given(grant: Grant, cards: Mapping[str, CardFacts]) -> Given | None:
    given: dict[str, frozenset[int] | None] = {}
    for use in grant.uses:
        card = cards.get(use.uuid)
        if card is None:
            return None
        instances = _instances(use, card)
        before = given.get(card.uuid, frozenset())
        both = None if instances is None or before is None else instances | before
        given[card.uuid] = both
    return given


def _instances(use: CardUse, card: CardFacts) -> frozenset[int] | None:
    slots = max((cut.size for cut in card.cuts), default=0)
    if not use.slices or slots < use.slices:
        return None
    return frozenset({instance_id(use.start, use.slices, slots)})
