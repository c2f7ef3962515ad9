"""A running scheduler with the solver, on the real API server."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead

#: The price of a core, by node: they all have 8.
PRICES = {"sol-cheap": 1, "sol-dear": 2}
CONFIG = """
goals:
  currency: USD
  prices: [{kind: label, key: example.com/price}]
profiles:
  - schedulerName: solves
    goals: {order: [{sum: [Cost]}]}
    solver: {budget: %s}
"""
#: Stands in for the solver: it starts, and answers what cannot be read.
NONSENSE = """
import sys
def Highs():
    sys.stdout.buffer.write(b'{"nodes": [[[[\\n')
    sys.stdout.buffer.flush()
    raise SystemExit
"""
#: By the largest first, 5 cores are on the cheap node and 4 and 4 on the dear one.
SIZES = 5, 4, 4
GREEDY, LEAST = 5 * 1 + 8 * 2, 8 * 1 + 5 * 2


@contextmanager
def solving(
    plane: ControlPlane, path: Path, budget: str = "5s", env: dict[str, str] | None = None
) -> Iterator[Running]:
    file = path / "solver.yaml"
    file.write_text(CONFIG % budget)
    with fairlead(plane, "--config", str(file), env=env) as running:
        eventually(lambda: events(running, "solver ready"), what="the solver is ready")
        yield running


def events(running: Running, name: str) -> list[dict[str, Any]]:
    return [record for record in running.records if record["event"] == name]


@pytest.fixture(autouse=True)
def nodes(create_nodes: Callable[..., Any]) -> None:
    for name, price in PRICES.items():
        labels = {"example.com/price": str(8 * price)}
        create_nodes([name], allocatable={"cpu": "8"}, labels=labels)


def cost(pods: Pods, name: str) -> int:
    """What a core costs on the node of each pod of a gang, which is deleted then."""
    said = {"fairlead.dev/gang": name, "fairlead.dev/gang-min": str(len(SIZES))}
    names = [f"{name}-{number}" for number in range(len(SIZES))]
    for each, cores in zip(names, SIZES, strict=True):
        pods.create(
            each, scheduler="solves", requests={"cpu": str(cores)}, metadata={"annotations": said}
        )
    bound = pods.wait_bound(*names)
    for each in names:
        pods.delete(each)
    eventually(lambda: not any(map(pods.get, names)), what=f"{name} is gone")
    return sum(PRICES[bound[each]] * cores for each, cores in zip(names, SIZES, strict=True))


def worker_of(running: Running) -> int:
    """The process of the solver."""
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # it has ended
            continue
        if parent == running.process.pid and b"fairlead.apps.run.solving" in words:
            return int(each.name)
    raise AssertionError("there is no such process")


def test_a_gang_gets_the_cheapest_nodes_and_a_process_that_dies_is_started_again(
    control_plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    with solving(control_plane, tmp_path) as running:
        assert cost(pods, "first") == LEAST
        assert running.metric("fairlead_solver_answers_total", result="plan") == 1
        os.kill(worker_of(running), signal.SIGKILL)
        numbers = count()

        def noticed() -> bool:
            """By one of the next questions; a gang that comes too soon is not asked about."""
            assert cost(pods, f"killed-{next(numbers)}") in (GREEDY, LEAST)
            return len(events(running, "solver ready")) > 1 or bool(
                events(running, "solver failed")
            )

        eventually(noticed, what="the end was noticed")


def test_a_process_that_hangs_costs_a_gang_no_more_than_its_time(
    control_plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    with solving(control_plane, tmp_path, "500ms") as running:
        hung = worker_of(running)
        os.kill(hung, signal.SIGSTOP)
        assert cost(pods, "hung") == GREEDY
        # The gang may be placed before the question is given up.
        eventually(lambda: running.metric("fairlead_solver_answers_total", result="error") == 1)
        assert not Path(f"/proc/{hung}").exists(), "it was ended"
        assert cost(pods, "later") == GREEDY, "it is left alone for a while"


def test_an_answer_that_cannot_be_read_is_none(
    control_plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "highspy.py").write_text(NONSENSE)
    with solving(control_plane, tmp_path, env={"PYTHONPATH": str(library)}) as running:
        assert cost(pods, "garbled") == GREEDY
        eventually(lambda: running.metric("fairlead_solver_answers_total", result="error") == 1)
