"""The loop that all controllers share: a change puts a key in line, each key is worked on alone."""

import asyncio
import logging
from typing import Any

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.controllers.owners import Owners
from fairlead.sim.apiserver.status import ApiStatusError
from fairlead.sim.apiserver.store import Change

log = logging.getLogger(__name__)
Object = dict[str, Any]
_RETRY_S = 0.2
_MOST_RETRY_S = 30.0
# Requests are answered between batches of work this large.
_BATCH = 20


class Controller:
    """Brings the world into line with one kind of object."""

    resource = ""
    # Other resources whose changes matter; None stands for all of them.
    follows: frozenset[str] | None = frozenset({"pods"})

    def __init__(self, api: ApiState, owners: Owners, loop: "ControllerLoop") -> None:
        self.api, self.owners, self.loop = api, owners, loop

    def concerns(self, resource: str, change: Change) -> list[str]:
        """Keys of our objects that a change anywhere may matter to."""
        if resource == self.resource:
            return [change.entry.key]
        if resource == "pods" and change.entry.owners:
            return self.owners.keys_of_owners(self.resource, change.entry)
        return []

    async def sync(self, key: str) -> None:
        """Looks at one object and does what is missing. Called again after every change."""

    def later(self, key: str, after_s: float) -> None:
        self.loop.put_later(self, key, after_s)


class ControllerLoop:
    """One line of work for every controller."""

    def __init__(self, api: ApiState) -> None:
        self._api = api
        self._controllers: list[Controller] = []
        self._line: dict[tuple[Controller, str], None] = {}
        self._tries: dict[tuple[Controller, str], int] = {}
        self._news = asyncio.Event()
        self._following: dict[str, list[Controller]] = {}
        api.store.written.append(self._on_change)

    def add(self, controller: Controller) -> None:
        self._controllers.append(controller)

    def look_at_everything(self) -> None:
        for controller in self._controllers:
            for key in self._api.store.collection(controller.resource).entries:
                self.put(controller, key)

    def put(self, controller: Controller, key: str) -> None:
        self._line[controller, key] = None
        self._news.set()

    def put_later(self, controller: Controller, key: str, after_s: float) -> None:
        asyncio.get_running_loop().call_later(max(after_s, 0.01), self.put, controller, key)

    def _on_change(self, resource: str, change: Change) -> None:
        for controller in self._followers(resource):
            for key in controller.concerns(resource, change):
                self.put(controller, key)

    def _followers(self, resource: str) -> list[Controller]:
        found = self._following.get(resource)
        if found is None:
            found = [each for each in self._controllers if _follows(each, resource)]
            self._following[resource] = found
        return found

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._line:
                for item in list(self._line)[:_BATCH]:
                    self._line.pop(item, None)
                    await self._work(*item)
                await asyncio.sleep(0)

    async def _work(self, controller: Controller, key: str) -> None:
        try:
            await controller.sync(key)
        except ApiStatusError as error:
            # A webhook that refuses, a namespace that is going: try again, ever more rarely.
            log.info("%s %s: %s", controller.resource, key, error.message)
            self._retry(controller, key)
        except Exception:
            log.exception("%s %s", controller.resource, key)
            self._retry(controller, key)
        else:
            self._tries.pop((controller, key), None)

    def _retry(self, controller: Controller, key: str) -> None:
        tries = self._tries[controller, key] = self._tries.get((controller, key), 0) + 1
        self.put_later(controller, key, min(_RETRY_S * 2**tries, _MOST_RETRY_S))


def _follows(controller: Controller, resource: str) -> bool:
    if controller.follows is None or resource == controller.resource:
        return True
    return resource in controller.follows
