"""What resource claims count for in the amounts of a queue: devices of NVIDIA's driver are GPUs.

A claim that several pods use counts once: for the first pod that it is reserved for.
"""

from collections.abc import Iterable

from fairlead.cluster.device_claims import DeviceClaims
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import AllocatedDevice, DeviceId, DeviceNeed, ResourceClaim
from fairlead.model.device_gpus import NVIDIA, profile_of
from fairlead.model.gpu_parts import slice_milli
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import GPU


def asked_milli(uses: Iterable[ClaimUse], state: DeviceClaims) -> int:
    """Thousandths of GPUs that claims of a pending pod ask for, and that no pod counts for yet."""
    return sum(
        _milli(claim, state) for claim in _distinct(uses, state) if not _is_counted(claim, state)
    )


def held_milli(uid: str, uses: Iterable[ClaimUse], state: DeviceClaims) -> int:
    """The same for a pod with a node, which counts for claims that it is the first to use."""
    claims = _distinct(uses, state)
    return sum(_milli(claim, state) for claim in claims if _pays(uid, claim, state))


def count_users(uid: str, uses: Iterable[ClaimUse], state: DeviceClaims) -> None:
    """The pod has a node: claims of a PodGroup may count for it from now on.

    Those of its own group also before they are reserved for the group, or seen at all.
    """
    for use in uses:
        claim = state.claim_of(use)
        if use.key and (use.group or (claim is not None and _is_for_group(claim))):
            state.groups.came(uid, use.key)


def milli_of_gpu(devices: Iterable[DeviceId]) -> int:
    """What these devices are of the one GPU that they are parts of."""
    return min(WHOLE, sum(map(_milli_of, devices)))


def _distinct(uses: Iterable[ClaimUse], state: DeviceClaims) -> Iterable[ResourceClaim]:
    found = (claim for use in uses if (claim := state.claim_of(use)) is not None)
    return {claim.uid: claim for claim in found}.values()


def _pays(uid: str, claim: ResourceClaim, state: DeviceClaims) -> bool:
    if not claim.reserved_for or _is_for_group(claim):
        return state.groups.pays(uid, claim)
    return claim.reserved_for[0].uid == uid


def _is_counted(claim: ResourceClaim, state: DeviceClaims) -> bool:
    if _is_for_group(claim):
        return state.groups.is_counted(claim)
    return bool(claim.allocation and claim.reserved_for)


def _is_for_group(claim: ResourceClaim) -> bool:
    return bool(claim.reserved_for) and claim.reserved_for[0].is_group


def _milli(claim: ResourceClaim, state: DeviceClaims) -> int:
    if held := state.held.get(claim.uid):
        return sum(_milli_of(device) for device in held if not device.admin_access)
    found = 0
    for request in claim.requests:
        needs = [request.exactly] if request.exactly else request.first_available
        found += max((_milli_asked(need, state) for need in needs), default=0)
    return found


def _milli_of(device: AllocatedDevice | DeviceId) -> int:
    """By its name, as NVIDIA's driver gives it: `gpu-0`, or `gpu-0-mig-1g10gb-19-0`."""
    if device.driver != NVIDIA:
        return 0
    profile = profile_of(device.device)
    return slice_milli(profile) if profile else WHOLE


def _milli_asked(need: DeviceNeed, state: DeviceClaims) -> int:
    """At most: all of a node is not known before there is one."""
    found = state.classes.get(need.class_name)
    if found is None or need.admin_access:
        return 0
    texts = (*found.selectors, *need.selectors)
    is_gpu = found.extended_resource == GPU or any(NVIDIA in text for text in texts if text)
    return WHOLE * max(need.count, 1) if is_gpu else 0
