"""Why claims cannot be allocated on a node, device by device, in one line for each request."""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from fairlead.claims.counters import SearchCounters
from fairlead.claims.errors import AllocationError
from fairlead.claims.pools import DeviceCandidate
from fairlead.claims.requests import Preparation, WantedDevices
from fairlead.cluster.claim_outlook import claims_on, unallocated
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.cluster.kept_devices import KeptDevices
from fairlead.cluster.nodes import Nodes
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ALL_DEVICES, DeviceId, DeviceRequest
from fairlead.model.extended import ExtendedUse
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node

_FREE = "free"


def claim_details(uses: tuple[ClaimUse, ...], node: Nodes) -> Iterator[str]:
    """About the one node given, and each request of the claims that are to be allocated."""
    state = node.claims
    (there,) = node.objects()
    claims = unallocated(claims_on(uses, node) or [], state)
    if there is None:
        return
    preparation = _preparation(there, state)
    blocked = state.blocks.on(there.name)
    for claim in claims:
        try:
            requests = preparation.claim(claim)
        except AllocationError as error:
            yield str(error)
            continue
        for wanted in (each for request in requests for each in request):
            yield _line(wanted, preparation, blocked, state.kept)


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """A claim of a pod, and what it asks for in few words."""

    use: ClaimUse
    #: Such as "2 gpu.nvidia.com"; empty while the claim does not exist.
    asks: str
    #: Where it is allocated already: the devices.
    devices: tuple[DeviceId, ...] = ()
    #: Why it cannot be used.
    problem: str = ""


def asked_claims(uses: tuple[ClaimUse, ...], state: DeviceClaims) -> list[AskedClaim]:
    """Those that the spec of the pod names, in order."""
    found = []
    for use in uses:
        claim = state.claim_of(use)
        if isinstance(use, ExtendedUse):
            continue
        asks = ", ".join(map(_request_text, claim.requests)) if claim else ""
        held = claim.allocation.devices if claim and claim.allocation else ()
        devices = tuple(each.key for each in held)
        found.append(AskedClaim(use, asks, devices, state.problem_with(use)))
    return found


def _request_text(request: DeviceRequest) -> str:
    needs = (request.exactly,) if request.exactly else request.first_available
    return " or ".join(
        f"{'all' if need.mode == ALL_DEVICES else need.count} {need.class_name}" for need in needs
    )


def _preparation(node: Node, state: DeviceClaims) -> Preparation:
    state.settle_taints()
    inventory = state.inventory
    of_node = inventory.on(node.name, node.labels)
    rules = inventory.behaviour
    turn, answers = inventory.turn, inventory.answers
    return Preparation(state.classes, of_node, answers, state.usage, rules, node.name, turn)


def _line(
    wanted: WantedDevices,
    preparation: Preparation,
    blocked: AbstractSet[DeviceId],
    kept: KeptDevices,
) -> str:
    pools = preparation.of_node.pools
    counters = SearchCounters(preparation.usage)
    found = Counter(
        _why_not(wanted, candidate, preparation, blocked, kept)
        or _why_not_now(wanted, candidate, counters)
        for pool in pools
        for candidate in pool.candidates
    )
    unusable = sum(bool(pool.invalid or pool.incomplete) for pool in pools)
    if unusable:
        found["in pools that are incomplete or invalid"] = unusable
    counts = ", ".join(f"{count} {text}" for text, count in sorted(found.items())) or "none"
    count = "all" if wanted.need.mode == ALL_DEVICES else str(wanted.count)
    class_name = wanted.known_class.name
    return f"request {wanted.full_name}: {count} of class {class_name}; devices there: {counts}"


def _why_not(
    wanted: WantedDevices,
    candidate: DeviceCandidate,
    preparation: Preparation,
    blocked: AbstractSet[DeviceId],
    kept: KeptDevices,
) -> str:
    """Empty if nothing says so."""
    form = candidate.device.form
    try:
        if not preparation.selectable(wanted, candidate):
            return "not selected"
        if wanted.amounts(form, preparation.rules) is None:
            return "too small"
    except AllocationError:
        return "failing a selector"
    if candidate.key in blocked:
        return "in use without a claim"
    if preparation.usage.is_whole(candidate.key) and not wanted.need.admin_access:
        return "kept for another pod" if kept.has(candidate.key) else "in use"
    return "" if wanted.tolerates(form) else "tainted"


def _why_not_now(
    wanted: WantedDevices, candidate: DeviceCandidate, counters: SearchCounters
) -> str:  # fmt: skip
    """A device of a pool with shared counters can be free while others have used the counters."""
    form = candidate.device.form
    if wanted.need.admin_access or not form.consumes or counters.of(candidate).could_take(form):
        return _FREE
    return "without enough shared counters left"
