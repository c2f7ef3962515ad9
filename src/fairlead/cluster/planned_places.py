"""Places that pods were planned for, which they get if these are still free."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fairlead.model.claims import DeviceId
from fairlead.model.gpus import Grant

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster


class PlannedPlace(NamedTuple):
    node: str
    grant: Grant | None = None
    #: What its claims get there.
    devices: frozenset[DeviceId] = frozenset()


#: The node, the GPUs and the devices of pods, by uid.
PlannedPlaces = Mapping[str, PlannedPlace]
NO_PLACES: PlannedPlaces = {}
NO_PLACE = PlannedPlace("")


@contextmanager
def planned_places(cluster: "Cluster", places: PlannedPlaces) -> Iterator[None]:
    """Pods are placed on these nodes only, with these GPUs and devices if they are free."""
    kept, cluster.planned_places = cluster.planned_places, places
    try:
        yield
    finally:
        cluster.planned_places = kept
