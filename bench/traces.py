"""The openb traces (Alibaba, 2023) in the layout of the FGD benchmark, as nodes, pods and orders.

A folder has `openb_node_list_gpu_node.csv`, `openb_pod_list_<trace>.csv` for each trace, and
`orders/<trace>.npz` with two arrays for each seed: `42` (which pods come, one after the other, by
their place among all pods sorted by name) and `n42` (the rank of each node, which breaks ties).
"""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead.cluster.demand import shape_of
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.prices import Basis
from fairlead.sim.traces.openb import openb_node, openb_request

SCHEDULER = "bench"


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes as they are listed, and one request for each pod, sorted by name."""

    name: str
    nodes: tuple[Node, ...]
    requests: tuple[PodRequest, ...]
    milli: np.ndarray
    orders: Path

    @property
    def capacity_milli(self) -> int:
        return WHOLE * sum(len(node.inventory.gpus) for node in self.nodes if node.inventory)

    @property
    def seeds(self) -> list[int]:
        with np.load(self.orders) as stored:
            return sorted(int(name) for name in stored.files if name.isdigit())

    def order(self, seed: int) -> tuple[list[Node], np.ndarray]:
        """Nodes in the order that breaks ties, and the pods that come."""
        with np.load(self.orders) as stored:
            ranked = np.argsort(stored[f"n{seed}"], kind="stable")
            return [self.nodes[at] for at in ranked], stored[str(seed)]

    def basis(self) -> Basis:
        """All pods of the trace, as if the cluster had seen them before."""
        pods = Counter(filter(None, map(shape_of, self.requests)))
        gpus = Counter(
            gpu.model for node in self.nodes if node.inventory for gpu in node.inventory.gpus
        )  # fmt: skip
        return Basis(tuple(pods.items()), tuple(gpus.items()))


def read(folder: Path, name: str) -> Trace:
    pods = sorted(_rows(folder / f"openb_pod_list_{name}.csv"), key=lambda row: row["name"])
    shared: dict[PodRequest, PodRequest] = {}
    requests = tuple(shared.setdefault(made, made) for made in map(openb_request, pods))
    milli = np.array([int(row["num_gpu"]) * int(row["gpu_milli"]) for row in pods])
    nodes = tuple(map(openb_node, _rows(folder / "openb_node_list_gpu_node.csv")))
    return Trace(name, nodes, requests, milli, folder / "orders" / f"{name}.npz")


def names(folder: Path) -> list[str]:
    prefix = "openb_pod_list_"
    return sorted(file.stem.removeprefix(prefix) for file in folder.glob(f"{prefix}*.csv"))


def a_pod(request: PodRequest, number: int) -> Pod:
    return Pod("bench", f"p{number}", f"u{number}", scheduler=SCHEDULER, request=request)


def _rows(file: Path) -> Iterator[dict[str, str]]:
    with file.open(newline="") as text:
        yield from csv.DictReader(text)
