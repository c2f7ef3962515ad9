"""Which pods are gone or have ended, and when an agent calls them released."""

import asyncio
from pathlib import Path

import pytest

from builders import a_pod
from fairlead.apps.agent.releases import ReleasedPods
from fairlead.base.node_inventory import MOST_RELEASED, GpuEntry, Listing, write
from fairlead.kube.dialects import inventory
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import GpuUse, Grant
from fairlead.model.pods import Pod
from fairlead.telemetry.processes import pods_running

STARTED = "2026-01-01T00:00:00Z"
GRANT = Grant((GpuUse("GPU-a"),))


def vanished(uid: str, **more: object) -> Pod:
    return a_pod(uid, **{"uid": uid, "node": "n", "grant": GRANT, "started": STARTED, **more})


class Machine:
    """What runs on it, and how often there was news."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.news = 0
        self.releases = ReleasedPods(lambda: self.running, self._changed)

    def _changed(self) -> None:
        self.news += 1


def test_a_pod_is_released_when_none_of_its_processes_runs() -> None:
    machine = Machine()
    machine.running = {"a", "other"}
    machine.releases.gone(vanished("a"))
    machine.releases.gone(vanished("b"))
    machine.releases.look()
    assert machine.releases.released == ("b",)
    machine.releases.look()
    assert machine.news == 1
    machine.running = set()
    machine.releases.look()
    assert machine.releases.released == ("a", "b")
    assert machine.news == 2


@pytest.mark.parametrize("more", [{"started": ""}, {"grant": None}])
def test_nobody_waits_for_a_pod_that_never_began_or_has_no_gpu(more: dict[str, object]) -> None:
    machine = Machine()
    machine.releases.gone(vanished("a", **more))
    machine.releases.look()
    assert machine.releases.released == ()


def test_a_pod_that_ended_and_is_deleted_later_is_news_once() -> None:
    machine = Machine()
    for finished in (True, True, False):
        machine.releases.gone(vanished("a", finished=finished))
        machine.releases.look()
    assert machine.news == 1


def test_the_list_has_an_end() -> None:
    machine = Machine()
    for number in range(2 * MOST_RELEASED):
        machine.releases.gone(vanished(f"{number:04}"))
        machine.releases.look()
    assert len(machine.releases.released) == MOST_RELEASED
    assert machine.releases.released[0] == f"{2 * MOST_RELEASED - 1:04}"


async def test_it_looks_until_the_processes_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.apps.agent.releases._PAUSE_S", 0.001)
    machine, looked = Machine(), asyncio.Event()

    def running() -> set[str]:
        looked.set()
        return machine.running

    machine.releases._running = running
    task = asyncio.create_task(machine.releases.run())
    machine.running = {"a"}
    machine.releases.gone(vanished("a"))
    for _ in range(3):
        looked.clear()
        await looked.wait()
    assert machine.releases.released == ()
    machine.running = set()
    while not machine.news:
        await asyncio.sleep(0)
    assert machine.releases.released == ("a",)
    task.cancel()


def test_the_scheduler_reads_what_the_agent_writes() -> None:
    gpus = [GpuEntry(0, "GPU-a")]
    found = inventory.read(write(Listing(gpus, confirms=True, released=["u", "v"])))
    assert found.confirms
    assert found.released == {"u", "v"}
    assert not inventory.read(write(Listing(gpus))).confirms
    too_many = write(Listing(gpus, released=["u"] * (MOST_RELEASED + 1)))
    with pytest.raises(FairleadError, match="released"):
        inventory.read(too_many)


def test_all_processes_of_a_pod_count_on_a_gpu_or_not(tmp_path: Path) -> None:
    uid = "6a0c2f1e-1111-4222-8333-0123456789ab"
    for pid, place in (("17", f"/kubepods/pod{uid}/{'5f' * 32}"), ("18", "/user.slice")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(f"0::{place}\n")
    (tmp_path / "19").mkdir()  # has just ended
    (tmp_path / "self").mkdir()
    assert pods_running(tmp_path) == {uid}
