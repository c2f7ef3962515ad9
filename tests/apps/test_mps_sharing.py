"""A pod that takes a GPU without MPS loses all of its processes, and no other pod does."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.apps.agent.mps.sharing import MpsSettings, MpsSharing
from fairlead.apps.agent.partitioning import Owned
from fairlead.apps.agent.unassigned_processes import NodePod
from fairlead.telemetry.nvml.facts import GpuFacts

UID, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
_NOTHING: Any = None


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    found = [subprocess.Popen(["sleep", "600"]) for _ in range(4)]
    yield found
    for each in found:
        each.kill()
        each.wait()


async def test_all_processes_of_the_pod_are_killed_and_no_others(
    sleepers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    groups = (f"pod{UID}/a", f"pod{UID}/b", f"pod{OTHER}/a", "user.slice")
    for process, group in zip(sleepers, groups, strict=True):
        folder = tmp_path / str(process.pid)
        folder.mkdir()
        (folder / "cgroup").write_text(f"0::/kubepods/{group}\n")
        (folder / "comm").write_text("sleep\n")
    sharing = MpsSharing(
        MpsSettings(Owned(), proc=tmp_path), _NOTHING, _NOTHING, _NOTHING,
        gpus=tuple, plugin=bool, changed=_NOTHING,
    )  # fmt: skip
    pods = {uid: (NodePod("default", "p", uid),) for uid in (UID, OTHER)}

    sharing._kill_pod(pods[UID][0], pods)

    assert [process.wait(60) for process in sleepers[:2]] == [-9, -9]
    assert [process.poll() for process in sleepers[2:]] == [None, None]


async def test_the_node_is_listed_again_when_mps_has_changed(tmp_path: Path) -> None:
    pods: Any = SimpleNamespace(synced=True, objects={}, problem="")
    changed = asyncio.Event()
    sharing = MpsSharing(
        MpsSettings(Owned(everything=True), folder=tmp_path), _NOTHING, pods, _NOTHING,
        gpus=lambda: [GpuFacts(0, "GPU-0")], plugin=lambda: True, changed=changed.set,
    )  # fmt: skip

    running = asyncio.create_task(sharing.run())
    async with asyncio.timeout(10):
        await changed.wait()
    running.cancel()

    because = "no MPS: a device plugin chooses the GPUs of this node"
    assert sharing.listed.notes == {"GPU-0": because}
