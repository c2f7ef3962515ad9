"""Small controllers: what kube-controller-manager does for the kinds that make pods.

They live in the server's process and use the same operations as clients do, so webhooks,
defaults and watches treat their pods like any others.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fairlead.sim.apiserver.api import Api
from fairlead.sim.apiserver.controllers.budgets import Budgets
from fairlead.sim.apiserver.controllers.daemonsets import DaemonSets
from fairlead.sim.apiserver.controllers.deployments import Deployments
from fairlead.sim.apiserver.controllers.events import Events
from fairlead.sim.apiserver.controllers.garbage import Garbage
from fairlead.sim.apiserver.controllers.jobs import Jobs
from fairlead.sim.apiserver.controllers.loop import Controller, Loop
from fairlead.sim.apiserver.controllers.namespaces import Namespaces
from fairlead.sim.apiserver.controllers.nodes import Nodes
from fairlead.sim.apiserver.controllers.owners import Owners
from fairlead.sim.apiserver.controllers.replicasets import ReplicaSets
from fairlead.sim.apiserver.controllers.statefulsets import StatefulSets

_ALL: tuple[type[Controller], ...] = (
    Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, Budgets, Namespaces, Nodes, Garbage,
    Events,
)  # fmt: skip


class Controllers:
    """All controllers, on one loop."""

    def __init__(self, api: Api) -> None:
        self._loop = Loop(api)
        owners = Owners(api.store)
        for make in _ALL:
            self._loop.add(make(api, owners, self._loop))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """They run while the block does."""
        self._loop.look_at_everything()
        task = asyncio.create_task(self._loop.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
