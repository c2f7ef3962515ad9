"""Advance reservations: watched as long as their kind is served, their statuses written."""

from fairlead.apps.run.object_watches import ClusterObjects
from fairlead.apps.run.served_kinds import KindWatch
from fairlead.engine import events
from fairlead.kube.advance import ADVANCE, AdvanceObject, ServedAdvance, decode_advance
from fairlead.model.advance import AdvanceReservation, AdvanceStatus


class AdvanceWatches(ClusterObjects[AdvanceObject, AdvanceStatus]):
    def _watch(self) -> KindWatch:
        return KindWatch("reservations", ADVANCE, decode_advance, self._on_change, self._gone)

    def _served(self, version: str) -> ServedAdvance:
        return ServedAdvance(version)

    def _seen(self, found: AdvanceObject) -> events.Event:
        return events.AdvanceSeen(found.described)

    def _unreadable(self, name: str, problem: str) -> events.Event:
        return events.AdvanceSeen(AdvanceReservation(name, problem=problem))

    def _gone(self, name: str) -> None:
        self._feed(events.AdvanceGone(name))
