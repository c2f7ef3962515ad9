"""What a test has of its own on the shared control plane, and programs beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from charts import Helm
from fairlead.sim.controlplane import ChildProcess, ControlPlane
from plane_fixtures import *  # noqa: F403


@pytest.fixture
def kwok(control_plane: ControlPlane, kwok_program: Path) -> Iterator[ChildProcess]:
    """KWOK on the shared control plane for the time of one test."""
    with control_plane.start_kwok() as process:
        yield process


@pytest.fixture
def charts(helm: Path, tmp_path: Path) -> Helm:
    return Helm(helm, tmp_path)
