"""Resource claims in virtual time: made from templates, written before binds, freed at the end.

It is what kube-controller-manager and the writers of a scheduler do, at once. Drivers accept every
device. Claims of a PodGroup stay allocated after its pods, as they do while the PodGroup is there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from fairlead.cluster.claim_charges import asked_milli, held_milli
from fairlead.cluster.claim_groups import ClaimGroups
from fairlead.cluster.device_claims import ClaimWrite, DeviceClaims
from fairlead.engine.events import ClaimObjectGone, ClaimObjectSeen, Event
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import AllocatedDevice, Allocation, ClaimUser, ResourceClaim
from fairlead.model.extended import ExtendedUse
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.prepare import PrepareStep

#: What templates ask for, by "namespace/name" of the template. Only the requests of a claim count.
ClaimTemplates = Mapping[str, ResourceClaim]

#: Between the parts of the name of a claim that is made here: no name of an object has it.
_JOINED = "~"


def with_own_claims(
    pod: Pod, templates: ClaimTemplates, groups: ClaimGroups
) -> tuple[Pod, list[ResourceClaim]]:
    """A pending pod with claims for its templates, and these claims.

    A claim that the pod names already stays if it was made for the pod, and one whose template is
    not known is left out: the pod waits for it, as in a cluster.
    """
    made = {}
    for place, use in enumerate(pod.request.claims):
        template = templates.get(f"{pod.namespace}/{use.template}") if use.template else None
        if template is not None and not (use.key and use.owner == pod.uid):
            made[place] = _made(pod, use, template, groups)
    if not made:
        return pod, []
    uses = list(pod.request.claims)
    for place, claim in made.items():
        uses[place] = replace(uses[place], key=claim.key, pod=pod.key, owner=pod.uid)
    return replace(pod, request=replace(pod.request, claims=tuple(uses))), [*made.values()]


def _made(pod: Pod, use: ClaimUse, template: ResourceClaim, groups: ClaimGroups) -> ResourceClaim:
    of_group = groups.user_of(use) is not None
    owner = use.group.partition("/")[2] if of_group else pod.name
    name = f"{owner}{_JOINED}{use.entry}"
    return ResourceClaim(
        pod.namespace,
        name,
        f"{use.group if of_group else pod.uid}{_JOINED}{use.entry}",
        requests=template.requests,
        constraints=template.constraints,
        configs=template.configs,
        owner="" if of_group else pod.uid,
        owner_group=use.group if of_group else "",
        problem=template.problem,
    )


def without_users(claim: ResourceClaim, uids: Collection[str]) -> ResourceClaim:
    """The claim when these pods have ended: with its last user it loses its devices."""
    left = tuple(user for user in claim.reserved_for if user.uid not in uids)
    if left == claim.reserved_for:
        return claim
    if left:
        return replace(claim, reserved_for=left)
    return replace(claim, reserved_for=(), allocation=None, reports=())


class VirtualClaims:
    """`state` is that of the engine; the events that are returned are to be fed to it."""

    def __init__(self, state: DeviceClaims) -> None:
        self._state = state
        self.templates: dict[str, ResourceClaim] = {}
        #: Drivers whose devices are GPUs, beside NVIDIA's.
        self.gpu_drivers: frozenset[str] = frozenset()

    def gpus(self, pod: Pod) -> float:
        """GPUs that the claims of a pod have or ask for; those of several pods count once."""
        uses = pod.request.claims
        if not pod.node:
            return asked_milli(uses, self._state) / WHOLE
        counted = held_milli(pod.uid, uses, self._state) / WHOLE
        return counted + self._extended_gpus(pod) + self._other_gpus(pod)

    def of(self, pod: Pod) -> list[ResourceClaim]:
        """The claims of a pod that are there."""
        keys = (use.key for use in pod.request.claims)
        return [claim for key in keys if (claim := self._state.claims.get(key)) is not None]

    def _other_gpus(self, pod: Pod) -> int:
        if not self.gpu_drivers:
            return 0
        given = (claim.allocation.devices for claim in self.of(pod) if claim.allocation)
        return sum(each.driver in self.gpu_drivers for devices in given for each in devices)

    def _extended_gpus(self, pod: Pod) -> int:
        """GPUs of a claim for extended resources that the request of the pod does not show."""
        if not pod.gpus_by_claim or pod.request.amount(GPU):
            return 0
        made = self._state.extended.claims_of(pod.key, pod.uid)
        return sum(len(claim.allocation.devices) for claim in made if claim.allocation)

    def created(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Event]]:
        """Pending pods with claims of their own, and what shows these claims."""
        found: list[Pod] = []
        made: dict[str, ResourceClaim] = {}
        for pod in pods:
            with_own, claims = with_own_claims(pod, self.templates, self._state.groups)
            made |= {claim.key: claim for claim in claims}
            found.append(with_own)
        new = (claim for key, claim in made.items() if key not in self._state.claims)
        return found, [ClaimObjectSeen(claim) for claim in new]

    def prepared(self, pod: Pod, steps: Iterable[PrepareStep]) -> Iterator[Event]:
        """The claims of the pod are allocated and reserved."""
        for step in steps:
            for write in step.writes if isinstance(step, ClaimStep) else ():
                yield ClaimObjectSeen(self._written(pod, write))

    def _written(self, pod: Pod, write: ClaimWrite) -> ResourceClaim:
        claim = self._state.claims.get(write.claim.key, write.claim)
        if write.mappings:  # it is made for extended resources of the pod
            name = f"{pod.name}{_JOINED}extended"
            claim = replace(claim, name=name, uid=f"{pod.uid}{_JOINED}extended")
        user = write.user or ClaimUser(pod.uid, pod.name)
        others = tuple(each for each in claim.reserved_for if each.uid != user.uid)
        given = claim.allocation or _named(write.allocation, claim.uid)
        return replace(claim, allocation=given, reserved_for=(*others, user))

    def ended(self, pod: Pod) -> Iterator[Event]:
        """The pod has ended or is gone: claims that were made for it are gone with it."""
        for use in pod.request.claims:
            claim = self._state.claims.get(use.key)
            if claim is None or isinstance(use, ExtendedUse):
                continue
            if use.template:
                self.templates.setdefault(f"{pod.namespace}/{use.template}", claim)
            yield from _left(claim, pod.uid)
        for made in self._state.extended.claims_of(pod.key, pod.uid):
            yield ClaimObjectGone(made)

    def freed(self, claim: ResourceClaim) -> Event:
        """A scheduler frees the claim: no pod can use it where it is allocated."""
        if claim.for_extended_resources:
            return ClaimObjectGone(claim)
        return ClaimObjectSeen(replace(claim, reserved_for=(), allocation=None, reports=()))

    def released(self, pod: Pod) -> Iterator[Event]:
        """The pod is not bound after all."""
        for use in pod.request.claims:
            claim = self._state.claims.get(use.key)
            if claim is not None:
                yield ClaimObjectSeen(without_users(claim, (pod.uid,)))
        for made in self._state.extended.claims_of(pod.key, pod.uid):
            yield ClaimObjectGone(made)


def _left(claim: ResourceClaim, uid: str) -> Iterator[Event]:
    if claim.owner == uid:
        yield ClaimObjectGone(claim)
    elif (after := without_users(claim, (uid,))) is not claim:
        yield ClaimObjectSeen(after)


def _named(allocation: Allocation | None, uid: str) -> Allocation | None:
    """With a name for each share of a device."""
    if allocation is None:
        return None
    numbered = enumerate(allocation.devices)
    return replace(allocation, devices=tuple(_share(each, f"{uid}/{n}") for n, each in numbered))


def _share(device: AllocatedDevice, name: str) -> AllocatedDevice:
    return replace(device, share_id=name) if device.share_id == "" else device
