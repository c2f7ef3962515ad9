"""Places that pods were planned for, which they get if these are still free."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairlead.model.gpus import Grant

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: The node and the GPUs of pods, by uid.
PlannedPlaces = Mapping[str, tuple[str, Grant | None]]
NO_PLACES: PlannedPlaces = {}


@contextmanager
def planned_places(cluster: "Cluster", places: PlannedPlaces) -> Iterator[None]:
    """Pods are placed on these nodes only, with these GPUs if they are free."""
    kept, cluster.planned_places = cluster.planned_places, places
    try:
        yield
    finally:
        cluster.planned_places = kept
