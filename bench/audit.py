"""Adds up every node and GPU from the decisions alone, and fails on the first overdraft.

It shares nothing with the engine: it reads the CSV files itself, and believes nobody.
"""

import csv
from pathlib import Path


class Overdraft(Exception):
    """More was given away than there is."""


class Audit:
    def __init__(self, folder: Path, trace: str) -> None:
        with (folder / "openb_node_list_gpu_node.csv").open(newline="") as text:
            nodes = list(csv.DictReader(text))
        with (folder / f"openb_pod_list_{trace}.csv").open(newline="") as text:
            self._pods = sorted(csv.DictReader(text), key=lambda row: row["name"])
        self._cpu = {row["sn"]: int(row["cpu_milli"]) for row in nodes}
        self._memory = {row["sn"]: int(row["memory_mib"]) for row in nodes}
        self._model = {row["sn"]: row["model"] for row in nodes}
        self._gpu = {
            f"GPU-{row['sn']}-{index}": 1000 for row in nodes for index in range(int(row["gpu"]))
        }
        self._given: dict[str, tuple[int, str, tuple[str, ...]]] = {}

    def given(self, uid: str, pod: int, node: str, gpus: tuple[str, ...]) -> None:
        """The pod, by its place among those sorted by name, got these GPUs of the node."""
        row = self._pods[pod]
        if uid in self._given:
            raise Overdraft(f"{uid} was placed twice")
        self._given[uid] = pod, node, gpus
        self._check_kind(row, node, gpus)
        self._book(row, node, gpus, -1)

    def left(self, uid: str) -> None:
        pod, node, gpus = self._given.pop(uid)
        self._book(self._pods[pod], node, gpus, +1)

    @property
    def allocated_milli(self) -> int:
        return 1000 * len(self._gpu) - sum(self._gpu.values())

    def _check_kind(self, row: dict[str, str], node: str, gpus: tuple[str, ...]) -> None:
        if len(gpus) != int(row["num_gpu"]) or len(set(gpus)) != len(gpus):
            raise Overdraft(f"{row['name']} asked {row['num_gpu']} GPUs and got {gpus}")
        if any(gpu.rpartition("-")[0] != f"GPU-{node}" for gpu in gpus):
            raise Overdraft(f"{row['name']} is on {node} and got {gpus} of another node")
        wanted = set(filter(None, (row.get("gpu_spec") or "").split("|")))
        if gpus and wanted and self._model[node] not in wanted:
            raise Overdraft(f"{row['name']} asked {wanted} and got a {self._model[node]}")

    def _book(self, row: dict[str, str], node: str, gpus: tuple[str, ...], sign: int) -> None:
        self._cpu[node] += sign * int(row["cpu_milli"])
        self._memory[node] += sign * int(row["memory_mib"])
        for gpu in gpus:
            self._gpu[gpu] += sign * int(row["gpu_milli"])
        for what, left in (("cpu", self._cpu[node]), ("memory", self._memory[node])):
            if left < 0:
                raise Overdraft(f"{node} gave {-left} more {what} than it has")
        for gpu in gpus:
            if not 0 <= self._gpu[gpu] <= 1000:
                raise Overdraft(f"{gpu} gave {-self._gpu[gpu]} thousandths more than it has")
