"""Small controllers: what kube-controller-manager does for the kinds that make pods.

They live in the server's process and use the same operations as clients do, so webhooks,
defaults and watches treat their pods like any others.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.controllers.budgets import DisruptionController
from fairlead.sim.apiserver.controllers.claims import ClaimKeeper, ClaimMaker
from fairlead.sim.apiserver.controllers.daemonsets import DaemonSetController
from fairlead.sim.apiserver.controllers.deployments import DeploymentController
from fairlead.sim.apiserver.controllers.events import EventController
from fairlead.sim.apiserver.controllers.garbage import GarbageCollector
from fairlead.sim.apiserver.controllers.jobs import JobController
from fairlead.sim.apiserver.controllers.loop import Controller, ControllerLoop
from fairlead.sim.apiserver.controllers.namespaces import NamespaceController
from fairlead.sim.apiserver.controllers.nodes import NodeController
from fairlead.sim.apiserver.controllers.owners import Owners
from fairlead.sim.apiserver.controllers.replicasets import ReplicaSetController
from fairlead.sim.apiserver.controllers.statefulsets import StatefulSetController

_ALL: tuple[type[Controller], ...] = (
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    DisruptionController,
    ClaimMaker,
    ClaimKeeper,
    NamespaceController,
    NodeController,
    GarbageCollector,
    EventController,
)


class Controllers:
    """All controllers, on one loop."""

    def __init__(self, api: ApiState) -> None:
        self._loop = ControllerLoop(api)
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
