"""Nodes as rows of GPUs: who sits where, under which letter."""

import zlib
from collections import Counter, deque
from collections.abc import Callable

from fairlead.apps.up.view import FREE, LOST, SHARED, NodeRow
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.sim.kubelets.gpus import SimulatedReading
from fairlead.sim.workload import SAMPLE

Readings = Callable[[str], list[SimulatedReading]]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz0123456789"  # x is a lost GPU


class Picture:
    """Remembers letters and places from one look to the next, so that the picture does not jump."""

    def __init__(self, team_of: Callable[[Pod], str] = lambda _: "") -> None:
        """`team_of` is the queue of a pod; those of one queue share a letter."""
        self._team_of = team_of
        self._letters = _Letters()
        self._places = _Places()

    def mark(self, pod: Pod) -> str:
        """The letter of the pod's work; a blank for work without GPUs."""
        asks = pod.request.gpu_request or pod.request.amount(GPU) or pod.request.claims
        return self._letter(pod) if asks else " "

    def mark_of_team(self, team: str) -> str:
        return self._letters.of_team(team)

    def _letter(self, pod: Pod) -> str:
        team = self._team_of(pod)
        return self._letters.of_team(team) if team else self._letters.of(work_of(pod))

    def rows(self, cluster: Cluster, readings: Readings | None) -> tuple[NodeRow, ...]:
        """Every node in order of name."""
        on_node: dict[str, list[Holding]] = {name: [] for name in cluster.row_of}
        works = set()
        for held in cluster.holdings.values():
            if held.node in on_node and _uuids(held, cluster):
                on_node[held.node].append(held)
                works.add(work_of(held.pod))
        self._letters.keep(works)
        return tuple(
            self._row(cluster, cluster.node_at(cluster.row_of[name]), held, readings)
            for name, held in sorted(on_node.items())
        )

    def _row(
        self, cluster: Cluster, node: Node, held: list[Holding], readings: Readings | None
    ) -> NodeRow:
        gpus = readings(node.name) if readings else []
        return NodeRow(
            name=node.name,
            model=_short_model(node),
            gpus="".join(self._marks(cluster, node, held)),
            state=_state(node),
            utilisation_percent=_mean([gpu.utilisation_percent for gpu in gpus]),
            power_w=sum(gpu.power_w for gpu in gpus) if gpus else None,
        )

    def _marks(self, cluster: Cluster, node: Node, held: list[Holding]) -> list[str]:
        gpus = node.inventory.gpus if node.inventory and node.inventory.named else ()
        usable = allocatable_gpus(cluster, node)
        marks = [FREE] * max(usable, _counted_gpus(node), len(gpus))
        by_name = {name: n for n, gpu in enumerate(gpus) for name in (gpu.uuid, str(gpu.index))}
        unnamed: dict[str, int] = {}
        for holding in held:
            letter = self._letter(holding.pod)
            for uuid in _uuids(holding, cluster):
                place = by_name.get(uuid)
                if place is None:
                    unnamed[holding.pod.uid] = unnamed.get(holding.pod.uid, 0) + 1
                else:
                    marks[place] = letter if marks[place] in (FREE, letter) else SHARED
        pods = {holding.pod.uid: holding.pod for holding in held}
        for place, uid in self._places.of(node.name, unnamed, marks).items():
            marks[place] = self._letter(pods[uid])
        lost = [n for n, gpu in enumerate(gpus) if not gpu.healthy]
        for place in lost or _last_free(marks, len(marks) - usable):
            marks[place] = LOST
        return marks


class _Letters:
    """A letter for each piece of work while it lives; the one that rested longest comes next."""

    def __init__(self) -> None:
        self._free = deque(_LETTERS)
        self._taken: dict[str, str] = {}
        self._teams: dict[str, str] = {}

    def of_team(self, team: str) -> str:
        """A team keeps its letter: if it is free, the first of its name."""
        known = self._teams.get(team)
        if known is None:
            first = team.rpartition("/")[2][:1]
            found = [letter for letter in (first.upper(), first) if letter in self._free]
            known = found[0] if found else self._free[0] if self._free else _any_letter(team)
            if known in self._free:
                self._free.remove(known)
            self._teams[team] = known
        return known

    def of(self, work: str) -> str:
        known = self._taken.get(work)
        if known is None and self._free:
            known = self._taken[work] = self._free.popleft()
        # There are more works than letters: two that share one still differ in place.
        return known or _any_letter(work)

    def keep(self, works: set[str]) -> None:
        for work in [work for work in self._taken if work not in works]:
            self._free.append(self._taken.pop(work))


def _any_letter(name: str) -> str:
    return _LETTERS[zlib.crc32(name.encode()) % len(_LETTERS)]


class _Places:
    """Pods whose GPUs are not known keep the same cells while they live, so
    that the picture does not jump.
    """

    def __init__(self) -> None:
        self._taken: dict[str, dict[int, str]] = {}

    def of(self, node: str, wanted: dict[str, int], marks: list[str]) -> dict[int, str]:
        old = self._taken.get(node, {})
        open_places = [place for place, mark in enumerate(marks) if mark == FREE]
        places = {
            place: uid for place, uid in old.items() if uid in wanted and place in open_places
        }
        placed = Counter(places.values())
        for uid, gpus in wanted.items():
            free = (place for place in open_places if place not in places)
            for place in [s for s, _ in zip(free, range(gpus - placed[uid]), strict=False)]:
                places[place] = uid
        self._taken[node] = places
        return places


def _uuids(held: Holding, cluster: Cluster) -> list[str]:
    """One for each GPU that it has, empty where it is not known which."""
    if held.grant:
        return [use.uuid for use in held.grant.uses]
    if held.pod.request.claims:
        return _claimed(held, cluster)
    return [""] * held.pod.request.amount(GPU)


def _claimed(held: Holding, cluster: Cluster) -> list[str]:
    """The GPUs of its claims, each once."""
    claims = (cluster.claims.claims.get(use.key) for use in held.pod.request.claims)
    devices = (each for claim in claims if claim for each in cluster.claims.held.get(claim.uid, ()))
    found: dict[str, str] = {}
    for each in devices:
        gpu = cluster.claim_gpus.gpu_of(each.key)
        found[gpu.uuid if gpu else str(each.key)] = gpu.uuid if gpu else ""
    return list(found.values())


def work_of(pod: Pod) -> str:
    """The pods of one piece of the workload, or of one gang, belong together."""
    return pod.labels.get(SAMPLE) or (pod.gang.gang if pod.gang else pod.key)


def allocatable_gpus(cluster: Cluster, node: Node) -> int:
    """By a device plugin, or by a DRA driver."""
    counted = dict(node.allocatable).get(GPU, 0)
    if not counted and any(cluster.claims.slices_on(node.name)):
        return _counted_gpus(node)
    return counted


def _counted_gpus(node: Node) -> int:
    text = node.labels.get("nvidia.com/gpu.count", "")
    return min(64, int(text)) if text.isdecimal() else 0


def _last_free(marks: list[str], count: int) -> list[int]:
    free = [place for place, mark in enumerate(marks) if mark == FREE]
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
