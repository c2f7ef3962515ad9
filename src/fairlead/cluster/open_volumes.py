"""Volumes that any claim of their class may take, smallest first.

There may be thousands of a class, and every claim looks at all of them, so what a claim asks about
is worked out once, when the volume is seen.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from fairlead.model.storage import Volume


class OpenVolume(NamedTuple):
    """Sorted by size, and by name among equals, so that a replay agrees."""

    capacity_bytes: int
    name: str
    volume: Volume
    #: Volumes of one shape serve the same claims, labels apart.
    shape: tuple[int, str, str, tuple[str, ...]]

    @classmethod
    def of(cls, volume: Volume) -> "OpenVolume":
        size, mode = volume.capacity_bytes, volume.mode
        shape = (size, mode, volume.attributes_class, volume.access_modes)
        return cls(size, volume.name, volume, shape)


class OpenVolumes:
    """By class."""

    def __init__(self) -> None:
        self._by_class: dict[str, list[OpenVolume]] = {}

    def of(self, storage_class: str) -> Sequence[OpenVolume]:
        return self._by_class.get(storage_class, ())

    def put(self, volume: Volume) -> None:
        insort(self._by_class.setdefault(volume.storage_class, []), OpenVolume.of(volume))

    def drop(self, volume: Volume) -> None:
        """Forgets the volume, if it is here."""
        listed = self._by_class.get(volume.storage_class, [])
        place = bisect_left(listed, (volume.capacity_bytes, volume.name))
        if place < len(listed) and listed[place].name == volume.name:
            del listed[place]
            if not listed:
                del self._by_class[volume.storage_class]
