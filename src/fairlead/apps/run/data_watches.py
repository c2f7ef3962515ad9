"""Objects that say where data is, watched while their kinds are served and a goal counts it."""

from collections.abc import Iterable, Iterator
from functools import partial

import structlog

from fairlead.apps.run.object_watches import FedWatches
from fairlead.apps.run.served_kinds import KindWatch
from fairlead.engine import events
from fairlead.kube.data_objects import DATA_KINDS, DataObject, data_decoder, gone
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted, Vanished
from fairlead.placement.profile import Profile
from fairlead.plugins.fetch_time import FetchTime

log = structlog.get_logger(__name__)


def count_data(profiles: Iterable[Profile]) -> bool:
    """Whether some profile counts the time to fetch data."""
    goals = (goal for profile in profiles if profile.goals for goal in profile.goals.all)
    return any(isinstance(goal, FetchTime) for goal in goals)


class DataWatches(FedWatches):
    def _watches(self) -> Iterator[KindWatch]:
        return map(self._watch, DATA_KINDS)

    def _watch(self, kind: GangKind) -> KindWatch:
        return KindWatch(
            f"data {kind.plural}",
            kind,
            data_decoder(kind),
            partial(self._on_change, kind),
            partial(self._gone, kind),
        )

    def _on_change(self, kind: GangKind, change: Change[DataObject]) -> None:
        match change:
            case Upserted(found):
                self._feed(events.DataSeen(found.described))
            case Deleted(found):
                self._gone(kind, found.key)
            case Vanished():
                self._gone(kind, change.key)
            case Undecodable():
                log.error("object cannot be read", name=change.key, error=change.error)
                if change.key is not None:
                    self._gone(kind, change.key)
            case _:
                return

    def _gone(self, kind: GangKind, key: str) -> None:
        self._feed(events.DataSeen(gone(kind, key)))
