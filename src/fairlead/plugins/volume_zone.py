"""A volume that is labelled with a zone or region serves nodes of that zone or region only."""

from collections.abc import Iterator
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.storage import Storage
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.model.storage import Volume, VolumeClaim
from fairlead.model.volumes import VolumeClaimUse

#: Labels of volumes and nodes, and the one of today that stands in for an old one.
_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


@dataclass(frozen=True, slots=True)
class VolumeZone:
    name: ClassVar[str] = "VolumeZone"
    reads: ClassVar[Aspect] = Aspect.VOLUMES | Aspect.LABELS
    refusal: ClassVar[str] = "node(s) had no available volume zone"
    resolvable: ClassVar[bool] = False
    depends_on_pods: ClassVar[bool] = False

    def applies(self, request: PodRequest, nodes: Nodes) -> bool:
        return bool(_named_claims(request))

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        problems = (_problem_with(use, nodes.storage) for use in _named_claims(request))
        return next(filter(None, problems), "")

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        placed = nodes.none()
        for key in _LABELS:
            placed |= nodes.has_label(key)
        inside = nodes.all()
        for volume in _volumes(request, nodes.storage):
            for key, values in _zones(volume):
                inside &= nodes.label_in(key, values) | (
                    ~nodes.has_label(key) & nodes.label_in(_LABELS[key], values)
                )
        return inside | ~placed


def _named_claims(request: PodRequest) -> tuple[VolumeClaimUse, ...]:
    """Claims that the pod names itself: volumes made for it alone come where it goes."""
    uses = request.volumes.claims if request.volumes else ()
    return tuple(use for use in uses if not use.ephemeral)


def _volumes(request: PodRequest, storage: Storage) -> Iterator[Volume]:
    for use in _named_claims(request):
        claim = storage.volume_claims.get(use.key)
        volume = storage.volumes.get(claim.volume) if claim else None
        if volume is not None:
            yield volume


def _zones(volume: Volume) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key in _LABELS:
        if key in volume.labels:
            values = tuple(zone.strip() for zone in volume.labels[key].split("__"))
            if all(values):  # a list with a hole in it is ignored as a whole
                yield key, values


def _problem_with(use: VolumeClaimUse, storage: Storage) -> str:
    claim = storage.volume_claims.get(use.key)
    if claim is None:
        return f'persistentvolumeclaim "{use.name}" not found'
    if claim.volume:
        missing = claim.volume not in storage.volumes
        return f'persistentvolume "{claim.volume}" not found' if missing else ""
    return _problem_with_class(claim, storage)


def _problem_with_class(claim: VolumeClaim, storage: Storage) -> str:
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = storage.classes.get(claim.storage_class)
    if found is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return "" if found.waits else "PersistentVolume had no name"
