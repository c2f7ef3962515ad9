"""Every dialect that Fairlead speaks, and the one place where they meet."""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.kube.dialects import discovery, kai
from fairlead.kube.dialects.alnair import Alnair
from fairlead.kube.dialects.api import (
    MOST_CARDS,
    Asking,
    Bound,
    Dialect,
    Identity,
    Offering,
    Part,
    Telling,
)
from fairlead.kube.dialects.gpushare import Gpushare
from fairlead.kube.dialects.hami import Hami
from fairlead.kube.dialects.kai import Kai
from fairlead.kube.dialects.merging import merged
from fairlead.kube.dialects.nvidia import Nvidia
from fairlead.kube.dialects.ours import Ours
from fairlead.kube.dialects.scheduling_map import Mapped, identity, tells_pods_apart
from fairlead.kube.dialects.volcano import Volcano
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import PLAIN, CardUse, GpuAsk, Grant, Inventory

__all__ = [
    "DIALECTS",
    "RESOURCES",
    "Asking",
    "Identity",
    "Offering",
    "Part",
    "Telling",
    "identity",
    "lock",
    "read_ask",
    "read_ask_of_bound",
    "read_grant",
    "read_inventory",
    "tell",
    "tells_pods_apart",
    "words",
]

_OURS, _PLAIN, _HAMI, _MAPPED = Ours(), Nvidia(), Hami(), Mapped()
#: In the order in which they are believed: a device plugin that says what it took comes first,
#: then we, who know most about a card; those who know cards by their index only come last.
DIALECTS: tuple[Dialect, ...] = (
    Alnair(), _OURS, _MAPPED, _HAMI, Volcano(), Kai(), Gpushare(), _PLAIN,
)  # fmt: skip
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
#: Those that may ask for `nvidia.com/gpu` as well.
_BESIDE_PLAIN = (_HAMI.name, _MAPPED.name, PLAIN)

_WORDS = frozenset(word for dialect in DIALECTS for word in dialect.words)
#: Resources that belong to a dialect and that no node lists.
RESOURCES = tuple(sorted({name for dialect in DIALECTS for name in dialect.resources}))


def words(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The annotations of a pod that say what it asks of GPUs."""
    found = [key for key in annotations if key in _WORDS or kai.is_word(key)]
    return tuple((key, annotations[key]) for key in sorted(found))


def read_ask(asking: Asking) -> GpuAsk | None:
    """What the pod asks of GPUs; refused if it asks in two dialects at once."""
    asks = [ask for dialect in DIALECTS[:-1] if (ask := dialect.ask(asking)) is not None]
    if len(asks) > 1:
        names = " and ".join(ask.dialect for ask in asks)
        raise FairleadError(f"it asks for GPUs in several ways at once ({names}); keep one")
    plain = _PLAIN.ask(asking)
    if not asks:
        return plain
    if plain is not None and asks[0].dialect not in _BESIDE_PLAIN:
        raise FairleadError(
            f"it asks for nvidia.com resources and in the way of {asks[0].dialect} as well; "
            "keep one of them"
        )
    return asks[0]


def read_ask_of_bound(asking: Asking) -> GpuAsk | None:
    """The same for a pod that is somewhere already: whoever put it there understood it.

    It has no more cards than a node can have, even if it asks for more than there are atoms.
    """
    for read in (read_ask, _PLAIN.ask):
        try:
            ask = read(asking)
        except FairleadError:
            continue
        return replace(ask, cards=min(ask.cards, MOST_CARDS)) if ask else None
    return None


def read_inventory(offering: Offering) -> tuple[Inventory | None, str]:
    """The node's cards one by one if anybody lists them, else what its labels tell of them.

    And what could not be read.
    """
    found, problems = [], []
    for dialect in DIALECTS:
        try:
            inventory = dialect.inventory(offering)
        except FairleadError as error:
            problems.append(str(error))
            continue
        if inventory is not None:
            found.append(inventory)
    # One who lists cards by uuid is believed before one who counts them.
    found.sort(key=lambda inventory: inventory.cards[:1] and inventory.cards[0].uuid.isdigit())
    listed = merged(found)
    gpus = discovery.completed(listed, offering) if listed else discovery.counted(offering)
    return gpus, "; ".join(problems)


def read_grant(
    annotations: Mapping[str, str], labels: Mapping[str, str], ask: GpuAsk | None, *, started: bool
) -> Grant | None:
    """The cards that a bound pod has. Who asked for none has none, whatever is written on it."""
    if ask is None:
        return None
    bound = Bound(annotations, labels, ask)
    said = next(filter(None, (dialect.grant(bound) for dialect in DIALECTS)), None)
    found = _unsaid(ask) if said is None else _at_least(said, ask)
    pending = not started and any(dialect.pending(annotations) for dialect in DIALECTS)
    return replace(found, pending=pending) if found and pending else found


def _unsaid(ask: GpuAsk) -> Grant | None:
    """A part of some card: until somebody says of which, none may be given away for it."""
    if ask.whole or ask.profile:
        return None  # counted as whole cards, or as slices
    return Grant((CardUse("", False, ask.milli, ask.memory_mib),) * ask.cards, ask.dialect)


def _at_least(said: Grant, ask: GpuAsk) -> Grant:
    """Annotations can be edited: nobody has less than what the spec asks for."""
    missing = ask.cards - len(said.uses)
    if ask.profile or not said.uses:
        return said
    if missing > 0:
        return replace(said, uses=said.uses + (CardUse(""),) * missing)
    uses = tuple(
        use if use.slices else replace(
            use,
            whole=use.whole or ask.whole,
            milli=max(use.milli, ask.milli),
            memory_mib=max(use.memory_mib, ask.memory_mib),
        )
        for use in said.uses
    )  # fmt: skip
    return replace(said, uses=uses) if len(uses) == ask.cards else said


def tell(telling: Telling) -> dict[str, str]:
    """The annotations that go with the bind."""
    return {**_OURS.tell(telling), **_speaker(telling).tell(telling)}


def lock(telling: Telling) -> tuple[str, str] | None:
    """The annotation of the node that must be ours before the bind, and its value."""
    return _speaker(telling).lock(telling)


def _speaker(telling: Telling) -> Dialect:
    """Where HAMi is at home, its plugin hands out plain GPUs as well."""
    dialect, inventory = telling.grant.dialect, telling.inventory
    if dialect == PLAIN and inventory is not None and _HAMI.name in inventory.dialects:
        return _HAMI
    return _BY_NAME[dialect]
