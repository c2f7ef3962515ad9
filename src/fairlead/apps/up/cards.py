"""Nodes as rows of cards: who sits where, under which letter."""

import zlib
from collections import Counter, deque
from collections.abc import Callable

from fairlead.apps.up.view import FREE, LOST, NodeRow
from fairlead.cluster.cluster import Cluster
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.sim.kubelets.cards import CardReading
from fairlead.sim.workload import SAMPLE

Readings = Callable[[str], list[CardReading]]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz0123456789"  # x is a lost card


class Picture:
    """Remembers letters and seats from one look to the next, so that the picture does not jump."""

    def __init__(self) -> None:
        self._letters = _Letters()
        self._seats = _Seats()

    def mark(self, pod: Pod) -> str:
        """The letter of the pod's work; a blank for work without cards."""
        return self._letters.of(_work_of(pod)) if _cards(pod) else " "

    def rows(self, cluster: Cluster, readings: Readings | None) -> tuple[NodeRow, ...]:
        """Every node in order of name."""
        on_node: dict[str, dict[str, Pod]] = {name: {} for name in cluster.row_of}
        works = set()
        for uid, held in cluster.holdings.items():
            if held.node in on_node and _cards(held.pod):
                on_node[held.node][uid] = held.pod
                works.add(_work_of(held.pod))
        self._letters.keep(works)
        return tuple(
            self._row(cluster.node_at(cluster.row_of[name]), pods, readings)
            for name, pods in sorted(on_node.items())
        )

    def _row(self, node: Node, pods: dict[str, Pod], readings: Readings | None) -> NodeRow:
        usable = allocatable_cards(node)
        total = max(usable, _counted_cards(node))
        seats = self._seats.of(node.name, {uid: _cards(pod) for uid, pod in pods.items()}, total)
        marks = [FREE] * total
        for seat, uid in seats.items():
            marks[seat] = self._letters.of(_work_of(pods[uid]))
        for seat in _last_free(marks, total - usable):
            marks[seat] = LOST
        cards = readings(node.name) if readings else []
        return NodeRow(
            name=node.name,
            model=_short_model(node),
            cards="".join(marks),
            state=_state(node),
            utilisation_percent=_mean([card.utilisation_percent for card in cards]),
            power_w=sum(card.power_w for card in cards) if cards else None,
        )


class _Letters:
    """A letter for each piece of work while it lives; the one that rested longest comes next."""

    def __init__(self) -> None:
        self._free = deque(_LETTERS)
        self._taken: dict[str, str] = {}

    def of(self, work: str) -> str:
        known = self._taken.get(work)
        if known is None and self._free:
            known = self._taken[work] = self._free.popleft()
        # There are more works than letters: two that share one still differ in place.
        return known or _LETTERS[zlib.crc32(work.encode()) % len(_LETTERS)]

    def keep(self, works: set[str]) -> None:
        for work in [work for work in self._taken if work not in works]:
            self._free.append(self._taken.pop(work))


class _Seats:
    """Keeps every pod on the same cells while it lives, so that the picture does not jump.

    The engine counts cards and does not name them yet; these are seats, not devices.
    """

    def __init__(self) -> None:
        self._taken: dict[str, dict[int, str]] = {}

    def of(self, node: str, wanted: dict[str, int], total: int) -> dict[int, str]:
        old = self._taken.get(node, {})
        seats = {seat: uid for seat, uid in old.items() if uid in wanted and seat < total}
        seated = Counter(seats.values())
        for uid, cards in wanted.items():
            free = (seat for seat in range(total) if seat not in seats)
            for seat in [s for s, _ in zip(free, range(cards - seated[uid]), strict=False)]:
                seats[seat] = uid
        self._taken[node] = seats
        return seats


def _work_of(pod: Pod) -> str:
    return pod.labels.get(SAMPLE) or pod.key


def _cards(pod: Pod) -> int:
    return dict(pod.request.resources).get(GPU, 0)


def allocatable_cards(node: Node) -> int:
    return dict(node.allocatable).get(GPU, 0)


def _counted_cards(node: Node) -> int:
    text = node.labels.get("nvidia.com/gpu.count", "")
    return min(64, int(text)) if text.isdecimal() else 0


def _last_free(marks: list[str], count: int) -> list[int]:
    free = [seat for seat, mark in enumerate(marks) if mark == FREE]
    return free[-count:] if count > 0 else []


def _short_model(node: Node) -> str:
    """The part of the product that people say: H100, A100, V100, L40S."""
    words = node.labels.get("nvidia.com/gpu.product", "").replace("NVIDIA-", "").split("-")
    return next((word for word in words if any(c.isdigit() for c in word)), words[0])


def _state(node: Node) -> str:
    if any(taint.key.startswith("node.kubernetes.io/") and taint.effect == "NoExecute"
           for taint in node.taints):  # fmt: skip
        return "not ready"
    return "cordoned" if node.unschedulable else ""


def _mean(values: list[int]) -> int | None:
    return round(sum(values) / len(values)) if values else None
