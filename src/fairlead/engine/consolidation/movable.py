"""Which running units may be moved, and what each move loses."""

from collections import Counter
from collections.abc import Callable, Container, Iterable

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.budgets import Budget
from fairlead.model.consolidation import MoveLimits, protection, saved_at_s, time_of
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod, PodRequest
from fairlead.queue.units import Gang


@dataclass(frozen=True, slots=True, eq=False)
class MovableUnit:
    """A pod, or a gang with all its members: what moves together."""

    #: Of a gang its key, of a pod its uid.
    key: str
    members: tuple[Holding, ...]
    #: Thousandths of GPUs that it holds, and GPU-seconds of work that the move loses.
    milli: int
    lost_gpu_s: float
    #: The budgets that protect its pods, by key; one entry for each pod.
    budgets: tuple[str, ...] = ()
    gang: Gang | None = None

    def milli_on(self, node: str) -> int:
        return sum(gpu_milli(held) for held in self.members if held.node == node)


def gpu_milli(held: Holding) -> int:
    """Thousandths of GPUs that a pod holds; a MIG slice by its memory slices."""
    if held.grant is None:
        return requested_milli(held.pod.request)
    return sum(
        use.slices * WHOLE // 8 if use.profile else use.milli for use in held.grant.uses
    )  # fmt: skip


def requested_milli(request: PodRequest) -> int:
    """Thousandths of GPUs that a pod asks for."""
    ask = request.gpu_request
    if ask is None:
        return request.amount(GPU) * WHOLE
    return ask.gpus * (WHOLE if ask.whole else ask.milli)


class Movability:
    """Answers as things are at one moment; one for each plan."""

    def __init__(
        self,
        cluster: Cluster,
        served: Container[str],
        gang_of: Callable[[str], Gang | None],
        limits: MoveLimits,
        now_s: float,
        least_run_s: Callable[[Pod], float] = lambda _: 0.0,
    ) -> None:
        """`served` are the scheduler names that place pods here; `now_s` is in seconds since 1970.

        `gang_of` returns a gang of which at least one member has a node. `least_run_s` says for how
        long the queue of a pod lets it run.
        """
        self._cluster = cluster
        self._served = served
        self._gang_of = gang_of
        self._limits = limits
        self._now_s = now_s
        self._least_run_s = least_run_s
        self._units: dict[str, MovableUnit | str] = {}
        self._budgets: dict[str, list[Budget]] = {}
        for budget in cluster.budgets.values():
            self._budgets.setdefault(budget.namespace, []).append(budget)

    def on(self, node: str, priority: int) -> tuple[list[MovableUnit], Counter[str]]:
        """Units of up to the priority with pods on the node, and why others may not be moved."""
        found: dict[str, MovableUnit] = {}
        against: Counter[str] = Counter()
        for held in sorted(self._cluster.held_on(node), key=lambda held: held.pod.key):
            self._cluster.work.pods += 1
            if not gpu_milli(held):
                continue
            unit = self._unit(held)
            if isinstance(unit, str):
                against[unit] += 1
            elif any(member.pod.priority > priority for member in unit.members):
                against["have a higher priority"] += 1
            else:
                found[unit.key] = unit
        return list(found.values()), against

    def are_allowed(self, units: Iterable[MovableUnit]) -> bool:
        """Whether disruption budgets let all of these go at once."""
        used = Counter(key for unit in units for key in unit.budgets)
        return all(self._cluster.budgets[key].allowed >= count for key, count in used.items())

    def _unit(self, held: Holding) -> MovableUnit | str:
        """The unit of the pod, or why it may not be moved."""
        key = held.pod.gang.gang if held.pod.gang else held.pod.uid
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = self._made(key, held)
        return unit

    def _made(self, key: str, held: Holding) -> MovableUnit | str:
        gang = None
        members = [held]
        if held.pod.gang:
            gang = self._gang_of(key)
            if gang is None or gang.size or gang.finished or gang.needed:
                return "are of gangs that are not complete"
            members = [self._cluster.holdings[uid] for uid in sorted(gang.placed)]
        for member in members:
            if why := self._why_not(member):
                return why
        budgets = [key for member in members for key in self._protected_by(member.pod)]
        milli = sum(map(gpu_milli, members))
        return MovableUnit(
            key, tuple(members), milli, self._lost_gpu_s(members), tuple(budgets), gang
        )

    def _why_not(self, held: Holding) -> str:
        pod, limits = held.pod, self._limits
        kind, _, _ = pod.controller.partition("/")
        started_s = time_of(pod.started)
        if pod.scheduler not in self._served or pod.reservation is not None:
            return "are of other schedulers"
        if not kind:
            return "have no controller that creates them again"
        if kind not in limits.owners:
            return f"have a {kind} as controller"
        if word := protection(pod):
            return f"are protected by {word}"
        if held.assumed or pod.deleting or started_s is None:
            return "have not started, or are ending"
        least_s = max(limits.least_run_s, self._least_run_s(pod))
        if self._now_s - started_s < least_s:
            return f"run for less than {least_s:.0f} s"
        if not self._is_disruptable(pod):
            return "are protected by a PodDisruptionBudget"
        return ""

    def _is_disruptable(self, pod: Pod) -> bool:
        return all(self._cluster.budgets[key].allowed > 0 for key in self._protected_by(pod))

    def _protected_by(self, pod: Pod) -> list[str]:
        budgets = self._budgets.get(pod.namespace, ())
        self._cluster.work.terms += len(budgets)
        return [budget.key for budget in budgets if budget.protects(pod)]

    def _lost_gpu_s(self, members: list[Holding]) -> float:
        """The work of a gang is saved when any of its members says so."""
        saved_s = (saved_at_s(member.pod, self._now_s) for member in members)
        since_s = max((each for each in saved_s if each is not None), default=self._now_s)
        return sum(map(gpu_milli, members)) / WHOLE * max(0.0, self._now_s - since_s)
