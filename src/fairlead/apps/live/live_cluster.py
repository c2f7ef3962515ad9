"""A cluster as it is now, listed once, as the events that a scheduler would have seen.

For commands that look and do not touch: `fairlead explain` and `fairlead compare --live`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TypeVar

import msgspec

from fairlead.apps.run.watches import UNFINISHED
from fairlead.engine.events import (
    AdvanceSeen,
    BudgetSeen,
    ClaimObjectSeen,
    CountedSeen,
    Event,
    GangSeen,
    NamespaceSeen,
    NodeSeen,
    PodSeen,
    QueueKindSeen,
    QueueSeen,
    SelectorSeen,
    ServerKnown,
    StorageSeen,
)
from fairlead.kube.advance import ADVANCE, decode_advance
from fairlead.kube.budgets import decode_budget
from fairlead.kube.claims.kinds import CLAIM_KINDS
from fairlead.kube.codec import decode_namespace, decode_node, decode_pod
from fairlead.kube.counted import COUNTED_KIND, decode_counted
from fairlead.kube.errors import ApiError
from fairlead.kube.gangs.discovery import served_versions
from fairlead.kube.gangs.registry import ALL, GangDialects, decode_object
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace
from fairlead.kube.mirror.listing import pages
from fairlead.kube.mirror.wire import StatusError
from fairlead.kube.pod_selectors import KINDS, decoder_of
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects, decode_queue
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.kube.queues.yunikorn_config import decode_yunikorn
from fairlead.kube.reservations import as_reservation
from fairlead.kube.storage_codec import STORAGE_KINDS
from fairlead.kube.version import ask_version
from fairlead.model.behaviour import Behaviour, behaviour_of
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod

T = TypeVar("T")


class NotListed(FairleadError):
    """The API server did not list something; the text says why."""


class Forbidden(NotListed):
    """The user may not list it."""


class _ObjectMeta(msgspec.Struct):
    created: str = msgspec.field(default="", name="creationTimestamp")


class _Object(msgspec.Struct):
    metadata: _ObjectMeta = msgspec.field(default_factory=_ObjectMeta)


_created = msgspec.json.Decoder(_Object)


async def ask_behaviour(client: Client) -> Behaviour:
    """That of the API server's version. Raises ApiError when it cannot be asked just now."""
    return behaviour_of(*await ask_version(client))


async def events(
    client: Client,
    behaviour: Behaviour | None = None,
    *,
    selectors: bool = True,
    gangs: GangDialects = ALL,
    queues: QueueDialects = ALL_QUEUES,
) -> AsyncIterator[Event]:
    """Pods come after all that they may depend on. `selectors`: also Services and controllers."""
    behaviour = behaviour or await ask_behaviour(client)
    yield ServerKnown(behaviour)
    async for node in list_objects(client, "/api/v1/nodes", decode_node):
        yield NodeSeen(node)
    async for namespace in list_objects(client, "/api/v1/namespaces", decode_namespace):
        yield NamespaceSeen(namespace.name, namespace.labels, namespace.queue)
    for kind, (path, _) in KINDS.items() if selectors else ():
        async for seen in list_objects(client, path, decoder_of(kind)):
            yield SelectorSeen(kind, seen.namespace, seen.name, seen.selector)
    for path, decode_storage in STORAGE_KINDS.items():
        async for told in list_objects(client, path, decode_storage):
            yield StorageSeen(told)
    async for event in _gang_objects(client, gangs):
        yield event
    async for event in _queue_objects(client, queues):
        yield event
    async for event in _advance_objects(client):
        yield event
    async for event in _counted_objects(client):
        yield event
    async for event in _claim_objects(client):
        yield event
    understand = partial(
        decode_pod, behaviour=behaviour, gang_dialects=gangs, queue_dialects=queues
    )

    def decode(raw: msgspec.Raw) -> tuple[str, Pod]:
        created = _created.decode(raw).metadata.created
        return created, as_reservation(understand(raw), raw)

    # The oldest first, as a scheduler that was running has seen them: it is the order of the queue.
    only = {"fieldSelector": UNFINISHED}
    listed = [pod async for pod in list_objects(client, "/api/v1/pods", decode, only)]
    for _, pod in sorted(listed, key=itemgetter(0)):
        yield PodSeen(pod)
    # Budgets only say which pods eviction would spare. They are left out without that right.
    with suppress(NotListed):
        async for budget in list_objects(
            client, "/apis/policy/v1/poddisruptionbudgets", decode_budget
        ):
            yield BudgetSeen(budget)


async def _gang_objects(client: Client, gangs: GangDialects) -> AsyncIterator[Event]:
    """Of the kinds that are served. Kinds that the user may not list are left out."""
    dialects = {each.kind: each for each in gangs.dialects if each.kind}
    with suppress(ApiError):
        for kind, version in (await served_versions(client, dialects)).items():
            decode = partial(decode_object, dialects[kind])
            with suppress(NotListed):
                async for seen in list_objects(client, kind.path(version), decode):
                    yield GangSeen(seen.spec)


async def _queue_objects(client: Client, queues: QueueDialects) -> AsyncIterator[Event]:
    """Of the kinds that are served. Of kinds that the user may not list, no queue applies."""
    dialects = {each.kind: each for each in queues.dialects if each.kind}
    with suppress(ApiError):
        for kind, version in (await served_versions(client, dialects)).items():
            dialect = dialects[kind]
            if not version:
                yield QueueKindSeen(dialect.name, is_served=False, problem=kind.if_missing)
                continue
            with suppress(NotListed):
                decode = partial(decode_queue, dialect)
                async for seen in list_objects(client, kind.path(version), decode):
                    yield QueueSeen(seen.spec)
                yield QueueKindSeen(dialect.name, is_served=True)
    for each in queues.dialects:
        if isinstance(each, YunikornQueues) and each.config_map:
            async for event in _listed_by_yunikorn(client, *each.config_map):
                yield event


async def _listed_by_yunikorn(client: Client, namespace: str, name: str) -> AsyncIterator[Event]:
    """The queues of the ConfigMap, if the user may read it."""
    path, only = (
        in_namespace("/api/v1", namespace, "configmaps"),
        {"fieldSelector": f"metadata.name={name}"},
    )
    problem = f"the queue of the pod is not known: the ConfigMap {namespace}/{name} is not readable"
    with suppress(NotListed):
        decode = partial(decode_yunikorn, YunikornQueues.name)
        async for config in list_objects(client, path, decode, only):
            for spec in config.queues:
                yield QueueSeen(spec)
            problem = config.problem
    yield QueueKindSeen(YunikornQueues.name, is_served=True, problem=problem)


async def _advance_objects(client: Client) -> AsyncIterator[Event]:
    """Where the kind is served and the user may list it."""
    with suppress(ApiError):
        version = (await served_versions(client, [ADVANCE])).get(ADVANCE, "")
        if version:
            with suppress(NotListed):
                async for seen in list_objects(client, ADVANCE.path(version), decode_advance):
                    yield AdvanceSeen(seen.described)


async def _counted_objects(client: Client) -> AsyncIterator[Event]:
    """Where the kind is served and the user may list it."""
    with suppress(ApiError):
        version = (await served_versions(client, [COUNTED_KIND])).get(COUNTED_KIND, "")
        if version:
            with suppress(NotListed):
                async for seen in list_objects(client, COUNTED_KIND.path(version), decode_counted):
                    yield CountedSeen(seen.described)


async def _claim_objects(client: Client) -> AsyncIterator[Event]:
    """Of the kinds that are served and that the user may list."""
    with suppress(ApiError):
        for kind, version in (await served_versions(client, CLAIM_KINDS)).items():
            if not version:
                continue
            with suppress(NotListed):
                async for seen in list_objects(client, kind.path(version), CLAIM_KINDS[kind]):
                    yield ClaimObjectSeen(seen)


async def list_objects(
    client: Client,
    path: str,
    decode: Callable[[msgspec.Raw], T],
    params: dict[str, str] | None = None,
) -> AsyncIterator[T]:
    """All objects at the path, page by page. Raises NotListed."""
    try:
        async for page in pages(client, path, params or {}):
            for item in page.items or ():
                yield decode(item)
    except StatusError as refusal:
        refused = Forbidden if refusal.code == 403 else NotListed
        raise refused(f"the API server refused to list {path}: {refusal.message}") from refusal
