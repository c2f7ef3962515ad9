"""MIG from the pod's annotation to the slice and back: scheduler, agent and API server as they are.

Only the GPU is imagined, and it answers as a real one did (`tests/sim/test_nvml.py`).
"""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.nvml import FakeProcess
from fairlead.sim.nvml.machine import FakeInstance
from fairleads import FAIRLEAD, PATIENCE_S, Pods, Running, eventually, fairlead
from preloaded import run
from test_agent import Machine, machine, rights  # noqa: F401 — fixtures

pytestmark = pytest.mark.server


class Cut:
    """The machine with an agent that owns its first GPU, and a scheduler."""

    def __init__(self, machine: Machine, plane: ControlPlane, state: Path) -> None:  # noqa: F811
        self.machine, self.plane, self.state = machine, plane, state
        state.mkdir()

    @contextmanager
    def agent(self, mig: str = "", ends_with: int = 0) -> Iterator[Running]:
        owned = mig or self.machine.uuids[0]
        with self.machine.agent(
            "--mig", owned, "--state", str(self.state), ends_with=ends_with
        ) as running:
            yield running

    def slices(self) -> list[tuple[int, int, int, bool]]:
        """Id, start, size, and whether it can be used."""
        with self.machine.driver.open() as driver:
            found = driver.gpus[0].instances
            return sorted((one.id, one.start, one.size, bool(one.computes)) for one in found)

    def gpu(self) -> dict[str, Any]:
        return (self.machine.listed().get("gpus") or [{}])[0]

    def offered(self) -> dict[str, list[int]]:
        return {one["name"]: one["starts"] for one in self.gpu().get("slices", ())}


@pytest.fixture
def cut(machine: Machine, control_plane: ControlPlane, tmp_path: Path) -> Cut:  # noqa: F811
    return Cut(machine, control_plane, tmp_path / "state")


def ask(pods: Pods, name: str, profile: str, node: str) -> dict[str, Any]:
    return pods.create(
        name,
        metadata={"annotations": {"fairlead.dev/gpu-slice": profile}},
        nodeSelector={"kubernetes.io/hostname": node},
    )


def given(pods: Pods, name: str) -> str:
    return pods.get(name)["metadata"].get("annotations", {}).get("fairlead.dev/gpus", "")


def test_a_pod_gets_a_slice_of_its_own_and_gives_it_back(cut: Cut, pods: Pods) -> None:
    uuid, node = cut.machine.uuids[0], cut.machine.node
    with cut.agent(), fairlead(cut.plane):
        eventually(lambda: cut.gpu().get("cut") == "free")
        assert cut.offered()["1g.18gb"] == [0, 1, 2, 3, 4, 5, 6]
        ask(pods, "small", "1g.18gb", node)
        pods.wait_bound("small")
        (made,) = eventually(lambda: [one for one in cut.slices() if one[3]])
        assert given(pods, "small") == f"MIG-{uuid}/{made[0]}/0"
        ask(pods, "large", "3g.71gb", node)
        pods.wait_bound("large")
        eventually(lambda: len([one for one in cut.slices() if one[3]]) == 2)
        ids = {f"MIG-{uuid}/{id_}/0" for id_, *_ in cut.slices()}
        assert {given(pods, "small"), given(pods, "large")} == ids

        pods.delete("small")
        eventually(lambda: len(cut.slices()) == 1)
        pods.delete("large")
        eventually(lambda: cut.slices() == [])


def test_a_share_that_demands_mig_gets_the_smallest_slice_that_covers_it(
    cut: Cut, pods: Pods
) -> None:
    words = {"fairlead.dev/gpu-share": "0.25", "fairlead.dev/gpu-isolation": "mig"}
    large = {**words, "fairlead.dev/gpu-memory": "34Gi"}
    where = {"kubernetes.io/hostname": cut.machine.node}
    with cut.agent(), fairlead(cut.plane):
        eventually(lambda: cut.gpu().get("cut") == "free")
        for name, said in (("quarter", words), ("large", large)):
            pods.create(name, metadata={"annotations": said}, nodeSelector=where)
            pods.wait_bound(name)
        eventually(lambda: [done for *_, done in cut.slices()] == [True, True])
        assert sorted(size for _, _, size, _ in cut.slices()) == [2, 4], "a 2g.35gb and a 3g.71gb"
        ids = {f"MIG-{cut.machine.uuids[0]}/{id_}/0" for id_, *_ in cut.slices()}
        assert {given(pods, "quarter"), given(pods, "large")} == ids
        pods.delete("quarter")
        pods.delete("large")
        eventually(lambda: cut.slices() == [])


def test_a_killed_agent_finds_its_own_slices_again(cut: Cut, pods: Pods) -> None:
    node = cut.machine.node
    with fairlead(cut.plane):
        with cut.agent(ends_with=-signal.SIGKILL) as agent:
            eventually(lambda: cut.gpu().get("cut") == "free")
            ask(pods, "stays", "1g.18gb", node)
            ask(pods, "goes", "1g.18gb", node)
            pods.wait_bound("stays", "goes")
            eventually(lambda: len([one for one in cut.slices() if one[3]]) == 2)
            agent.process.kill()
            agent.process.wait(PATIENCE_S)
        kept = int(given(pods, "stays").split("/")[1])
        pods.delete("goes")
        # Killed in the middle of a step: a GPU instance without its compute instance.
        with cut.machine.driver.open() as driver:
            next(one for one in driver.gpus[0].instances if one.id == kept).computes.clear()
        with cut.agent():
            eventually(lambda: [(one[0], one[3]) for one in cut.slices()] == [(kept, True)])


def test_others_slices_are_left_alone_and_their_places_not_offered(cut: Cut, pods: Pods) -> None:
    with cut.agent():
        eventually(lambda: cut.gpu().get("cut") == "free")
        with cut.machine.driver.open() as driver:
            driver.gpus[0].instances.append(FakeInstance(1, 9, 0, 4, driver.serial()))
        eventually(lambda: cut.offered().get("3g.71gb") == [4])
        assert cut.offered()["1g.18gb"] == [4, 5, 6]
        assert "7g.141gb" not in cut.offered()
        assert "did not create" in cut.gpu()["note"]
        with fairlead(cut.plane):  # one that ran before might not have heard of it yet
            ask(pods, "beside", "3g.71gb", cut.machine.node)
            pods.wait_bound("beside")
            eventually(
                lambda: [(id_, done) for id_, _, _, done in cut.slices()] == [(1, False), (2, True)]
            )
            pods.delete("beside")
            eventually(lambda: [id_ for id_, *_ in cut.slices()] == [1])


def test_a_pod_whose_place_is_taken_is_told_what_to_do(cut: Cut, pods: Pods) -> None:
    """It was bound before anybody knew."""
    uses = [{"u": cut.machine.uuids[0], "m": 0, "w": False, "p": "1g.18gb", "s": 2, "n": 1}]
    said = {
        "fairlead.dev/gpu-slice": "1g.18gb",
        "fairlead.dev/assignment": json.dumps({"devices": uses, "dialect": "fairlead"}),
    }
    with cut.agent():
        eventually(lambda: cut.gpu().get("cut") == "free")
        with cut.machine.driver.open() as driver:
            driver.gpus[0].instances.append(FakeInstance(4, 15, 2, 2, driver.serial()))
        pods.create("late", metadata={"annotations": said}, nodeName=cut.machine.node)
        (event,) = eventually(lambda: cut.machine.events("late"))
        assert event["reason"] == "MIGSliceNotMade"
        assert "GPU instance 4 (1g.35gb at slice 2) lies there" in event["note"]
        assert "nvidia-smi mig" in event["note"]
        with cut.machine.driver.open() as driver:
            driver.gpus[0].instances.clear()
        eventually(lambda: cut.slices() == [(9, 2, 1, True)])


def test_a_gpu_in_use_waits_and_one_that_is_given_back_is_whole_again(cut: Cut) -> None:
    with cut.machine.driver.open() as driver:
        driver.gpus[0].processes.append(FakeProcess(4711, 1 << 30))
    with cut.agent():
        eventually(lambda: "when the GPU is empty" in cut.gpu().get("health", ""))
        with cut.machine.driver.open() as driver:
            assert not driver.gpus[0].mig
            driver.gpus[0].processes.clear()
        eventually(lambda: cut.gpu().get("cut") == "free")
        assert cut.gpu().get("health", "ok") == "ok"
    with cut.agent("none"):
        eventually(lambda: "slices" not in cut.gpu())
        with cut.machine.driver.open() as driver:
            assert not driver.gpus[0].mig


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(("--mig", "all"), "--state DIR"), (("--mig", "0,1"), "write all, none, or uuids")],
)
def test_what_makes_no_sense_is_refused_at_the_start(
    options: tuple[str, ...], sentence: str
) -> None:
    command = [str(FAIRLEAD), "agent", "--node", "n", *options]
    done = run(command)

    assert done.returncode == 1
    assert sentence in done.stderr
