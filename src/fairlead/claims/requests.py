"""Requests of claims, ready for the search: checked, with their class, and All expanded."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from fairlead.claims.answers import SelectorAnswers
from fairlead.claims.capacity import Amounts, consumed, fits
from fairlead.claims.errors import AllocationError
from fairlead.claims.nodes import serves
from fairlead.claims.pools import DeviceCandidate, DevicePool, NodePools
from fairlead.claims.selecting import DeviceSelection, SelectorFault
from fairlead.claims.turn_limit import TurnLimit
from fairlead.claims.usage import DeviceUsage
from fairlead.model.behaviour import Behaviour
from fairlead.model.claims import (
    ALL_DEVICES,
    EXACT_COUNT,
    MOST_DEVICES,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import DeviceClass, DeviceForm, DeviceTaint, DeviceToleration
from fairlead.model.lazy_dataclass import dataclass

_BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(slots=True, eq=False)
class WantedDevices:
    """A request, or one of its alternatives."""

    #: "namespace/name" of the claim.
    claim: str
    request: str
    #: Name of the alternative; "" without alternatives.
    alternative: str
    need: DeviceNeed
    known_class: DeviceClass
    selection: DeviceSelection
    count: int
    #: Exactly these, for All.
    every: list[DeviceCandidate] | None = None
    #: Equal for requests that the same devices can serve.
    kind: object = field(init=False)
    #: By identity of capacities and of taints, which many devices share.
    _amounts: dict[int, tuple[DeviceForm, Amounts | None]] = field(default_factory=dict)
    _tolerated: dict[int, tuple[tuple[DeviceTaint, ...], bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = self.selection, self.need.tolerations, self.need.capacity

    @property
    def is_for_all(self) -> bool:
        return self.need.mode == ALL_DEVICES

    @property
    def full_name(self) -> str:
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    @property
    def own_name(self) -> str:
        """What kube-scheduler calls it in errors."""
        return self.alternative or self.request

    def amounts(self, form: DeviceForm, rules: Behaviour) -> Amounts | None:
        """What it consumes of the device's capacities; None: the device has not enough."""
        known = self._amounts.get(id(form.capacity))
        if known is None:
            found = consumed(form, self.need.capacity, strict=rules.strict_capacity)
            known = self._amounts[id(form.capacity)] = form, found
        return known[1]

    def tolerates(self, form: DeviceForm) -> bool:
        """Whether taints of the device do not matter to it."""
        taints = form.taints
        if not taints:
            return True
        known = self._tolerated.get(id(taints))
        if known is None:
            blocking = (taint for taint in taints if taint.effect in _BLOCKING)
            found = all(_tolerated(taint, self.need.tolerations) for taint in blocking)
            known = self._tolerated[id(taints)] = taints, found
        return known[1]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What requests are prepared from."""

    classes: Mapping[str, DeviceClass]
    of_node: NodePools
    answers: SelectorAnswers
    usage: DeviceUsage
    rules: Behaviour
    node: str
    turn: TurnLimit

    def claim(self, claim: ResourceClaim) -> list[list[WantedDevices]]:
        """Alternatives of each request, in order. Raises AllocationError."""
        prepared: list[list[WantedDevices]] = []
        total = 0
        for request in claim.requests:
            prepared.append(self._request(claim, request))
            least = min(wanted.count for wanted in prepared[-1])
            if self.rules.names_failing_devices and least > MOST_DEVICES - total:
                text = f"adding {least} devices exceeds the claim limit of {MOST_DEVICES}"
                where = f"claim {claim.key}, request {request.name}"
                raise AllocationError(f"{where}: {text}, with {total} already accounted for")
            total += least
        if total > MOST_DEVICES:
            text = f"number of requested devices {total} exceeds the claim limit of"
            raise AllocationError(f"claim {claim.key}: {text} {MOST_DEVICES}")
        return prepared

    def _request(self, claim: ResourceClaim, request: DeviceRequest) -> list[WantedDevices]:
        if request.first_available:
            return [
                self._wanted(claim, request.name, need.name, need)
                for need in request.first_available
            ]
        if request.exactly is None:
            where = f"claim {claim.key}, request {request.name}"
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        return [self._wanted(claim, request.name, "", request.exactly)]

    def _wanted(
        self, claim: ResourceClaim, request: str, alternative: str, need: DeviceNeed
    ) -> WantedDevices:
        where = f"claim {claim.key}, request {alternative or request}"
        for number, selector in enumerate(need.selectors):
            if selector is None:
                text = "CEL expression empty (unsupported selector type?)"
                raise AllocationError(f"{where}, selector #{number}: {text}")
        if not need.class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        known = self.classes.get(need.class_name)
        if known is None:
            name = need.class_name
            text = f'could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}"'
            raise AllocationError(f"{where}: {text} not found")
        selection = DeviceSelection(known.name, known.selectors, need.selectors)
        wanted = WantedDevices(claim.key, request, alternative, need, known, selection, need.count)
        if wanted.is_for_all:
            wanted.every = self._every(where, wanted)
            wanted.count = len(wanted.every)
        elif need.mode != EXACT_COUNT:
            raise AllocationError(f"{where}: unsupported count mode {need.mode}")
        return wanted

    def _every(self, where: str, wanted: WantedDevices) -> list[DeviceCandidate]:
        found: list[DeviceCandidate] = []
        for pool in self.of_node.pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                text = f"asks for all devices, but resource pool {pool} is currently {state}"
                raise AllocationError(f"{where}: {text}")
            usable = self.usable(wanted, pool)
            if usable is None:  # the first error is the answer
                usable = [each for each in pool.candidates
                          if self.selectable(wanted, each)
                          and self._has_amounts(where, wanted, each)]  # fmt: skip
            found += self._with_capacity(wanted, pool, usable)
        return found

    def usable(self, wanted: WantedDevices, pool: DevicePool) -> list[DeviceCandidate] | None:
        """Devices of the pool that can serve it, in use or not; None: some device is an error.

        Raises LookUnfinished: what was found is kept, by kind of request.
        """
        if pool.index is not None:
            return pool.index.usable(wanted, self.node, self.of_node.labels)
        known, kind = pool.usable, (wanted.is_for_all, wanted.kind)
        if kind not in known:
            try:
                known[kind] = [each for each in pool.candidates if self._is_usable(wanted, each)]
            except AllocationError:
                known[kind] = None
            self.turn.spend(devices=2 * len(pool.candidates))
        return known[kind]

    def _is_usable(self, wanted: WantedDevices, candidate: DeviceCandidate) -> bool:
        """Taints come last: amounts of a tainted device may be an error."""
        form = candidate.device.form
        return (
            self.selectable(wanted, candidate)
            and wanted.amounts(form, self.rules) is not None
            and (wanted.is_for_all or wanted.tolerates(form))
        )

    def selectable(self, wanted: WantedDevices, candidate: DeviceCandidate) -> bool:
        """By selectors, and by the nodes that the device serves. Raises AllocationError."""
        said = self.answers.of(wanted.selection, candidate.key.driver, candidate.device)
        if isinstance(said, SelectorFault):
            raise AllocationError(said.text(wanted.claim, candidate.key, self.rules))
        if not said or not candidate.slice.per_device:
            return said
        nodes = candidate.device.form.nodes
        return nodes is not None and serves(nodes, self.node, self.of_node.labels)

    def _has_amounts(self, where: str, wanted: WantedDevices, candidate: DeviceCandidate) -> bool:
        try:
            return wanted.amounts(candidate.device.form, self.rules) is not None
        except AllocationError as error:
            text = f"checking capacity for device {candidate.key.device}"
            raise AllocationError(f"{where}: {text}: {error}") from None

    def _with_capacity(
        self, wanted: WantedDevices, pool: DevicePool, usable: list[DeviceCandidate]
    ) -> list[DeviceCandidate]:
        """Of these, what shares leave enough of, in versions that look at it here."""
        usage, rules = self.usage, self.rules
        if rules.strict_capacity or not pool.has_shares or not usage.stamp(pool.key):
            return usable
        return [
            each
            for each in usable
            if fits(
                each.device.form,
                wanted.amounts(each.device.form, rules) or (),
                usage.consumed(each.key),
                {},
            )
        ]


@dataclass(frozen=True, slots=True)
class PreparedClaims:
    """Requests of claims that were prepared for a node."""

    claims: list[ResourceClaim]
    requests: list[list[list[WantedDevices]]]

    def is_for(self, claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> bool:
        """Whether they are right for another node: the same objects, and none asks for all."""
        if len(claims) != len(self.claims):
            return False
        if any(mine is not other for mine, other in zip(self.claims, claims, strict=True)):
            return False
        return self.has_classes(classes, for_all=False)

    def has_classes(self, classes: Mapping[str, DeviceClass], *, for_all: bool = True) -> bool:
        """Whether classes are the same; without `for_all`, also that none is for all devices."""
        return all(
            (for_all or wanted.every is None)
            and classes.get(wanted.known_class.name) is wanted.known_class
            for claim in self.requests
            for request in claim
            for wanted in request
        )


def _tolerated(taint: DeviceTaint, tolerations: tuple[DeviceToleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
