"""A story of the agent: pods, its node and slices, and answers of the kubelet are changed."""

import asyncio
import contextlib
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

from fairlead.apps.agent.agent import Agent, AgentSettings
from fairlead.apps.agent.mps.plans import mps_plans
from fairlead.apps.agent.partitioning import held_by
from fairlead.apps.agent.unassigned_processes import ProcessMonitor
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.mirror.position import OutOfStep
from fairlead.kube.pod_resources import PodResourcesError, read_devices
from fairlead.model.errors import FairleadError
from fairlead.telemetry.nvml.facts import Cut, GpuFacts, GpuSample, System
from fairlead.telemetry.nvml.process import Nvml
from fairlead.telemetry.nvml.survey import GpuSurvey
from fuzz.cases import drawn
from fuzz.mutations import mutated, with_words
from fuzz.objects import KINDS, Json, node, pod
from kubelet_socket import devices
from kubelet_socket import pod as answer_about

STEPS = 40
_NODE = "gpus-0"
_GPUS = tuple(
    GpuFacts(n, f"GPU-{n}", "H100", 16_000, mig=n > 1, cuts=(Cut("1g.10gb", 1, (0, 1)),) * (n > 1))
    for n in range(4)
)
_MARKED = {"fairlead.dev/publisher": {"string": "agent"}}


class _Server:
    """Has the node and its slices, as they are drawn, and takes what is written."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.written = 0

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> Reply:
        if method != "GET":
            self.written += 1
            return Reply(200, body or b"{}")
        if path.startswith("/api/v1/nodes/"):
            return Reply(200, json.dumps(self._node()).encode())
        return Reply(200, json.dumps({"items": self._slices()}).encode())

    def _node(self) -> Json:
        found = with_words(self._rng, mutated(self._rng, {**node(), "metadata": {
            **node()["metadata"], "uid": "n", "resourceVersion": "7"}}))  # fmt: skip
        if self._rng.random() < 0.3 and isinstance(found.get("spec"), dict):
            found["spec"]["taints"] = [{"key": "fairlead.dev/agent-not-ready", "effect": "x"}]
        return found

    def _slices(self) -> list[Json]:
        original = KINDS["ResourceSlice"][1]
        known = {"uid": "s", "resourceVersion": "7", "labels": {"fairlead.dev/publisher": "agent"}}
        original = {**original, "metadata": {**original["metadata"], **known}}
        for device in original["spec"]["devices"]:
            device["attributes"] = {**device.get("attributes", {}), **_MARKED}
        return [mutated(self._rng, original) for _ in range(self._rng.randint(0, 2))]


class AgentStory:
    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = Random(seed)
        self.server = _Server(self.rng)
        settings = AgentSettings(_NODE, proc=folder, resource_slices="whole", gpu_resources="all")
        monitor = ProcessMonitor(grace_s=30.0)
        client = cast(Client, self.server)
        self.agent = Agent(cast(Nvml, None), client, settings, monitor)
        self.agent._pods.stats.syncs = 1
        self._survey = GpuSurvey(System(4), _GPUS)
        self.agent._survey = self._survey
        self._version = 100

    def show(self) -> None:
        """A pod of the node."""
        obj = drawn(self.rng, self.rng.randrange(8))
        if obj["kind"] != "Pod":
            obj = with_words(self.rng, mutated(self.rng, pod()))
        self._version += 1
        name = f"p-{self.rng.randrange(8)}"
        meta = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
        known = {"name": name, "uid": name, "resourceVersion": str(self._version)}
        obj = {**obj, "metadata": {**meta, **known, "namespace": "default"}}
        change = self.rng.choice(("ADDED", "MODIFIED", "DELETED"))
        line = json.dumps({"type": change, "object": obj}).encode()
        with contextlib.suppress(OutOfStep):
            self.agent._pods._feed.apply(line)

    def look(self) -> None:
        pods = list(self.agent._pods.objects.values())
        self.agent._tell(self._survey, {gpu.uuid: GpuSample(gpu.uuid) for gpu in _GPUS})
        held_by(pods, _GPUS)
        mps_plans(pods, _GPUS, plugin=self.rng.random() < 0.5)
        self.agent._releases.look()
        assert self.agent._devices
        self.agent._devices.offer(self._survey, self.agent._unhealthy())

    def ask(self) -> None:
        """The kubelet, whose answer is damaged."""
        said = answer_about("p-0", devices("nvidia.com/gpu", "GPU-0", "1"))
        raw = bytearray(said * self.rng.randint(1, 3))
        for _ in range(self.rng.choice((0, 1, 5))):
            raw[self.rng.randrange(len(raw))] = self.rng.randrange(256)
        with contextlib.suppress(PodResourcesError):
            found = read_devices(bytes(raw))
            self.agent._picked._note(found, list(self.agent._pods.objects.values()))
            self.agent._picked.listed(_GPUS)

    async def publish(self) -> None:
        assert self.agent._devices
        assert isinstance(await self.agent._publisher.publish(), str)
        assert isinstance(await self.agent._devices.publisher.publish(), str)

    async def run(self) -> int:
        for _ in range(STEPS):
            self.rng.choice((self.show, self.show, self.look, self.ask))()
            await self.publish()
        assert self.agent.internal.counts == {}, "no pod breaks what is done about it"
        return self.server.written


def _strict(case: AgentStory, found: list[Exception]) -> None:
    decode = case.agent._pods._feed._decode

    def strict(raw: bytes) -> Any:
        try:
            return decode(raw)
        except (*UNREADABLE, FairleadError):
            raise
        except Exception as error:
            found.append(error)
            raise

    case.agent._pods._feed._decode = strict


def agent_story(seed: int) -> int:
    """How often something was written."""
    found: list[Exception] = []
    with TemporaryDirectory() as proc:
        case = AgentStory(seed, Path(proc))
        _strict(case, found)
        written = asyncio.run(case.run())
    assert found == []
    return written
