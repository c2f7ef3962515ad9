"""Traces of the Muri artifact (Rivendile/Muri, SIGCOMM'22): 64 GPUs as 8 nodes with 8.

The service time of a job is iterations times iteration time times 1.015; the column `duration` is
what the job took where the trace was recorded, and is not used, as in the artifact.
"""

from collections.abc import Mapping
from pathlib import Path

from fairlead.sim.traces.rows import MOST_S, TraceRow, csv_rows
from fairlead.sim.traces.trace import JobMaker, SimTrace, in_order
from fairlead.sim.virtual.jobs import SimJob, equal_nodes

_COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time", "model_name")
_NODES, _GPUS_OF_NODE = 8, 8
_SLOWDOWN = 1.015
_MOST_MS = 1000 * MOST_S
_MOST_ITERATIONS = 1e12

#: Seconds to start a model on 1, 2, 4, 8, 16 and 32 GPUs, as the authors measured.
_SIZES = (1, 2, 4, 8, 16, 32)
_RESTART_S: Mapping[str, tuple[float, ...]] = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
_OTHER_RESTART_S = 10.0


def read_muri(file: Path) -> SimTrace:
    maker = JobMaker()
    jobs = [_job(row, maker) for row in csv_rows(file, _COLUMNS)]
    return SimTrace(f"muri/{file.stem}", equal_nodes(_NODES, _GPUS_OF_NODE), in_order(jobs))


def _job(row: TraceRow, maker: JobMaker) -> SimJob:
    gpus = row.whole("num_gpu", least=1)
    iterations = row.number("iterations", most=_MOST_ITERATIONS)
    run_s = iterations * row.number("iteration_time", most=_MOST_MS) * _SLOWDOWN / 1000
    if run_s > MOST_S:
        raise row.error(f"iterations times iteration_time are {run_s:g} s, more than a century")
    name = f"job-{row.text('job_id', str(row.line))}"
    submit_s = row.number("submit_time", most=_MOST_MS) / 1000
    restart_s = restart_cost_s(row.text("model_name"), gpus)
    return maker.of_gpus(name, submit_s, run_s, gpus, _GPUS_OF_NODE, restart_s=restart_s)


def restart_cost_s(model: str, gpus: int) -> float:
    costs = _RESTART_S.get(model)
    if costs is None or gpus not in _SIZES:
        return _OTHER_RESTART_S
    return costs[_SIZES.index(gpus)]
