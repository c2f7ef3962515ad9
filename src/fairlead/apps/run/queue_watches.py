"""The objects of queues: watched as long as their kinds are served, their statuses written.

Queues of our own are required: pods that name one wait while the kind is not served. Words of
other APIs whose queues are not installed have no effect, as for users who have no such queues.
"""

from collections.abc import AsyncIterator, Callable, Container
from functools import partial
from typing import Any

import structlog

from fairlead.apps.run.object_watches import ObjectWatches, is_forbidden
from fairlead.apps.run.served_kinds import EVERY_S, KindWatch, ServedKinds, Supervise, WatchedKind
from fairlead.apps.run.yunikorn_watch import YunikornWatch
from fairlead.base.run_together import run_together
from fairlead.engine import events
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.queues.api import QueueDialect, QueueKind, QueueObject
from fairlead.kube.queues.fairlead import FairleadQueues
from fairlead.kube.queues.registry import QueueDialects, decode_queue
from fairlead.kube.queues.status_writer import QueueStatusWriter, ServedQueues
from fairlead.kube.queues.yunikorn import YunikornQueues, yunikorn_alias, yunikorn_key
from fairlead.model.queues import QueueSpec, QueueStatus

log = structlog.get_logger(__name__)


class QueueWatches(ObjectWatches):
    """Follows what the API server serves, and feeds the engine what it says about queues."""

    def __init__(
        self,
        client: Client,
        dialects: QueueDialects,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        writer: QueueStatusWriter,
        *,
        serves: Container[str] = (),
        every_s: float = EVERY_S,
    ) -> None:
        """`serves`: the scheduler names of our profiles, which decide whose statuses are ours."""
        self._feed = feed
        self.writer = writer
        self._serves = serves
        self._dialects = {each.name: each for each in dialects.dialects}
        self._supervise, self._every_s = supervise, every_s
        listed_in = _config_map(dialects)
        self._yunikorn = YunikornWatch(client, listed_in, feed, self._say) if listed_in else None
        self._kinds = ServedKinds(
            client,
            [self._watch(each, each.kind) for each in dialects.dialects if each.kind],
            supervise,
            looked=self._on_look,
            every_s=every_s,
        )
        #: The key of the object that describes each queue, and of others of the same queue.
        self._objects: dict[str, str] = {}
        self._ignored: dict[str, set[str]] = {}
        #: Queues that exist without an object, by dialect.
        self._implied: dict[str, set[str]] = {}
        #: Queues of ours that YuniKorn's words name, as these name them.
        self._aliases: dict[str, QueueSpec] = {}
        #: The last event that was fed about each kind, by dialect.
        self._said: dict[str, events.QueueKindSeen] = {}

    def _watch(self, dialect: QueueDialect, kind: QueueKind) -> KindWatch:
        return KindWatch(
            dialect.name,
            kind,
            partial(decode_queue, dialect),
            partial(self._on_change, dialect),
            partial(self._gone, dialect),
        )

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        more = (self._yunikorn.reflector,) if self._yunikorn else ()
        return (*super().reflectors, *more)

    @property
    def is_synced(self) -> bool:
        return super().is_synced and (self._yunikorn is None or self._yunikorn.is_synced)

    async def run(self) -> None:
        if self._yunikorn is None:
            await super().run()
            return
        looking = self._yunikorn.look_on(self._every_s)
        await run_together(super().run(), self._follow(self._yunikorn), looking)

    async def _follow(self, yunikorn: YunikornWatch) -> None:
        await self._supervise("queues of YuniKorn", yunikorn.reflector.run)

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is known is fed once more; yields now and then."""
        if self._yunikorn is not None:
            self._yunikorn.forget()
        async for _ in self._retell_objects():
            yield
        for dialect, keys in self._implied.items():
            for key in list(keys):
                self._imply(self._dialects[dialect], key.rpartition("/")[2])
        for event in self._said.values():
            self._feed(event)

    def write(self, key: str, status: QueueStatus) -> None:
        """Has the status of a queue's object written, if it is ours to write."""
        dialect = self._dialects.get(key.partition("/")[0])
        served = self._kinds.get(dialect.name) if dialect else None
        seen = served.reflector.objects.get(self._objects.get(key, "")) if served else None
        if dialect and dialect.kind and served and seen and self._may_write(dialect):
            place = ServedQueues(dialect, dialect.kind, served.version)
            self.writer.put(place, seen, status)

    def _may_write(self, dialect: QueueDialect) -> bool:
        return dialect.written_by == "" or dialect.written_by in self._serves

    async def _on_look(self, watch: KindWatch, served: WatchedKind | None) -> None:
        dialect = self._dialects[watch.name]
        is_served = served is not None and served.reflector.synced
        event = events.QueueKindSeen(watch.name, is_served, _problem(dialect, served))
        if served is None:
            for key in self._implied.pop(watch.name, ()):
                self._feed(events.QueueGone(key))
        is_first = watch.name not in self._said
        self._say(event)
        if is_first and len(self._said.keys() - {YunikornQueues.name}) == len(self._kinds):
            self._log_missing()

    def _log_missing(self) -> None:
        missing = [d for d, said in self._said.items() if not (said.is_served or said.problem)]
        if missing := [dialect for dialect in missing if self._kinds.get(dialect) is None]:
            log.info("queues are not installed; their words have no effect", dialects=missing)

    def _say(self, event: events.QueueKindSeen) -> None:
        if self._said.get(event.dialect) != event:
            self._said[event.dialect] = event
            self._feed(event)

    def _on_change(self, dialect: QueueDialect, change: Change[QueueObject]) -> None:
        match change:
            case Upserted(obj) if self._is_ignored(dialect, obj):
                log.warning("two objects describe one queue; the older applies",
                            queue=obj.spec.key, ignored=obj.key)  # fmt: skip
            case Upserted(obj):
                self._objects[obj.spec.key] = obj.key
                self._implied.get(dialect.name, set()).discard(obj.spec.key)
                self._feed(events.QueueSeen(obj.spec))
                self._alias(dialect, obj.spec)
            case Deleted(obj):
                self._gone(dialect, obj.key)
            case Synced():
                for name in dialect.implied:
                    self._imply(dialect, name)
                self._say(events.QueueKindSeen(dialect.name, is_served=True))
            case Undecodable():
                log.error("queue cannot be read", queue=change.key, error=change.error)

    def _is_ignored(self, dialect: QueueDialect, obj: QueueObject) -> bool:
        """Names of quotas of Koordinator are global, but nothing keeps two namespaces apart.

        The older object applies, whichever comes first, so that all replicas agree.
        """
        key, known = obj.spec.key, self._objects.get(obj.spec.key)
        if known is None or known == obj.key:
            return False
        other = self._object(dialect, known)
        is_newer = other is not None and _age(other) < _age(obj)
        self._ignored.setdefault(key, set()).add(obj.key if is_newer else known)
        return is_newer

    def _object(self, dialect: QueueDialect, name: str) -> QueueObject | None:
        served = self._kinds.get(dialect.name)
        return served.reflector.objects.get(name) if served else None

    def _gone(self, dialect: QueueDialect, name: str) -> None:
        namespace, _, last = name.rpartition("/")
        key = dialect.key(namespace, last)
        ignored = self._ignored.pop(key, set()) - {name}
        others = [each for each in (self._object(dialect, other) for other in ignored) if each]
        if self._objects.get(key) != name:
            if ignored:
                self._ignored[key] = ignored
            return  # another object describes the queue of this name
        del self._objects[key]
        for other in sorted(others, key=_age):
            self._on_change(dialect, Upserted(other))
        if others:
            return
        self._feed(events.QueueGone(key))
        if self._aliases.pop(alias := yunikorn_key(QueueSpec(key)), None):
            self._feed(events.QueueGone(alias))
            self._say(events.QueueKindSeen(YunikornQueues.name, bool(self._aliases)))
        if last in dialect.implied and self._kinds.get(dialect.name):
            self._imply(dialect, last)

    def _alias(self, dialect: QueueDialect, spec: QueueSpec) -> None:
        """Words of YuniKorn have an effect as long as a queue of ours has such a name."""
        if dialect.name != FairleadQueues.name or YunikornQueues.name not in self._dialects:
            return
        if self._yunikorn is not None:
            return  # the ConfigMap says what its names mean
        if key := yunikorn_key(spec):
            alias = self._aliases[key] = yunikorn_alias(spec)
            self._feed(events.QueueSeen(alias))
            self._say(events.QueueKindSeen(YunikornQueues.name, is_served=True))

    def _imply(self, dialect: QueueDialect, name: str) -> None:
        """A queue that exists without an object."""
        key = dialect.key("", name)
        if key not in self._objects:
            self._implied.setdefault(dialect.name, set()).add(key)
            self._feed(events.QueueSeen(dialect.implied_spec(name)))


def _config_map(dialects: QueueDialects) -> tuple[str, str] | None:
    """The ConfigMap that lists YuniKorn's queues, if one is configured."""
    found = (each.config_map for each in dialects.dialects if isinstance(each, YunikornQueues))
    return next(found, None)


def _age(obj: QueueObject) -> tuple[float, str]:
    return obj.spec.created_s, obj.key


def _problem(dialect: QueueDialect, served: WatchedKind | None) -> str:
    kind = dialect.kind
    if served is None and kind is not None and kind.if_missing:
        return f"the queue of the pod is not known: {kind.if_missing}"
    if served is not None and is_forbidden(served):
        return (
            f"the queue of the pod is not known: the scheduler may not list "
            f"{served.watch.kind.full_name}; grant it list and watch"
        )
    return ""
