"""`fairlead sim --dra`: jobs of a trace that ask for GPUs by resource claims."""

import random
from pathlib import Path

import pytest

from examples import so_many
from fairlead.apps.simulate.by_claims import by_claims
from fairlead.apps.simulate.runs import SimRun
from fairlead.apps.simulate.simulate import SimOptions, runs_of
from fairlead.model.errors import ConfigError
from fairlead.sim.traces.plain import read_plain
from fairlead.sim.virtual.jobs import equal_nodes


def a_file(folder: Path, *rows: str, columns: str = "submit_s,run_s,gpus") -> str:
    file = folder / "trace.csv"
    file.write_text("\n".join((columns, *rows)) + "\n", encoding="utf-8")
    return str(file)


def drawn_file(folder: Path) -> str:
    """Single GPUs, parts of nodes, and gangs of several nodes, more than there is room for."""
    draw = random.Random(23)
    sizes = (1, 1, 1, 2, 3, 4, 8, 8, 12, 16)
    jobs = so_many(40, few=20)
    rows = (
        f"{draw.randrange(600)},{draw.randrange(50, 900)},{draw.choice(sizes)}" for _ in range(jobs)
    )
    return a_file(folder, *rows)


def a_run(file: str, dra: str = "", policy: str = "fifo", nodes: str = "3x8") -> SimRun:
    (run,) = runs_of(SimOptions([file], [policy], nodes=nodes, dra=dra, is_quiet=True))
    return run


def times(run: SimRun) -> dict[str, tuple[object, ...]]:
    return {job.name: (job.start_s, job.end_s, job.nodes) for job in run.result.jobs}


@pytest.mark.parametrize(
    ("policy", "dra"),
    [("fifo", "whole"), ("fifo-strict", "whole"), ("srtf", "whole"), ("sjf", "mig")],
)
def test_jobs_start_when_and_where_they_would_without_claims(
    tmp_path: Path, policy: str, dra: str
) -> None:
    """Where only whole GPUs are asked for."""
    file = drawn_file(tmp_path)
    plain, claimed = a_run(file, policy=policy), a_run(file, dra, policy)
    assert times(claimed) == times(plain)
    assert claimed.figures.utilisation == pytest.approx(plain.figures.utilisation)
    assert claimed.figures.wait_avg_s > 100  # there was something to decide


def test_devices_of_the_example_driver_are_used_and_counted(tmp_path: Path) -> None:
    """Nothing but the driver knows that they are GPUs."""
    file = a_file(tmp_path, "0,100,8", "0,50,1", "10,30,4", "20,10,9")
    run = a_run(file, "example", nodes="2x8")
    assert [job.start_s for job in run.result.jobs] == [0, 0, 10, 100]
    assert run.figures.utilisation == pytest.approx((800 + 50 + 120 + 90) / (16 * 110))


def test_parts_of_gpus_are_slices_of_mig(tmp_path: Path) -> None:
    """Seven slices of a GPU, or one of three and one of four sevenths; never with the whole GPU."""
    columns = "name,submit_s,run_s,gpus,gpu_milli"
    small = [f"small-{number},0,100,1,140" for number in range(8)]
    more = ["three,10,100,1,420", "four,10,100,1,500", "whole,20,10,1,1000"]
    run = a_run(a_file(tmp_path, *small, *more, columns=columns), "mig", nodes="1x1")
    starts = {job.name: job.start_s for job in run.result.jobs}
    assert [starts[f"small-{number}"] for number in range(8)] == [0] * 7 + [100]
    assert (starts["three"], starts["four"], starts["whole"]) == (100, 200, 300)


@pytest.mark.parametrize(
    ("row", "dra", "gpus", "said"),
    [
        ("0,1,1,500", "whole", 1, "job job-2: it asks for a part of a GPU; only --dra mig has"),
        ("0,1,1,1000", "mig", 9, "with --dra mig a node has at most 8"),
        ("0,1,40,1000", "whole", 40, "at most 32 devices, not 40"),
        ("0,1,1,1000", "plugin", 1, "choose whole, mig, example"),
    ],
)
def test_what_no_driver_publishes_is_refused(
    tmp_path: Path, row: str, dra: str, gpus: int, said: str
) -> None:
    file = a_file(tmp_path, row, columns="submit_s,run_s,gpus,gpu_milli")
    trace = read_plain(Path(file), equal_nodes(1, gpus), gpus)
    with pytest.raises(ConfigError, match=said):
        by_claims(trace, dra)
