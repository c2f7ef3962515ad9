"""Counted resources: watched as long as their kind is served, their statuses written."""

from fairlead.apps.run.object_watches import ClusterObjects
from fairlead.apps.run.served_kinds import KindWatch
from fairlead.engine import events
from fairlead.kube.counted import COUNTED_KIND, CountedObject, ServedCounted, decode_counted
from fairlead.model.counted import CountedResource, CountedStatus


class CountedWatches(ClusterObjects[CountedObject, CountedStatus]):
    def _watch(self) -> KindWatch:
        return KindWatch(
            "counted resources", COUNTED_KIND, decode_counted, self._on_change, self._gone
        )

    def _served(self, version: str) -> ServedCounted:
        return ServedCounted(version)

    def _seen(self, found: CountedObject) -> events.Event:
        return events.CountedSeen(found.described)

    def _unreadable(self, name: str, problem: str) -> events.Event:
        return events.CountedSeen(CountedResource(name, problem=problem))

    def _gone(self, name: str) -> None:
        self._feed(events.CountedGone(name))
