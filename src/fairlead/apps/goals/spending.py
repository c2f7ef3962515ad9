"""What nodes cost for an hour, by capacity type, and what jobs and queues use of it."""

from collections import defaultdict
from typing import Any

import numpy as np

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.engine.engine import Engine
from fairlead.model.capacity_types import CapacityType
from fairlead.model.node_figures import Figure
from fairlead.model.pods import Pod, PodRequest
from fairlead.plugins.gaps import gpu_count
from fairlead.plugins.goals_built_in import Carbon, PodCost, Watts

#: Jobs that are shown, the most expensive first.
_MOST_JOBS = 50
_COUNTED = (("money", PodCost()), ("watts", Watts()), ("grams", Carbon()))


def node_groups(cluster: Cluster) -> list[dict[str, Any]]:
    """Nodes by capacity type."""
    columns, nodes = cluster.columns, cluster.nodes
    prices = columns.figures.known(Figure.PRICE, columns.size)
    present, types = nodes.present(), columns.capacity_type[: columns.size]
    gpus, free = gpu_count(nodes), nodes.free_gpus()[1]
    found = []
    for kind in CapacityType:
        rows = present & (types == kind)
        unused = rows & (gpus > 0) & (free >= gpus)
        if rows.any():
            found.append({
                "capacityType": kind.word,
                "nodes": int(rows.sum()),
                "ending": int((rows & nodes.ending()).sum()),
                "gpus": int(gpus[rows].sum()),
                "pricePerHour": float(np.nansum(prices[rows])),
                "withoutPrice": int(np.isnan(prices[rows]).sum()),
                "unusedNodes": int(unused.sum()),
                "unusedPerHour": float(np.nansum(prices[unused])),
            })  # fmt: skip
    return found


def spending(engine: Engine) -> dict[str, Any]:
    """What running pods cost, draw and emit for an hour, by queue, and by job."""
    queues: dict[str, dict[str, float]] = defaultdict(_nothing)
    jobs: dict[str, dict[str, float]] = defaultdict(_nothing)
    counted = AmountCounter(engine.cluster)
    for held in engine.cluster.holdings.values():
        row = engine.cluster.row_of.get(held.node)
        if row is None:
            continue
        amounts = counted.of(held.pod.request, row)
        pod = held.pod
        for sums in (queues[engine.queues.of(pod) or "-"], jobs[job_of(pod)]):
            for key, amount in amounts.items():
                sums[key] += amount
    most = sorted(jobs.items(), key=lambda item: (-item[1]["money"], item[0]))[:_MOST_JOBS]
    return {"queues": dict(sorted(queues.items())), "jobs": dict(most)}


def _nothing() -> dict[str, float]:
    return dict.fromkeys((*(key for key, _ in _COUNTED), "pods"), 0.0)


def job_of(pod: Pod) -> str:
    """Its gang, its controller, or the pod itself."""
    if pod.gang:
        return pod.gang.gang.partition("/")[2]
    return f"{pod.namespace}/{pod.controller or pod.name}"


class AmountCounter:
    """What a pod costs, draws and emits for an hour; equal requests are counted once."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes: Nodes = cluster.nodes
        self._known: dict[PodRequest, dict[str, Any]] = {}

    def of(self, request: PodRequest, row: int) -> dict[str, float]:
        found = self._known.get(request)
        if found is None:
            found = {key: goal.count(request, self._nodes) for key, goal in _COUNTED}
            self._known[request] = found
        return {key: float(counts[row]) for key, counts in found.items()} | {"pods": 1.0}
