"""The objects of gangs and topologies: watched while their kinds are served.

A kind of gangs that goes takes its gangs with it: their pods wait and say what to install, they are
never placed singly. Statuses of gangs are written.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import structlog

from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.apps.run.object_watches import ObjectWatches, is_forbidden
from fairlead.apps.run.served_kinds import EVERY_S, KindWatch, ServedKinds, Supervise, WatchedKind
from fairlead.apps.run.topology_watches import topology_watches
from fairlead.base.run_together import run_together
from fairlead.engine import events
from fairlead.kube.errors import ApiError
from fairlead.kube.gangs.api import GangDialect, GangKind, GangObject
from fairlead.kube.gangs.registry import GangDialects, decode_object
from fairlead.kube.gangs.status_writer import GangStatusWriter, ServedKind
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted
from fairlead.kube.mirror.reflector import Reflector
from fairlead.model.gangs import GangSpec, GangStatus

log = structlog.get_logger(__name__)

WhenServed = Callable[[], Awaitable[None]]


class GangWatches(ObjectWatches):
    """Follows what the API server serves, and feeds the engine what it says about gangs."""

    def __init__(
        self,
        client: Client,
        dialects: GangDialects,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        writer: GangStatusWriter,
        *,
        when_served: Mapping[str, WhenServed] | None = None,
        requests: NodeRequestCare | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        """`requests`: where nodes are requested for gangs that lack them."""
        self._feed = feed
        self._requests = requests
        self.writer = writer
        self._dialects = {each.name: each for each in dialects.dialects}
        watches = [self._watch(each, each.kind) for each in dialects.dialects if each.kind]
        self._kinds = ServedKinds(
            client,
            [*watches, *topology_watches(feed, self._dialects)],
            supervise,
            looked=self._on_look,
            every_s=every_s,
        )
        #: What the engine was last told, by dialect.
        self._problems: dict[str, str] = {}
        self._when_served = dict(when_served or {})

    def _watch(self, dialect: GangDialect, kind: GangKind) -> KindWatch:
        return KindWatch(
            dialect.name,
            kind,
            partial(decode_object, dialect),
            partial(self._on_change, dialect.name),
            lambda name: self._feed(events.GangGone(f"{dialect.name}/{name}")),
        )

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Those of kinds that are served now."""
        return *super().reflectors, *(self._requests.reflectors if self._requests else ())

    @property
    def is_synced(self) -> bool:
        """Whether all objects that can be listed once were, and whether nodes can be requested."""
        return super().is_synced and (self._requests is None or self._requests.is_synced)

    async def run(self) -> None:
        """Follows until it is cancelled."""
        parts = [super().run(), *([self._requests.run()] if self._requests else ())]
        await run_together(*parts)

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is known is fed once more; yields now and then."""
        if self._requests:
            self._requests.say_served()
        for dialect, problem in self._problems.items():
            self._feed(events.GangKindSeen(dialect, problem))
        async for _ in self._retell_objects():
            yield

    def write(self, spec: GangSpec, status: GangStatus) -> None:
        """Has the status of a gang's object written, if it has one."""
        name, _, key = spec.key.partition("/")
        served = self._kinds.get(name)
        seen = served.reflector.objects.get(key) if served else None
        if served is not None and seen is not None:
            place = ServedKind(self._dialects[name], self._kind_of(name), served.version)
            self.writer.put(place, seen, status)

    def _kind_of(self, dialect: str) -> GangKind:
        kind = self._dialects[dialect].kind
        assert kind is not None, dialect
        return kind

    async def _on_look(self, watch: KindWatch, served: WatchedKind | None) -> None:
        if watch.name not in self._dialects:
            return
        kind = self._kind_of(watch.name)
        if served is None and kind.is_built_in and watch.name not in self._problems:
            log.info("gangs of Kubernetes are off", kind=kind.full_name, to_use_them=kind.remedy)
        self._say(watch.name, _problem(kind, served))
        if served is not None:
            await self._prepare(watch.name)

    async def _prepare(self, dialect: str) -> None:
        """Does once what is to be done where the objects of the dialect are served."""
        if todo := self._when_served.get(dialect):
            try:
                await todo()
            except ApiError as error:
                log.debug("cannot prepare for gangs; retrying", dialect=dialect, error=str(error))
            else:
                del self._when_served[dialect]

    def _say(self, dialect: str, problem: str) -> None:
        if self._problems.get(dialect) != problem:
            self._problems[dialect] = problem
            self._feed(events.GangKindSeen(dialect, problem))

    def _on_change(self, dialect: str, change: Change[GangObject]) -> None:
        match change:
            case Upserted(obj):
                self._feed(events.GangSeen(obj.spec))
            case Deleted(obj):
                self._feed(events.GangGone(obj.spec.key))
            case Synced():
                self._feed(events.GangKindSeen(dialect))
            case Undecodable():
                log.error("gang cannot be read", gang=change.key, error=change.error)


def _problem(kind: GangKind, served: WatchedKind | None) -> str:
    if served is None:
        return (
            f"the gang of the pod is not known: the API server does not serve {kind.full_name}; "
            f"{kind.remedy}"
        )
    if is_forbidden(served):
        return (
            f"the gang of the pod is not known: the scheduler may not list {kind.full_name}; "
            "grant it get, list and watch"
        )
    return ""
