"""What the watches of gangs, queues and advance reservations have in common."""

from collections.abc import AsyncIterator
from typing import Any

from fairlead.apps.run.served_kinds import ServedKinds, WatchedKind
from fairlead.kube.mirror.reflector import Reflector

_FORBIDDEN = "403"


class ObjectWatches:
    """Objects of kinds that come and go; subclasses say what is made of them."""

    _kinds: ServedKinds

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Those of kinds that are served now."""
        return self._kinds.reflectors

    @property
    def is_synced(self) -> bool:
        """Whether all objects that can be listed once were: what is missing then is not there."""
        return self._kinds.is_synced

    async def run(self) -> None:
        """Follows until it is cancelled."""
        await self._kinds.run()

    async def _retell_objects(self) -> AsyncIterator[None]:
        """All objects are told once more; yields now and then."""
        for reflector in self.reflectors:
            async for _ in reflector.retell():
                yield


def is_forbidden(served: WatchedKind) -> bool:
    """Whether the objects were never listed, because we may not."""
    return served.reflector.problem == _FORBIDDEN and not served.reflector.synced
