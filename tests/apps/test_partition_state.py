"""The list of MIG slices that the agent created, on disk."""

import os
from pathlib import Path

import pytest

from fairlead.apps.agent.partition_state import FILE, GpuState, PartitionStateFile
from fairlead.telemetry.nvml.partitions import CreatedInstance, Place

CREATED = CreatedInstance(7, Place("1g.18gb", 0, 1))


def test_all_of_the_list_is_on_disk_before_it_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda it: synced.append((os.fstat(it).st_size, (tmp_path / FILE).exists()))
    )
    store, state = PartitionStateFile(tmp_path), {"GPU-0": GpuState(frozenset({CREATED}), True)}
    store.write({**state, "GPU-1": GpuState()})

    assert store.read() == state
    assert synced[0] == ((tmp_path / FILE).stat().st_size, False)
    assert [is_there for _, is_there in synced] == [False, True], "then the folder"
