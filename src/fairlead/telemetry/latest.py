"""The last word on every card and pod, whoever said it."""

from collections.abc import Container, Iterable
from dataclasses import dataclass

from fairlead.cluster.load import STALE_S
from fairlead.model.readings import CardReading, NodeReadings


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of one node just now, the latest word first."""

    words: tuple[NodeReadings, ...] = ()

    def card(self, uuid: str, index: int) -> CardReading | None:
        """By uuid, else by index for sources that know no better."""
        found = self._find(uuid, index)
        return found[1] if found else None

    def taken_s(self, uuid: str, index: int) -> float | None:
        """When that was."""
        found = self._find(uuid, index)
        return found[0].taken_s if found else None

    def _find(self, uuid: str, index: int) -> tuple[NodeReadings, CardReading] | None:
        for word in self.words:
            reading = word.cards.get(uuid) or word.cards.get(str(index))
            if reading is not None:
                return word, reading
        return None

    def pod(self, key: str, uid: str) -> CardReading | None:
        found = (word.pods.get(key) or word.pods.get(uid) for word in self.words)
        return next(filter(None, found), None)


NOTHING_TOLD = Told()


class Latest:
    """Keeps what each source said last about each node; what is too old counts for nothing."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, NodeReadings]] = {}

    def note(self, readings: Iterable[NodeReadings]) -> None:
        for told in readings:
            self._told.setdefault(told.node, {})[told.source] = told

    def forget_all_but(self, nodes: Container[str]) -> None:
        for node in [node for node in self._told if node not in nodes]:
            del self._told[node]

    def on(self, node: str, now_s: float) -> Told:
        known = self._told.get(node)
        if known is None:
            return NOTHING_TOLD
        fresh = [told for told in known.values() if now_s - told.taken_s < STALE_S]
        return Told(tuple(sorted(fresh, key=lambda told: -told.taken_s)))
