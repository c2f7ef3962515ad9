"""The latest reading of every GPU and pod, of all sources."""

from collections.abc import Container, Iterable

from fairlead.cluster.load import STALE_S
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.readings import GpuReading, NodeReadings


@dataclass(frozen=True, slots=True)
class LatestReadings:
    """The current readings of one node, the latest first."""

    readings: tuple[NodeReadings, ...] = ()

    def gpu(self, uuid: str, index: int) -> GpuReading | None:
        """By uuid, or by index for sources without uuids."""
        found = self._find(uuid, index)
        return found[1] if found else None

    def taken_s(self, uuid: str, index: int) -> float | None:
        """When that reading was taken."""
        found = self._find(uuid, index)
        return found[0].taken_s if found else None

    def _find(self, uuid: str, index: int) -> tuple[NodeReadings, GpuReading] | None:
        for node in self.readings:
            reading = node.gpus.get(uuid) or node.gpus.get(str(index))
            if reading is not None:
                return node, reading
        return None

    def pod(self, key: str, uid: str) -> GpuReading | None:
        found = (node.pods.get(key) or node.pods.get(uid) for node in self.readings)
        return next(filter(None, found), None)


NO_READINGS = LatestReadings()


class ReadingStore:
    """Keeps the last reading of each node by source; stale ones are not returned."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, NodeReadings]] = {}

    def note(self, readings: Iterable[NodeReadings]) -> None:
        for each in readings:
            self._by_node.setdefault(each.node, {})[each.source] = each

    def forget_all_but(self, nodes: Container[str]) -> None:
        for node in [node for node in self._by_node if node not in nodes]:
            del self._by_node[node]

    def on(self, node: str, now_s: float) -> LatestReadings:
        known = self._by_node.get(node)
        if known is None:
            return NO_READINGS
        fresh = [each for each in known.values() if now_s - each.taken_s < STALE_S]
        return LatestReadings(tuple(sorted(fresh, key=lambda each: -each.taken_s)))
