"""What is to be written next to a claim, by what it shows now.

None: nothing more. `ClaimChanged` is raised where the decision does not hold any more, in
kube-scheduler's words.
"""

from fairlead.cluster.device_claims import ClaimWrite
from fairlead.kube.claims.claims import FINALIZER
from fairlead.kube.claims.patches import (
    Json,
    JsonPatch,
    allocated,
    finalizer_patch,
    free_patch,
    reserve_patch,
    unreserve_patch,
)
from fairlead.kube.http.transport import JSON, JSON_PATCH
from fairlead.model.claims import Allocation, ClaimUser, ResourceClaim
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

_STATUS = "/status"


class ClaimChanged(FairleadError):
    """The claim is not what was decided on any more."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A write: a patch, or an object that replaces what is there."""

    #: The end of the path.
    subresource: str
    body: JsonPatch | Json
    #: In the words of kube-scheduler, where it fails.
    doing: str
    #: The finalizer that is added, and nothing else.
    finalizer: str = ""

    @property
    def method(self) -> str:
        return "PATCH" if isinstance(self.body, list) else "PUT"

    @property
    def content_type(self) -> str:
        return JSON_PATCH if isinstance(self.body, list) else JSON


def is_same(one: Allocation | None, other: Allocation | None) -> bool:
    """Whether they have the same devices for the same requests: shares have names of their own."""
    return one is not None and other is not None and _devices(one) == _devices(other)


def _devices(allocation: Allocation) -> tuple[object, ...]:
    return tuple(
        (each.request, each.key, each.admin_access, each.consumed_capacity)
        for each in allocation.devices
    )


def has_user(claim: ResourceClaim, uid: str) -> bool:
    return any(user.uid == uid for user in claim.reserved_for)


def reserve_next(pod: Pod, write: ClaimWrite, now: ResourceClaim) -> ClaimRequest | None:
    """Allocate, and reserve for the pod or its group. Pods of a gang may share one allocation."""
    user = write.user or ClaimUser(pod.uid, pod.name)
    if now.uid != write.claim.uid or (now.deleting and not has_user(now, user.uid)):
        raise ClaimChanged(f"claim {now.key} got deleted in the meantime")
    if now.allocation is not None:
        if not is_same(now.allocation, write.allocation or write.claim.allocation):
            raise ClaimChanged(f"claim {now.key} got allocated elsewhere in the meantime")
        reserved = has_user(now, user.uid)
        if reserved:
            return None
        return ClaimRequest(_STATUS, reserve_patch(now, user), "add reservation to claim")
    if write.allocation is None:
        raise ClaimChanged(f"claim {now.key} got deallocated elsewhere in the meantime")
    if FINALIZER not in now.finalizers:
        return ClaimRequest("", finalizer_patch(now), "add finalizer to claim", FINALIZER)
    doing = "add allocation and reservation to claim"
    return ClaimRequest(_STATUS, allocated(now, user, write.allocation), doing)


def take_back_next(uid: str, write: ClaimWrite, now: ResourceClaim) -> ClaimRequest | None:
    """The pod was not bound. What was allocated for it, and no other pod uses, is freed.

    A claim of its PodGroup stays: other pods of the group may use it. It is freed when it keeps the
    group from its nodes, or with the group.
    """
    if write.user is not None:
        return None
    if now.uid != write.claim.uid or not has_user(now, uid):
        return None
    is_last = len(now.reserved_for) == 1
    if is_last and is_same(now.allocation, write.allocation):
        return ClaimRequest(_STATUS, free_patch(now), "deallocate claim")
    return ClaimRequest(_STATUS, unreserve_patch(now, uid), "remove reservation of claim")


def free_next(uid: str, decided: ResourceClaim, now: ResourceClaim) -> ClaimRequest | None:
    """Free what cannot be used where the pod could go, unless another pod uses it.

    It was decided that no pod of its PodGroup uses it.
    """
    known = {uid, *(user.uid for user in decided.reserved_for if user.is_group)}
    others = any(user.uid not in known for user in now.reserved_for)
    if now.uid != decided.uid or others or not is_same(now.allocation, decided.allocation):
        return None
    return ClaimRequest(_STATUS, free_patch(now), "deallocate claim")
