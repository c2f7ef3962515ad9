"""Carries out the actions of the workload's load generator, over the API like any user."""

import asyncio
import time
from typing import Any

import msgspec
import structlog

from fairlead.apps.up.watching import Watching
from fairlead.kube.errors import ApiError
from fairlead.kube.http.client import Client, Reply
from fairlead.sim.workload import SAMPLE, Action, Create, Delete, Kind, LoadGenerator
from fairlead.sim.workload.objects import (
    claim_templates,
    object_of,
    priority_classes,
    queue_definition,
    queue_objects,
)

log = structlog.get_logger(__name__)

_STEP_S = 0.25
_AT_ONCE = 16
_PATHS: dict[Kind, str] = {
    "Pod": "/api/v1/namespaces/default/pods",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_QUEUES = "/apis/fairlead.dev/v1alpha1/queues"
_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
#: Pods of a StatefulSet or a Job go with it.
_OPTIONS = b'{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}'


class LoadRunner:
    """`pod_speed` shortens the run time in the pods, for kubelets that know no speed."""

    def __init__(
        self, client: Client, generator: LoadGenerator, watching: Watching, pod_speed: float = 1.0
    ) -> None:
        self._client, self._generator, self._watching = client, generator, watching
        self._pod_speed = pod_speed
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Until cancelled."""
        for each in priority_classes(self._generator.workload):
            _expect(await self._post(_CLASSES, each), 201, 409)
        for each in claim_templates(self._generator.workload):
            _expect(await self._post(_TEMPLATES, each), 201, 409)
        await self._adopt_left_over()
        if self._generator.workload.queues:
            await self._make_queues()
        while True:
            if gpus := self._watching.gpus():
                actions = self._generator.step(time.monotonic(), gpus, self._watching.seen())
                self._watching.pods_created = self._generator.pods_created
                await self._carry_out(actions)
                self._watching.sample()
            await asyncio.sleep(_STEP_S)

    async def _make_queues(self) -> None:
        """When the nodes are known: queues are parts of all GPUs."""
        _expect(await self._post(_DEFINITIONS, queue_definition()), 201, 409)
        while not (gpus := self._watching.gpus()):
            await asyncio.sleep(_STEP_S)
        for each in queue_objects(self._generator.workload, gpus):
            # The API server serves a kind a moment after it was defined.
            while (reply := await self._post(_QUEUES, each)).status == 404:
                await asyncio.sleep(_STEP_S)
            _expect(reply, 201, 409)

    async def _adopt_left_over(self) -> None:
        """A saved state may hold work of an earlier run: continue it, or delete it."""
        for kind, path in _PATHS.items():
            reply = await self._client.request("GET", path, params={"labelSelector": SAMPLE})
            for item in msgspec.json.decode(reply.body).get("items", []):
                metadata = item["metadata"]
                if metadata.get("ownerReferences"):
                    continue
                if not self._generator.adopt(metadata["name"], time.monotonic()):
                    await self._perform(Delete(kind, metadata["name"]))

    async def _carry_out(self, actions: list[Action]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for action in actions:
                tasks.create_task(self._perform(action))

    async def _perform(self, action: Action) -> None:
        async with self._turns:
            try:
                await self._try(action)
            except ApiError as error:
                log.warning("workload error", doing=str(action), error=str(error))

    async def _try(self, action: Action) -> None:
        match action:
            case Create(stream):
                body = object_of(action, self._pod_speed, self._generator.speed)
                _expect(await self._post(_PATHS[stream.kind], body), 201, 409)
            case Delete(kind, name):
                path = f"{_PATHS[kind]}/{name}"
                _expect(await self._client.request("DELETE", path, body=_OPTIONS), 200, 202, 404)

    async def _post(self, path: str, body: dict[str, Any]) -> Reply:
        return await self._client.request("POST", path, body=msgspec.json.encode(body))


def _expect(reply: Reply, *statuses: int) -> None:
    if reply.status not in statuses:
        log.warning("workload refused", status=reply.status, message=reply.message)
