"""The openb traces (Alibaba, 2023): a node list, and lists of pods with GPUs and shares of them.

A pod comes at its creation time and runs from its scheduled to its deletion time; one that was
never scheduled is left out. Its quality of service class is its user.
"""

from collections.abc import Mapping
from pathlib import Path

from fairlead.model.gpus import FAIRLEAD, WHOLE, Gpu, GpuRequest, Inventory
from fairlead.model.nodes import Node
from fairlead.model.pods import PodRequest
from fairlead.sim.traces.rows import TraceRow, csv_rows
from fairlead.sim.traces.trace import JobMaker, SimTrace, in_order
from fairlead.sim.virtual.jobs import SimJob

NODE_LIST = "openb_node_list_gpu_node.csv"
POD_LIST_PREFIX = "openb_pod_list_"

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time",
    "scheduled_time",
)  # fmt: skip
_PODS = 10_000
_MOST_MILLI_CPU, _MOST_MIB = 10**8, 10**9


def read_openb(file: Path) -> SimTrace:
    maker = JobMaker()
    nodes = tuple(map(_node, csv_rows(file.parent / NODE_LIST, _NODE_COLUMNS)))
    found = (_job(row, maker) for row in csv_rows(file, _POD_COLUMNS))
    name = f"openb/{file.stem.removeprefix(POD_LIST_PREFIX)}"
    return SimTrace(name, nodes, in_order([job for job in found if job]))


def _job(row: TraceRow, maker: JobMaker) -> SimJob | None:
    if not row.text("scheduled_time"):
        return None
    came, started = row.number("creation_time"), row.number("scheduled_time")
    run_s = row.number("deletion_time") - started
    if run_s < 0:
        raise row.error("deletion_time is before scheduled_time")
    name = row.text("name", f"pod-{row.line}")
    return maker.of_pods(name, came, run_s, [_checked_request(row)], row.text("qos"))


def _checked_request(row: TraceRow) -> PodRequest:
    row.whole("cpu_milli", most=_MOST_MILLI_CPU)
    row.whole("memory_mib", most=_MOST_MIB)
    row.whole("num_gpu")
    row.whole("gpu_milli", most=WHOLE)
    return openb_request(row.values)


def _node(row: TraceRow) -> Node:
    row.whole("cpu_milli", most=_MOST_MILLI_CPU)
    row.whole("memory_mib", most=_MOST_MIB)
    row.whole("gpu", most=64)
    return openb_node(row.values)


def openb_node(row: Mapping[str, str]) -> Node:
    name, gpus = row["sn"], int(row["gpu"])
    allocatable = (
        ("cpu", int(row["cpu_milli"])), ("memory", int(row["memory_mib"]) << 20), ("pods", _PODS),
    )  # fmt: skip
    listed = tuple(Gpu(f"GPU-{name}-{index}", index, row["model"]) for index in range(gpus))
    return Node(
        name, allocatable=allocatable, inventory=Inventory(listed, dialects=frozenset({FAIRLEAD}))
    )


def openb_request(row: Mapping[str, str]) -> PodRequest:
    cpu, memory = int(row["cpu_milli"]), int(row["memory_mib"]) << 20
    return PodRequest(
        resources=(("cpu", cpu), ("memory", memory)), scored=(cpu, memory), gpu_request=_gpus(row)
    )


def _gpus(row: Mapping[str, str]) -> GpuRequest | None:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    if not gpus:
        return None
    models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
    if milli == WHOLE:
        return GpuRequest(gpus, models=models, dialect=FAIRLEAD)
    return GpuRequest(gpus, whole=False, milli=milli, models=models, dialect=FAIRLEAD)
