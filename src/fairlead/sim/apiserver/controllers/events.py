"""Events: kept for an hour after their last write, as the real server keeps them."""

import time

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.controllers.loop import Controller, ControllerLoop
from fairlead.sim.apiserver.controllers.owners import Owners
from fairlead.sim.apiserver.store import Change

KEPT_S = 3600.0
_SWEEP_EVERY_S = 60.0
_SWEEP = "sweep"


class EventController(Controller):
    """Notes when each event was written, oldest first, and takes out those past their time."""

    resource = "events"
    follows: frozenset[str] | None = frozenset()
    kept_s = KEPT_S

    def __init__(self, api: ApiState, owners: Owners, loop: ControllerLoop) -> None:
        super().__init__(api, owners, loop)
        self._written: dict[str, float] = {}
        self._is_sweeping = False

    def concerns(self, resource: str, change: Change) -> list[str]:
        key = change.entry.key
        self._written.pop(key, None)
        if change.type != "DELETED":
            self._written[key] = time.monotonic()
        if self._is_sweeping:
            return []
        self._is_sweeping = True
        return [_SWEEP]

    async def sync(self, key: str) -> None:
        """Called for every event at a start, and then for the sweep that keeps itself going."""
        if key != _SWEEP:
            self._written.setdefault(key, time.monotonic())
        limit = time.monotonic() - self.kept_s
        kind = self.api.kinds.plural(self.resource)
        while self._written and next(iter(self._written.values())) <= limit:
            oldest = next(iter(self._written))
            del self._written[oldest]
            if self.api.store.get(self.resource, oldest):
                self.api.store.remove(kind, oldest)
        if key == _SWEEP:
            self.later(_SWEEP, min(_SWEEP_EVERY_S, self.kept_s))
