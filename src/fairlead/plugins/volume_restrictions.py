"""Disks and claims that cannot be shared must not be."""

from collections.abc import Iterable
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.storage import READ_WRITE_ONCE_POD
from fairlead.model.volumes import VolumeClaimUse
from fairlead.plugins.api import Reason

_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class VolumeRestrictions:
    name: ClassVar[str] = "VolumeRestrictions"
    reads: ClassVar[Aspect] = Aspect.VOLUMES
    refusal: ClassVar[str] = "node(s) had no available disk"
    resolvable: ClassVar[bool] = True

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        """Not for claims that only a nominated pod has: kube-scheduler does not look for them."""
        volumes = request.volumes
        return volumes is not None and (bool(volumes.disks) or _claim_is_taken(request, nodes))

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        missing = (use for use in _named(request) if use.key not in nodes.storage.volume_claims)
        first = next(missing, None)
        return f'persistentvolumeclaim "{first.name}" not found' if first else ""

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if _claim_is_taken(request, nodes):
            return nodes.none()
        return ~_disk_is_taken(request, nodes)

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        taken = _disk_is_taken(request, nodes)
        yield Reason(self.refusal, taken, taken)
        if _claim_is_taken(request, nodes):
            yield Reason(_IN_USE, ~taken, ~taken)


def _named(request: PodRequest) -> list[VolumeClaimUse]:
    uses = request.volumes.claims if request.volumes else ()
    return [use for use in uses if not use.ephemeral]


def _claim_is_taken(request: PodRequest, nodes: Nodes) -> bool:
    """Does another pod, wherever it is, use a claim that is meant for one pod at a time?"""
    for use in _named(request):
        claim = nodes.storage.volume_claims.get(use.key)
        alone = claim is not None and READ_WRITE_ONCE_POD in claim.access_modes
        if alone and nodes.storage.in_use(use.key):
            return True
    return False


def _disk_is_taken(request: PodRequest, nodes: Nodes) -> NodeMask:
    disks = request.volumes.disks if request.volumes else ()
    where = {name for disk in disks for name in nodes.storage.conflicting_nodes(disk)}
    return nodes.named(where) if where else nodes.none()
