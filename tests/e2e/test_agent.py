"""The agent as a process, on the imagined NVML, beside a real API server."""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from fairlead.apps.agent.publishing import Publisher
from fairlead.base.node_inventory import GpuEntry, Listing
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.nvml import FakeProcess, Fault, FileStore, machine_of
from fairleads import FAIRLEAD, Pods, Running, eventually, fairlead
from kubelet_socket import kubelet
from preloaded import run
from scene import wait_for
from user_rights import granted

pytestmark = pytest.mark.server

#: Two programs start, and Python takes its time on a busy machine.
KEY = "fairlead.dev/inventory"
WHO = "fairlead-agent-of-the-tests"
CONTAINER = "5f" * 32
#: All that the agent may do.
RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]


@pytest.fixture
def rights(control_plane: ControlPlane) -> Iterator[Path]:
    """A kubeconfig with no more rights than the agent needs."""
    with granted(control_plane, WHO, RULES) as access:
        yield access


class Machine:
    """A GPU machine: its driver, its processes, and the node that stands for it."""

    def __init__(self, plane: ControlPlane, folder: Path, node: str, rights: Path) -> None:
        self.plane, self.node, self._rights = plane, node, rights
        self.proc = folder / "proc"
        self.proc.mkdir()
        self._file = folder / "machine.json"
        self.driver = FileStore(self._file, machine_of(2))
        with self.driver.open() as machine:
            self.uuids = [gpu.uuid for gpu in machine.gpus]

    @contextmanager
    def agent(
        self, *options: str, node: str = "", ends_with: int = 0, loads: bool = False
    ) -> Iterator[Running]:
        with fairlead(
            self.plane, "--node", node or self.node, "--address", "127.0.0.1", "--interval",
            "200ms", "--unassigned-after", "0s", "--pod-metrics", "--proc", str(self.proc),
            "--nvml", "fairlead.sim.nvml.shared:library", *options,
            program="agent", kubeconfig=self._rights, env={"FAIRLEAD_NVML_FILE": str(self._file)},
            ends_with=ends_with, loads=loads,
        ) as running:  # fmt: skip
            eventually(lambda: '"started"' in running.log.read_text())
            yield running

    def process(
        self,
        pid: int,
        gpu: int,
        pod_uid: str = "",
        busy: int = 0,
        mib: int = 3 << 10,
        kind: Literal["compute", "mps"] = "compute",
    ) -> None:
        """A process on a GPU, in a pod or in none."""
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        place = f"kubepods/pod{pod_uid}/{CONTAINER}" if pod_uid else "user.slice"
        (folder / "cgroup").write_text(f"0::/{place}\n")
        (folder / "comm").write_text("python\n")
        with self.driver.open() as machine:
            process = FakeProcess(pid, mib << 20, busy=busy, kind=kind)
            machine.gpus[gpu].processes.append(process)
            machine.gpus[gpu].busy = busy

    def end(self, pid: int) -> None:
        with self.driver.open() as machine:
            for gpu in machine.gpus:
                gpu.processes = [one for one in gpu.processes if one.pid != pid]
        shutil.rmtree(self.proc / str(pid))

    def read(self) -> dict[str, Any]:
        return self.plane.api("GET", f"/api/v1/nodes/{self.node}")[1]

    def annotate(self, value: str | None) -> None:
        body = {"metadata": {"annotations": {KEY: value, "others": "stay"}}}
        path = f"/api/v1/nodes/{self.node}"
        merge = "application/merge-patch+json"
        assert self.plane.api("PATCH", path, body, content_type=merge)[0] == 200

    def listed(self) -> dict[str, Any]:
        """Empty where there is no list, or none that can be read."""
        text = self.read()["metadata"].get("annotations", {}).get(KEY, "")
        return json.loads(text) if text.startswith("{") else {}

    def health(self) -> list[str]:
        return [gpu.get("health", "ok") for gpu in self.listed().get("gpus", ())]

    def events(self, name: str) -> list[dict[str, Any]]:
        found = self.plane.api("GET", "/apis/events.k8s.io/v1/events")[1]["items"]
        return [one for one in found if one["regarding"]["name"] == name]


@pytest.fixture
def machine(
    control_plane: ControlPlane,
    create_nodes: Callable[..., list[str]],
    rights: Path,
    tmp_path: Path,
) -> Machine:
    name = f"gpu-{uuid.uuid4().hex[:8]}"
    create_nodes([name], allocatable={"cpu": "8", "pods": "110"})
    return Machine(control_plane, tmp_path, name, rights)


def a_bound_pod(
    machine: Machine, pods: Pods, name: str, gpu: int, isolation: str = "advisory"
) -> dict[str, Any]:
    """As the scheduler leaves it: half of a GPU."""
    uses = [{"u": machine.uuids[gpu], "m": 500, "w": False}]
    said = {
        "fairlead.dev/gpu-share": "0.5",
        "fairlead.dev/assignment": json.dumps(
            {"devices": uses, "dialect": "fairlead", "iso": isolation}
        ),
    }
    return pods.create(name, metadata={"annotations": said}, nodeName=machine.node)


def test_the_gpus_are_listed_once_and_put_right_at_the_start(machine: Machine) -> None:
    machine.annotate('{"version": 2, "gpus": []}')

    with machine.agent(loads=True) as agent:
        eventually(lambda: machine.health() == ["ok", "ok"])
        assert [gpu["uuid"] for gpu in machine.listed()["gpus"]] == machine.uuids
        version = machine.read()["metadata"]["resourceVersion"]
        machine.process(4711, 0, busy=77)
        eventually(lambda: agent.metric("fairlead_gpu_utilization_ratio", gpu="0") == 0.77)
        machine.end(4711)
        assert agent.get("/readyz") == (200, "ok")
        assert agent.get("/healthz") == (200, "ok")

    # Nothing was written but the list, and the two changes for the process that came and went.
    writes = [one for one in agent.records if one["event"] == "inventory published"]
    assert 1 <= len(writes) <= 3
    assert machine.read()["metadata"]["annotations"]["others"] == "stay"
    assert version


def test_nothing_is_written_while_nothing_changes(machine: Machine, pods: Pods) -> None:
    pod = a_bound_pod(machine, pods, "train", 0)
    with machine.agent() as agent:
        eventually(lambda: machine.health() == ["ok", "ok"])
        version = machine.read()["metadata"]["resourceVersion"]
        for busy in (50, 60, 70):
            machine.process(10 + busy, 0, pod["metadata"]["uid"], busy=busy)
            eventually(
                lambda: agent.metric("fairlead_gpu_utilization_ratio", gpu="0") == busy / 100  # noqa: B023
            )

        assert machine.read()["metadata"]["resourceVersion"] == version
        assert agent.metric("fairlead_gpu_pod_memory_used_bytes", pod="train") == 3 * (3 << 30)
        assert agent.metric("fairlead_gpu_pod_utilization_ratio", pod="train") == 1.0
        assert "fairlead_gpu_unassigned_memory_used_bytes{" not in agent.get("/metrics")[1]


def test_a_process_that_a_pod_left_behind_keeps_its_gpu(machine: Machine, pods: Pods) -> None:
    pod = a_bound_pod(machine, pods, "train", 1)
    machine.process(4711, 1, pod["metadata"]["uid"])
    with machine.agent() as agent:
        eventually(lambda: machine.health() == ["ok", "ok"])
        machine.plane.api("DELETE", f"{pods.path}/train", {"gracePeriodSeconds": 0})

        eventually(lambda: "process 4711 (python) of a pod that is gone" in machine.health()[1])
        assert machine.health()[0] == "ok"
        (event,) = eventually(lambda: machine.events(machine.node))
        assert event["reason"] == "UnassignedGPUProcess"
        assert event["regarding"]["kind"] == "Node"
        assert "uses 3072 MiB of GPU 1" in event["note"]
        assert agent.metric("fairlead_gpu_healthy", gpu="1") == 0
        used = agent.metric("fairlead_gpu_unassigned_memory_used_bytes", gpu="1", pid="4711")
        assert used == 3 << 30

        machine.end(4711)
        eventually(lambda: machine.health() == ["ok", "ok"])


def test_a_restart_of_the_agent_gives_no_gpu_away_that_is_not_empty(machine: Machine) -> None:
    machine.process(4711, 0)
    with machine.agent():
        eventually(lambda: machine.health()[:1] == ["not empty: process 4711 (python) of no pod"])
    version = machine.read()["metadata"]["resourceVersion"]

    with machine.agent() as agent:
        eventually(lambda: agent.metric("fairlead_gpu_unassigned_memory_used_bytes", pid="4711"))
        said = {one["event"] for one in agent.records}

    assert "inventory published" not in said
    assert machine.read()["metadata"]["resourceVersion"] == version


def test_a_pod_on_a_gpu_that_it_was_not_given_is_told_so(machine: Machine, pods: Pods) -> None:
    pod = a_bound_pod(machine, pods, "train", 0)
    machine.process(4711, 1, pod["metadata"]["uid"])
    with machine.agent() as agent:
        (event,) = eventually(lambda: machine.events("train"))
        assert event["regarding"]["uid"] == pod["metadata"]["uid"]
        assert "of a pod that was not assigned this GPU" in event["note"]
        assert "CUDA_VISIBLE_DEVICES" in event["note"]
        eventually(lambda: machine.health() == ["ok", "ok"])
        assert agent.metric("fairlead_gpu_unassigned_memory_used_bytes", pid="4711") == 3 << 30


def mirror_of(claimed: str) -> dict[str, str]:
    return {"kubernetes.io/config.hash": claimed, "kubernetes.io/config.mirror": claimed}


def test_anybody_creates_a_mirror_and_nobody_makes_one_of_a_pod_that_exists(
    machine: Machine, pods: Pods
) -> None:
    """So an annotation proves nothing, and a pod that the scheduler placed is never a mirror."""
    with machine.plane.connect("mallory", ("system:masters",)) as mallory:
        body = {
            "metadata": {"name": "mirror", "annotations": mirror_of("0" * 32)},
            "spec": {"nodeName": machine.node, "containers": [{"name": "c", "image": "x"}]},
        }
        assert mallory.api("POST", pods.path, body)[0] == 201
        pods.create("plain")
        said = {"metadata": {"annotations": mirror_of("0" * 32)}}
        merge = "application/merge-patch+json"
        status, answer = mallory.api("PATCH", f"{pods.path}/plain", said, content_type=merge)
    assert status == 422, answer
    assert "may not add mirror pod annotation" in answer["message"]


def test_a_forged_pod_takes_no_gpu_away_and_covers_no_process(machine: Machine, pods: Pods) -> None:
    victim = a_bound_pod(machine, pods, "victim", 0)["metadata"]["uid"]
    intruder = pods.create("intruder", nodeName=machine.node)["metadata"]["uid"]
    for number, (claimed, gpu) in enumerate(((victim, 1), (intruder, 0))):
        said = a_bound_pod(machine, pods, f"model-{number}", gpu)["metadata"]["annotations"]
        for name, forgery in (("hash", {"kubernetes.io/config.hash": claimed}),
                              ("mirror", mirror_of(claimed))):  # fmt: skip
            meta = {"annotations": {**said, **forgery}}
            pods.create(f"{name}-{number}", metadata=meta, nodeName=machine.node)
    machine.process(4711, 0, victim)
    machine.process(4712, 0, intruder)
    with machine.agent() as agent:
        (event,) = eventually(lambda: machine.events("intruder"))
        assert "process 4712" in event["note"]
        eventually(lambda: machine.health() == ["ok", "ok"])
        for name in ("victim", "hash-0", "mirror-0", "hash-1", "mirror-1"):
            assert machine.events(name) == []
        shown = agent.metric("fairlead_gpu_pod_memory_used_bytes", pod="victim")
        assert shown == 3 << 30


def test_a_driver_that_goes_away_is_waited_for(machine: Machine) -> None:
    with machine.agent() as agent:
        eventually(lambda: machine.health() == ["ok", "ok"])
        with machine.driver.open() as driver:
            driver.loaded = False

        eventually(lambda: all("cannot be read" in text for text in machine.health()))
        status, why = agent.get("/readyz")
        assert status == 503
        assert "Driver Not Loaded" in why
        assert agent.get("/healthz") == (200, "ok")

        with machine.driver.open() as driver:
            driver.loaded = True
            driver.restart()
        eventually(lambda: machine.health() == ["ok", "ok"])
        eventually(lambda: agent.get("/readyz") == (200, "ok"))


def test_an_agent_that_starts_without_a_driver_calls_what_is_listed_sick(machine: Machine) -> None:
    with machine.agent():
        eventually(lambda: machine.health() == ["ok", "ok"])
    with machine.driver.open() as driver:
        driver.loaded = False

    with machine.agent():
        eventually(lambda: all("cannot be read" in text for text in machine.health()))
        assert [gpu["uuid"] for gpu in machine.listed()["gpus"]] == machine.uuids


def test_a_lost_gpu_is_listed_as_lost_and_comes_back(machine: Machine) -> None:
    with machine.agent():
        eventually(lambda: machine.health() == ["ok", "ok"])
        with machine.driver.open() as driver:
            lost = driver.gpus.pop(0)

        eventually(lambda: [text[:4] for text in machine.health()] == ["ok", "lost"])
        assert [gpu["uuid"] for gpu in machine.listed()["gpus"]] == machine.uuids[::-1]

        with machine.driver.open() as driver:
            driver.gpus.insert(0, lost)
        eventually(lambda: machine.health() == ["ok", "ok"])


def test_a_gpu_is_sick_after_an_xid(machine: Machine) -> None:
    with machine.agent() as agent:
        eventually(lambda: agent.metric("fairlead_gpu_healthy", gpu="1") == 1)
        with machine.driver.open() as driver:
            driver.gpus[1].xids.append(79)

        eventually(lambda: machine.health() == ["ok", "Xid 79: it fell off the bus"])
        assert any(one["event"] == "driver reported an error" for one in agent.records)


def test_a_call_that_hangs_costs_no_more_than_its_gpu(machine: Machine) -> None:
    with machine.agent() as agent:
        eventually(lambda: machine.health() == ["ok", "ok"])
        with machine.driver.open() as driver:
            driver.faults.append(Fault("nvmlDeviceGetPowerUsage", machine.uuids[0], hangs=True))

        eventually(lambda: "does not answer" in machine.health()[0])
        assert machine.health()[1] == "ok"
        assert agent.metric("fairlead_agent_nvml_starts_total") == 2
        eventually(lambda: agent.metric("fairlead_agent_reading_age_seconds") < 10)


def test_beside_a_device_plugin_it_says_so(machine: Machine) -> None:
    body = {"status": {"capacity": {"nvidia.com/gpu": "2"}}}
    path = f"/api/v1/nodes/{machine.node}/status"
    merge = "application/merge-patch+json"
    assert machine.plane.api("PATCH", path, body, content_type=merge)[0] == 200

    with machine.agent():
        eventually(lambda: machine.listed().get("plugin"))
    with machine.agent("--no-device-plugin"):
        eventually(lambda: machine.listed().get("gpus") and not machine.listed().get("plugin"))


def a_started_pod(machine: Machine, pods: Pods, name: str) -> str:
    """With a GPU of a device plugin, as its kubelet leaves it; its uid."""
    uid: str = pods.create(name, gpus=1, nodeName=machine.node)["metadata"]["uid"]
    body = {"status": {"phase": "Running", "startTime": "2026-11-16T06:00:00Z"}}
    merge = "application/merge-patch+json"
    path = f"{pods.path}/{name}/status"
    assert machine.plane.api("PATCH", path, body, content_type=merge)[0] == 200
    return uid


def test_gpus_that_a_device_plugin_picked_are_listed_while_their_pods_live(
    machine: Machine, pods: Pods
) -> None:
    with kubelet() as node:
        node.gpus = {(pods.namespace, f"p{n}"): [machine.uuids[n]] for n in (0, 1)}
        options = "--device-plugin", "--pod-resources", str(node.socket)
        with machine.agent(*options) as agent:
            uids = [a_started_pod(machine, pods, f"p{n}") for n in (0, 1)]
            picked = {uid: [gpu] for uid, gpu in zip(uids, machine.uuids, strict=True)}
            eventually(lambda: machine.listed().get("picked") == picked)
            machine.process(4711, 0, uids[0])
            machine.process(4712, 0, uids[1])
            (event,) = eventually(lambda: machine.events("p1"))
            assert "process 4712" in event["note"]
            assert machine.events("p0") == []

            access = str(machine.plane.kubeconfig_for())
            command = [str(FAIRLEAD), "explain", "p0", "-n", pods.namespace, "--kubeconfig", access]
            said = run(command, check=True).stdout
            assert f"{machine.uuids[0]}, which the device plugin of the node chose" in said

            node.stop()
            version = machine.read()["metadata"]["resourceVersion"]
            eventually(lambda: any("does not say" in one["event"] for one in agent.records))
            assert machine.read()["metadata"]["resourceVersion"] == version
            node.start()
            pods.delete("p1")
            eventually(lambda: machine.listed().get("picked") == {uids[0]: picked[uids[0]]})

    with machine.agent(*options) as agent:
        eventually(lambda: any("does not say" in one["event"] for one in agent.records))
        assert machine.listed()["picked"] == {uids[0]: picked[uids[0]]}, "as it was left"


def test_who_is_no_node_of_the_cluster_is_told_so(machine: Machine) -> None:
    with machine.agent(node="nobody") as agent:
        eventually(lambda: "does --node name a node of this cluster?" in agent.get("/readyz")[1])


async def test_what_somebody_edits_is_put_right(machine: Machine, rights: Path) -> None:
    client = Client(load_access(str(rights)))
    wanted = Listing([GpuEntry(0, "GPU-a")])
    publisher = Publisher(client, machine.node, lambda _: wanted, look_s=0.05)
    import asyncio

    running = asyncio.create_task(publisher.run())
    try:
        for edit in ('{"version": 2, "gpus": []}', "nonsense", None):
            await wait_for(lambda: machine.listed().get("gpus"))
            machine.annotate(edit)
            before = publisher.writes
            await wait_for(lambda: publisher.writes > before)  # noqa: B023
        await wait_for(
            lambda: machine.listed() == {"version": 2, "gpus": [{"index": 0, "uuid": "GPU-a"}]}
        )
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


async def test_a_list_that_is_too_long_is_not_sent(machine: Machine, rights: Path) -> None:
    client = Client(load_access(str(rights)))
    long = Listing([GpuEntry(0, "GPU-a", model="x" * 200_000)])
    publisher = Publisher(client, machine.node, lambda _: long)
    try:
        assert "the limit is" in await publisher.publish()
        assert machine.listed() == {}
    finally:
        await client.close()


def _offers(agent: Running) -> list[dict[str, Any]]:
    return [each for each in agent.records if each["event"] == "resources published"]


def test_the_node_offers_parts_of_gpus_and_then_loses_its_taint(machine: Machine) -> None:
    milli, mib, gpu = "fairlead.dev/gpu-milli", "fairlead.dev/gpu-mib", "nvidia.com/gpu"
    ours = {"key": "fairlead.dev/agent-not-ready", "effect": "NoSchedule"}
    other = {"key": "example.com/other", "effect": "NoSchedule"}
    path, merge = f"/api/v1/nodes/{machine.node}", "application/merge-patch+json"
    said = {"spec": {"taints": [other, ours]}}
    assert machine.plane.api("PATCH", path, said, content_type=merge)[0] == 200

    def offered(field: str = "allocatable") -> tuple[str | None, ...]:
        found = machine.read()["status"][field]
        return found.get(milli), found.get(mib), found.get(gpu)

    with machine.agent("--gpu-resources", "all") as agent:
        eventually(lambda: machine.read()["spec"]["taints"] == [other])
        assert offered() == offered("capacity") == ("2k", str(2 * 143771), "2")
        assert machine.listed().get("plugin") is None, "the agent itself offers whole GPUs"
        with machine.driver.open() as driver:
            driver.gpus.pop(1)
        eventually(lambda: offered()[0] == "1k", what="a lost GPU is not offered")
        assert agent.get("/readyz") == (200, "ok")
        # It is logged after the API server shows it.
        eventually(lambda: len(_offers(agent)) >= 2)
        assert len(_offers(agent)) == 2
    with machine.agent("--gpu-resources", "withdraw"):
        eventually(lambda: offered()[:2] == (None, None), what="it is withdrawn")
    assert machine.read()["status"]["allocatable"]["cpu"] == "8"
