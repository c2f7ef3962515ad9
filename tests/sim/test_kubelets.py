"""Simulated kubelets on the embedded server's store: no sockets, and a clock of the test's own."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from fairlead.base.node_inventory import KEY
from fairlead.model.nodes import GPU
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bootstrap import bootstrap
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.controllers import Controllers
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.deleting import delete
from fairlead.sim.apiserver.store import Store
from fairlead.sim.apiserver.strategy import strategy_for
from fairlead.sim.kubelets import RUN_FOR, Kubelets
from fairlead.sim.kubelets.agenda import Agenda
from fairlead.sim.kubelets.gpus import busyness
from fairlead.sim.kubelets.hosts import LEASE_EVERY_S
from fairlead.sim.kubelets.work import CHOSEN_GPUS
from fairlead.sim.machines import machines


class World:
    """An API without a server, kubelets on it, and time that passes when told to."""

    def __init__(self, speed: float = 1.0) -> None:
        self.now = 1000.0
        self.api = ApiState(Store())
        bootstrap(self.api)
        self.kubelets = Kubelets(self.api, speed=speed, clock=lambda: self.now)

    async def begin(self, nodes: int = 1) -> None:
        await self.kubelets.register(machines(nodes))
        self.kubelets.follow()

    def pass_s(self, seconds: float, stride: float = 0.05) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + stride)
            while (due := self.kubelets.step()) is not None and due <= self.now:
                pass

    async def pod(self, name="p", node="h100-01", gpus=1, **annotations) -> None:
        kind = self.api.kinds.plural("pods")
        limits = {GPU: str(gpus)} if gpus else {}
        pod = {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}],
            },
        }
        strategy_for(kind).default(pod)
        await create(self.api, Call(kind, "default", name), pod)

    async def delete(self, name: str) -> None:
        await delete(self.api, Call(self.api.kinds.plural("pods"), "default", name), {})

    def shown(self, name="p"):
        return self.api.find("pods", f"default/{name}")

    def phase(self, name="p"):
        return self.shown(name)["status"]["phase"]

    def node(self, name="h100-01"):
        return self.api.find("nodes", name)

    def busy_gpus(self, node="h100-01"):
        return [gpu.index for gpu in self.kubelets.readings(node) if gpu.pod]


async def test_a_bound_pod_runs_with_an_address_and_ready_containers():
    world = World()
    await world.begin()
    await world.pod()
    assert world.phase() == "Pending"
    world.pass_s(1.1)
    status = world.shown()["status"]
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("10.")
    assert status["hostIP"] == "10.0.0.1"
    assert status["containerStatuses"][0]["ready"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions["Ready"] == conditions["ContainersReady"] == "True"


@pytest.mark.parametrize(("speed", "lasts_s"), [(1.0, 30.0), (10.0, 3.0)])
async def test_a_pod_succeeds_after_its_time(speed, lasts_s):
    world = World(speed)
    await world.begin()
    await world.pod(**{RUN_FOR: "30s"})
    world.pass_s(1.1 / speed)
    world.pass_s(lasts_s - 1.1 / speed)
    assert world.phase() == "Running"
    world.pass_s(1.5 / speed)
    status = world.shown()["status"]
    assert status["phase"] == "Succeeded"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.parametrize("told", [{}, {RUN_FOR: "soon"}])
async def test_a_pod_that_says_no_time_runs_on(told):
    world = World()
    await world.begin()
    await world.pod(**told)
    world.pass_s(3600, stride=5)
    assert world.phase() == "Running"


async def test_a_pod_that_has_no_node_is_left_alone():
    world = World()
    await world.begin()
    await world.pod(node="")
    await world.pod("q", node="no-such-node")
    world.pass_s(5)
    assert world.phase() == world.phase("q") == "Pending"


async def test_a_deleted_pod_is_gone_after_a_moment():
    world = World()
    await world.begin()
    await world.pod()
    world.pass_s(2)
    await world.delete("p")
    assert world.shown()["metadata"]["deletionTimestamp"]
    world.pass_s(0.5)
    assert world.shown() is None
    assert world.busy_gpus() == []


async def test_a_pod_with_finalizers_stays_until_they_are_gone():
    world = World()
    await world.begin()
    await world.pod()
    pod = world.shown()
    pod["metadata"]["finalizers"] = ["example.com/wait"]
    world.api.store.put(world.api.kinds.plural("pods"), "default/p", pod)
    await world.delete("p")
    world.pass_s(5)
    assert world.shown()["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_gpus_are_given_to_one_pod_each_and_come_back():
    world = World()
    await world.begin()
    await world.pod("a", gpus=3, **{RUN_FOR: "10s"})
    await world.pod("b", gpus=4)
    world.pass_s(2)
    assert len(world.busy_gpus()) == 7
    world.pass_s(12)
    assert len(world.busy_gpus()) == 4


async def test_one_gpu_too_many_fails_the_pod_as_a_real_kubelet_does():
    world = World()
    await world.begin()
    await world.pod("a", gpus=8)
    world.pass_s(2)
    await world.pod("b", gpus=1)
    world.pass_s(2)
    status = world.shown("b")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "Requested: 1, Available: 0" in status["message"]


async def test_gpus_that_the_scheduler_chose_are_taken():
    world = World()
    await world.begin()
    gpus = json.loads(world.node()["metadata"]["annotations"][KEY])["gpus"]
    chosen = ",".join(gpus[index]["uuid"] for index in (5, 2))
    await world.pod(gpus=2, **{CHOSEN_GPUS: chosen})
    world.pass_s(2)
    assert world.busy_gpus() == [2, 5]


async def test_readings_follow_what_runs():
    world = World()
    await world.begin()
    idle = world.kubelets.readings("h100-01")
    assert {gpu.power_w for gpu in idle} == {70}
    assert all(gpu.utilisation_percent == 0 for gpu in idle)
    await world.pod(gpus=2)
    world.pass_s(10)
    busy = [gpu for gpu in world.kubelets.readings("h100-01") if gpu.pod]
    assert [gpu.pod for gpu in busy] == ["default/p"] * 2
    for gpu in busy:
        assert 40 <= gpu.utilisation_percent <= 100
        assert 70 < gpu.power_w <= 700
        assert 1000 < gpu.memory_used_mib <= gpu.memory_total_mib
    assert world.kubelets.readings("no-such-node") == []


async def test_pods_with_shares_work_side_by_side_on_the_gpu_that_was_chosen():
    world = World()
    await world.begin()
    uuid = json.loads(world.node()["metadata"]["annotations"][KEY])["gpus"][3]["uuid"]
    for name in ("serve-a", "train-b"):
        await world.pod(name, gpus=0, **{CHOSEN_GPUS: uuid})
    world.pass_s(10)
    gpu = world.kubelets.readings("h100-01")[3]
    assert set(gpu.pods) == {"default/serve-a", "default/train-b"}
    assert gpu.utilisation_percent == sum(percent for percent, _ in gpu.pods.values())
    assert world.busy_gpus() == [3]
    [told] = [told for told in world.kubelets.node_readings() if told.node == "h100-01"]
    assert told.gpus[uuid].utilisation == gpu.utilisation_percent / 100
    assert told.pods["default/train-b"].utilisation == gpu.pods["default/train-b"][0] / 100


async def test_what_a_pod_does_is_in_its_name():
    def week(pod):
        return [busyness(pod, age_s) for age_s in range(10, 600)]

    idle, bursty, steady = week("ns/notebook-1"), week("ns/serve-1"), week("ns/train-1")
    assert sum(busy == 0 for busy in idle) > 0.8 * len(idle)
    assert max(idle) > 0.3
    assert max(bursty) > 0.8 > 0.5 > sum(bursty) / len(bursty)
    assert steady[:200] == pytest.approx(steady[8:208])  # a step takes eight seconds
    assert min(steady) > 0.4


async def test_a_gpu_that_falls_off_is_no_longer_allocatable_and_fails_its_pod():
    world = World()
    await world.begin()
    await world.pod("a", gpus=1)
    world.pass_s(2)
    [index] = world.busy_gpus()
    world.kubelets.lose_gpu("h100-01", index)
    world.pass_s(0.1)
    node = world.node()
    assert node["status"]["capacity"][GPU] == "8"
    assert node["status"]["allocatable"][GPU] == "7"
    gpus = json.loads(node["metadata"]["annotations"][KEY])["gpus"]
    assert [gpu["index"] for gpu in gpus if gpu.get("health") == "lost"] == [index]
    assert world.phase("a") == "Failed"
    assert world.kubelets.readings("h100-01")[index].lost
    world.kubelets.return_gpu("h100-01", index)
    world.pass_s(0.1)
    assert world.node()["status"]["allocatable"][GPU] == "8"
    assert '"health"' not in world.node()["metadata"]["annotations"][KEY]


async def test_on_a_node_that_is_down_nothing_moves_until_it_is_back():
    world = World()
    await world.begin()
    await world.pod("a", **{RUN_FOR: "5s"})
    world.pass_s(2)
    world.kubelets.take_down("h100-01")
    world.pass_s(0.1)
    assert _ready(world.node()) == ("False", "KubeletNotReady")
    await world.pod("b")
    world.pass_s(20)
    assert (world.phase("a"), world.phase("b")) == ("Running", "Pending")
    world.kubelets.bring_back("h100-01")
    world.pass_s(6)
    assert _ready(world.node()) == ("True", "KubeletReady")
    assert (world.phase("a"), world.phase("b")) == ("Succeeded", "Running")


def _ready(node):
    found = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
    return found["status"], found["reason"]


async def test_a_node_that_is_down_is_tainted_and_freed_again():
    world = World()
    async with _controllers(world):
        await world.begin()
        world.kubelets.take_down("h100-01")
        world.pass_s(0.1)
        await _until(lambda: _effects(world.node()) == {"NoSchedule", "NoExecute"})
        world.kubelets.bring_back("h100-01")
        world.pass_s(0.1)
        await _until(lambda: _effects(world.node()) == set())


def _effects(node):
    return {taint["effect"] for taint in node["spec"].get("taints") or []}


@asynccontextmanager
async def _controllers(world):
    async with Controllers(world.api).running():
        yield


async def _until(true, patience_s: float = 60.0) -> None:
    async with asyncio.timeout(patience_s):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_node_that_kubectl_made_becomes_ready():
    world = World()
    await world.begin(0)
    kind = world.api.kinds.plural("nodes")
    node = {"metadata": {"name": "mine"}, "status": {"capacity": {GPU: "2", "cpu": "4"}}}
    strategy_for(kind).default(node)
    await create(world.api, Call(kind, name="mine"), node)
    await world.pod(node="mine", gpus=2)
    world.pass_s(2)
    assert _ready(world.node("mine")) == ("True", "KubeletReady")
    assert world.phase() == "Running"


async def test_leases_are_renewed_and_go_with_their_node():
    world = World()
    await world.begin(3)
    leases = world.api.store.collection("leases.coordination.k8s.io")
    world.pass_s(LEASE_EVERY_S + 0.1)
    first = {key: entry.object() for key, entry in leases.entries.items()}
    assert len(first) == 3
    await asyncio.sleep(0.001)
    world.pass_s(LEASE_EVERY_S + 0.1)
    for key, entry in leases.entries.items():
        renewed = entry.object()
        assert renewed["spec"]["renewTime"] > first[key]["spec"]["renewTime"]
        assert renewed["metadata"]["uid"] == first[key]["metadata"]["uid"]
    world.api.store.remove(world.api.kinds.plural("nodes"), "h100-01")
    assert len(leases.entries) == 2


async def test_new_kubelets_go_on_with_what_the_old_ones_left():
    world = World()
    await world.begin()
    await world.pod("a", gpus=2, **{RUN_FOR: "10s"})
    world.pass_s(2)
    world.kubelets.unfollow()
    world.kubelets = Kubelets(world.api, clock=lambda: world.now)
    await world.begin()
    assert len(world.busy_gpus()) == 2
    world.pass_s(12)
    assert world.phase("a") == "Succeeded"


async def test_they_run_in_real_time_too():
    world = World()
    kubelets = Kubelets(world.api, speed=50)
    await kubelets.register(machines(1))
    running = asyncio.create_task(kubelets.run())
    await asyncio.sleep(0)
    await world.pod(**{RUN_FOR: "1s"})
    await _until(lambda: world.phase() == "Succeeded")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not world.api.store.collection("pods").listeners


def test_an_agenda_keeps_the_latest_appointment_only():
    agenda: Agenda[str, str] = Agenda()
    agenda.put("a", 5.0, "early")
    agenda.put("a", 9.0, "late")
    agenda.put("b", 7.0, "other")
    agenda.put("c", 6.0, "dropped")
    agenda.drop("c")
    assert agenda.next_due_s() == 7.0
    assert list(agenda.pop_due(8.0)) == [("b", "other")]
    assert list(agenda.pop_due(9.0)) == [("a", "late")]
    assert agenda.next_due_s() is None
    assert len(agenda) == 0
