"""What a scheduler watches, and the events that it makes of it."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import structlog

from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.kube.budgets import decode_budget
from fairlead.kube.codec import Namespace, decode_namespace, decode_node, decode_pod
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import (
    Change,
    Deleted,
    Synced,
    T,
    Undecodable,
    Upserted,
    Vanished,
    change_key,
)
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.pod_selectors import KINDS, SelectingObject, decoder_of
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.kube.reservations import as_reservation
from fairlead.kube.storage_codec import CLAIMS, STORAGE_KINDS, VOLUMES
from fairlead.model.budgets import Budget
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.model.storage import StorageObject, Volume, VolumeClaim

log = structlog.get_logger(__name__)

# Terminal pods hold nothing: the server need not send them, and sends an event when one becomes so.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Watches:
    """A reflector for each kind of object. What they see is fed to the engine as events."""

    def __init__(
        self,
        client: Client,
        engine: Engine,
        feed: Callable[[events.Event], None],
        woken: Callable[[], None],
        unreadable: Callable[[str, Pod | None, Exception], None],
        *,
        with_selectors: bool,
        reservations_in: str = "",
        gang_dialects: GangDialects = ALL,
        queue_dialects: QueueDialects = ALL_QUEUES,
    ) -> None:
        """`with_selectors`: also Services and controllers, for default topology spreading.

        Pods with the label of reservations are such pods in the namespace `reservations_in`.

        `unreadable` takes what cannot be read, by key, and what can be said of it if it is a pod.
        """
        self._engine = engine
        self._reservations_in = reservations_in
        self._unreadable = unreadable
        self._gang_dialects = gang_dialects
        self._queue_dialects = queue_dialects
        self._feed = feed
        self._woken = woken
        self.pods = Reflector(
            client,
            "/api/v1/pods",
            self.decode_pod,
            self._guarded(self._on_pod),
            field_selector=UNFINISHED,
        )
        self._storage = {
            path: Reflector(
                client, path, decode, self._guarded(partial(self._on_storage, _last_part(path)))
            )
            for path, decode in STORAGE_KINDS.items()
        }
        self.all: tuple[Reflector[Any], ...] = (
            Reflector(client, "/api/v1/nodes", decode_node, self._guarded(self._on_node)),
            self.pods,
            Reflector(
                client,
                "/api/v1/namespaces",
                partial(decode_namespace, queue_dialects=queue_dialects),
                self._guarded(self._on_namespace),
            ),
            Reflector(
                client,
                "/apis/policy/v1/poddisruptionbudgets",
                decode_budget,
                self._guarded(self._on_budget),
            ),
            *self._storage.values(),
            *(self._pod_selectors(client) if with_selectors else ()),
        )
        #: Kinds of which not everything was listed yet.
        self.unsynced = [_last_part(each.path) for each in self.all]

    @property
    def volume_claims(self) -> Mapping[str, VolumeClaim]:
        return cast(Mapping[str, VolumeClaim], self._storage[CLAIMS].objects)

    @property
    def volumes(self) -> Mapping[str, Volume]:
        return cast(Mapping[str, Volume], self._storage[VOLUMES].objects)

    def _pod_selectors(self, client: Client) -> Iterator[Reflector[SelectingObject]]:
        for kind, (path, _) in KINDS.items():
            yield Reflector(
                client,
                path,
                decoder_of(kind),
                self._guarded(partial(self._on_pod_selector, _last_part(path))),
            )

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is there is fed once more; yields now and then."""
        for reflector in self.all:
            async for _ in reflector.retell():
                yield

    def _guarded(self, on_change: Callable[[Change[T]], None]) -> Callable[[Change[T]], None]:
        """The same, but what it raises is a failure of the object that changed."""

        def deliver(change: Change[T]) -> None:
            try:
                if isinstance(change, Undecodable):
                    self._unreadable(change.key or "", _pod_of(change), ValueError(change.error))
                on_change(change)
            except Exception as error:
                self._unreadable(change_key(change), None, error)

        return deliver

    # -- what they see -----------------------------------------------------------------------

    def decode_pod(self, raw: bytes) -> Pod:
        """As the API server of its version means it."""
        behaviour = self._engine.cluster.behaviour
        pod = decode_pod(raw, behaviour, self._gang_dialects, self._queue_dialects)
        return as_reservation(pod, raw) if pod.namespace == self._reservations_in else pod

    def _on_node(self, change: Change[Node]) -> None:
        match change:
            case Upserted(node):
                self._complain_of_gpus(node)
                self._feed(events.NodeSeen(node))
            case Deleted(node):
                self._feed(events.NodeGone(node.name))
            case Synced():
                self._sync("nodes")
            case Undecodable():
                log.error("node cannot be read", node=change.key, error=change.error)
                if change.key:
                    self._feed(events.NodeDistrusted(change.key, f"node/{change.key}"))
            case Vanished(key):
                self._feed(events.TrustRestored(f"node/{key}"))

    def _complain_of_gpus(self, node: Node) -> None:
        """Once, not with every heartbeat."""
        before = self._engine.cluster.node_named(node.name)
        if node.gpu_problem and (before is None or before.gpu_problem != node.gpu_problem):
            log.warning(
                "GPU list of the node cannot be read", node=node.name, error=node.gpu_problem
            )

    def _on_pod(self, change: Change[Pod]) -> None:
        match change:
            case Upserted(pod):
                self._feed(events.PodSeen(pod))
            case Deleted(pod):
                self._feed(events.PodGone(pod))
            case Synced():
                self._sync("pods")
            case Undecodable():
                log.error("pod cannot be read", pod=change.key, error=change.error)
                self._distrust_node_of(change)
            case Vanished(key):
                self._feed(events.TrustRestored(key))

    def _on_namespace(self, change: Change[Namespace]) -> None:
        match change:
            case Upserted(namespace):
                self._feed(events.NamespaceSeen(namespace.name, namespace.labels, namespace.queue))
            case Deleted(namespace):
                self._feed(events.NamespaceSeen(namespace.name, None))
            case Synced():
                self._sync("namespaces")
            case Undecodable() | Vanished():
                log.error("namespace cannot be read", namespace=change.key)

    def _on_budget(self, change: Change[Budget]) -> None:
        match change:
            case Upserted(budget):
                self._feed(events.BudgetSeen(budget))
            case Deleted(budget):
                self._feed(events.BudgetGone(budget.key))
            case Synced():
                self._sync("poddisruptionbudgets")
            case Undecodable() | Vanished():
                log.error("disruption budget cannot be read", budget=change.key)

    def _on_pod_selector(self, what: str, change: Change[SelectingObject]) -> None:
        match change:
            case Upserted(seen):
                event = events.SelectorSeen(seen.kind, seen.namespace, seen.name, seen.selector)
                self._feed(event)
            case Deleted(gone):
                self._feed(events.SelectorSeen(gone.kind, gone.namespace, gone.name, None))
            case Synced():
                self._sync(what)
            case Undecodable() | Vanished():
                log.error("selector cannot be read", what=what, key=change.key)

    def _on_storage(self, what: str, change: Change[StorageObject]) -> None:
        match change:
            case Upserted(told):
                self._feed(events.StorageSeen(told))
            case Deleted(gone):
                self._feed(events.StorageGone(gone))
            case Synced():
                self._sync(what)
            case Undecodable():
                log.error("storage cannot be read", what=what, key=change.key, error=change.error)
            case Vanished():
                pass

    def _distrust_node_of(self, change: Undecodable) -> None:
        spec = (change.object or {}).get("spec")
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        if isinstance(node, str) and node and change.key:
            self._feed(events.NodeDistrusted(node, change.key))

    def _sync(self, what: str) -> None:
        if what in self.unsynced:
            self.unsynced.remove(what)
            log.info("synced", what=what, nodes=len(self._engine.cluster))
        self._woken()


def _pod_of(change: Undecodable) -> Pod | None:
    """A pending pod that cannot be read, as far as an Event on it needs to know it."""
    found = change.object or {}
    spec, namespace = found.get("spec"), (change.key or "").partition("/")
    if not isinstance(spec, dict) or "containers" not in spec or spec.get("nodeName"):
        return None
    scheduler = str(spec.get("schedulerName", ""))
    return Pod(
        namespace[0], namespace[2], uid=change.uid, version=change.version, scheduler=scheduler
    )


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]
