"""Adds up every node and card from the decisions alone, and fails on the first overdraft.

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
        self._card = {
            f"GPU-{row['sn']}-{index}": 1000 for row in nodes for index in range(int(row["gpu"]))
        }
        self._given: dict[str, tuple[int, str, tuple[str, ...]]] = {}

    def given(self, uid: str, pod: int, node: str, cards: tuple[str, ...]) -> None:
        """The pod, by its place among those sorted by name, got these cards of the node."""
        row = self._pods[pod]
        if uid in self._given:
            raise Overdraft(f"{uid} was placed twice")
        self._given[uid] = pod, node, cards
        self._check_kind(row, node, cards)
        self._book(row, node, cards, -1)

    def left(self, uid: str) -> None:
        pod, node, cards = self._given.pop(uid)
        self._book(self._pods[pod], node, cards, +1)

    @property
    def allocated_milli(self) -> int:
        return 1000 * len(self._card) - sum(self._card.values())

    def _check_kind(self, row: dict[str, str], node: str, cards: tuple[str, ...]) -> None:
        if len(cards) != int(row["num_gpu"]) or len(set(cards)) != len(cards):
            raise Overdraft(f"{row['name']} asked {row['num_gpu']} cards and got {cards}")
        if any(card.rpartition("-")[0] != f"GPU-{node}" for card in cards):
            raise Overdraft(f"{row['name']} is on {node} and got {cards} of another node")
        wanted = set(filter(None, (row.get("gpu_spec") or "").split("|")))
        if cards and wanted and self._model[node] not in wanted:
            raise Overdraft(f"{row['name']} asked {wanted} and got a {self._model[node]}")

    def _book(self, row: dict[str, str], node: str, cards: tuple[str, ...], sign: int) -> None:
        self._cpu[node] += sign * int(row["cpu_milli"])
        self._memory[node] += sign * int(row["memory_mib"])
        for card in cards:
            self._card[card] += sign * int(row["gpu_milli"])
        for what, left in (("cpu", self._cpu[node]), ("memory", self._memory[node])):
            if left < 0:
                raise Overdraft(f"{node} gave {-left} more {what} than it has")
        for card in cards:
            if not 0 <= self._card[card] <= 1000:
                raise Overdraft(f"{card} gave {-self._card[card]} thousandths more than it has")
