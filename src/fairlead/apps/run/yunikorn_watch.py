"""The ConfigMap that lists YuniKorn's queues: followed, and fed as queues."""

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from fairlead.engine import events
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace
from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.kube.queues.yunikorn_config import YunikornConfig, decode_yunikorn
from fairlead.model.queues import QueueSpec

log = structlog.get_logger(__name__)

_FORBIDDEN = "403"


class YunikornWatch:
    """While it cannot be read, the queues that were read last apply."""

    def __init__(
        self,
        client: Client,
        config_map: tuple[str, str],
        feed: Callable[[events.Event], None],
        say: Callable[[events.QueueKindSeen], None],
    ) -> None:
        """`config_map`: its namespace and name. `say` is told whether it can be read."""
        namespace, name = config_map
        self._feed, self._say, self._place = feed, say, f"{namespace}/{name}"
        self._known: dict[str, QueueSpec] = {}
        self.reflector: Reflector[YunikornConfig] = Reflector(
            client,
            in_namespace("/api/v1", namespace, "configmaps"),
            partial(decode_yunikorn, YunikornQueues.name),
            self._on_change,
            field_selector=f"metadata.name={name}",
        )

    @property
    def is_synced(self) -> bool:
        return self.reflector.synced or bool(self.reflector.problem)

    def forget(self) -> None:
        """All queues are fed again with the next look at the ConfigMap."""
        self._known = {}

    async def look_on(self, every_s: float) -> None:
        """Looks again and again: a right that is missing is no change of an object."""
        while True:
            await asyncio.sleep(every_s)
            self.look()

    def look(self) -> None:
        """Says whether the ConfigMap can be read; where not, pods wait for their queue."""
        found = next(iter(self.reflector.objects.values()), None)
        problem = found.problem if found else ""
        if not self.reflector.synced and self.reflector.problem == _FORBIDDEN:
            problem = f"the scheduler may not watch the ConfigMap {self._place}; grant it that"
        elif self.reflector.synced and found is None:
            problem = f"the ConfigMap {self._place} with the queues of YuniKorn does not exist"
        said = f"the queue of the pod is not known: {problem}" if problem else ""
        self._say(events.QueueKindSeen(YunikornQueues.name, is_served=True, problem=said))

    def _on_change(self, change: Change[YunikornConfig]) -> None:
        match change:
            case Upserted(config):
                if config.problem:
                    log.error("the queues of YuniKorn cannot be read", problem=config.problem)
                else:
                    self._follow({spec.key: spec for spec in config.queues})
                self.look()
            case Deleted():
                self._follow({})
                self.look()
            case Synced():
                self.look()
            case Undecodable():
                log.error("the queues of YuniKorn cannot be read", problem=change.error)

    def _follow(self, found: dict[str, QueueSpec]) -> None:
        before, self._known = self._known, found
        for key, spec in found.items():
            if before.get(key) != spec:
                self._feed(events.QueueSeen(spec))
        for key in before.keys() - found.keys():
            self._feed(events.QueueGone(key))
