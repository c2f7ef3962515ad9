"""Watches the scheduler at work: what it decided, how fast, and who sits on which GPU."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

from fairlead.apps.queues.rows import rows_of
from fairlead.apps.up.gpus import Picture, Readings, allocatable_gpus
from fairlead.apps.up.queue_bars import QueueBar
from fairlead.apps.up.view import Decision, Screen
from fairlead.engine import instructions
from fairlead.engine.engine import Engine
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS
from fairlead.queue.entries import Pool
from fairlead.sim.workload import SAMPLE, WorkloadPods

_RATE_WINDOW_S = 5.0
_MOST_TIMES = 100_000
_POOLS = {
    Pool.ACTIVE: "to try",
    Pool.BACKOFF: "backing off",
    Pool.WAITING: "no node fits",
    Pool.GATED: "gated",
}


@dataclass(frozen=True, slots=True)
class Totals:
    """What `--headless` sums up."""

    seconds: float
    created: int
    bound: int
    finished: int
    refused: int
    never_placed: int
    p50_ms: float | None
    p99_ms: float | None
    first_s: float | None
    gpus: int
    gpus_used: int
    mean_gpus_used: float


class Watching:
    """Gathers from the instructions as they come; looks at the engine when asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.started_s = clock()
        self.bound = 0
        self.pods_created = 0  # set by the creator
        #: Devices that two claims had at once, as the kubelets found at the end.
        self.refused_devices: list[str] = []
        self.first_bound_s: float | None = None
        self._engine: Engine | None = None
        self._bound_at: deque[float] = deque(maxlen=_MOST_TIMES)
        self._took_s: deque[float] = deque(maxlen=_MOST_TIMES)
        self._decisions: deque[Decision] = deque(maxlen=200)
        #: Those that still wait, by uid, each with what was said about it last.
        self._refused: dict[str, tuple[Pod, Decision]] = {}
        #: The nodes of the gang that was bound last, and what is shown about it.
        self._gang = "", Counter[str]()
        self._ever_refused: set[str] = set()
        self._picture = Picture(self._team_of)
        self._samples: list[int] = []

    def follow(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def followed(self) -> bool:
        """Has there been a scheduler to watch?"""
        return self._engine is not None

    def note(self, made: instructions.Instruction) -> None:
        """The scheduler calls this for everything that it does."""
        match made:
            case instructions.AnnounceScheduled(pod, node):
                self._note_bound(pod, node, made.first_queued_s)
            case instructions.AnnounceFailure(pod, _, message):
                self._note_refused(pod, message)
            case instructions.Bind() | instructions.Prepare():
                pass

    def _note_bound(self, pod: Pod, node: str, first_queued_s: float) -> None:
        now = self._clock()
        self.bound += 1
        self.first_bound_s = self.first_bound_s or now
        self._bound_at.append(now)
        self._took_s.append(now - first_queued_s)
        self._refused.pop(pod.uid, None)
        if pod.gang is None:
            self._decide(pod, bound=True, text=node)
        else:
            self._note_member(pod, pod.gang.gang, node)

    def _note_member(self, pod: Pod, gang: str, node: str) -> None:
        """The members of a gang are bound one after another, and shown in one line."""
        if self._gang[0] == gang:
            self._decisions.popleft()
        else:
            self._gang = gang, Counter()
        nodes = self._gang[1]
        nodes[node] += 1
        shown = ", ".join(f"{name} ×{count}" for name, count in nodes.items())
        self._decide(pod, bound=True, text=f"{shown} (gang of {nodes.total()})")

    def _note_refused(self, pod: Pod, message: str) -> None:
        if pod.deleting:  # it waits no longer
            return
        text = _first_sentence(message)
        known = self._refused.get(pod.uid)
        self._ever_refused.add(pod.uid)
        if known is None or known[1].text != text:
            self._refused[pod.uid] = (
                pod,
                self._said_of_gang(pod, text) or self._decide(pod, bound=False, text=text),
            )

    def _said_of_gang(self, pod: Pod, text: str) -> Decision | None:
        """What was said about the member before, if it is the same: it is shown once."""
        latest = self._decisions[0] if pod.gang and self._decisions else None
        same = latest and not latest.bound and (latest.pod, latest.text) == (_name(pod), text)
        return latest if same else None

    def _decide(self, pod: Pod, *, bound: bool, text: str) -> Decision:
        mark = self._picture.mark(pod) if bound else " "
        made = Decision(self._clock() - self.started_s, _name(pod), bound, text, mark)
        if not (bound and pod.gang):
            self._gang = "", Counter()
        self._decisions.appendleft(made)
        return made

    # -- what others ask ---------------------------------------------------------------------

    def seen(self) -> dict[str, WorkloadPods]:
        """The living pods of each piece of the workload."""
        assert self._engine is not None
        bound, waiting = Counter[str](), Counter[str]()
        for held in self._engine.cluster.holdings.values():
            bound[held.pod.labels.get(SAMPLE, "")] += 1
        self._forget_gone()
        for pod, _ in self._refused.values():
            waiting[pod.labels.get(SAMPLE, "")] += 1
        return {name: WorkloadPods(bound[name], waiting[name]) for name in bound | waiting if name}

    def gpus(self) -> int:
        """All that could be given out."""
        assert self._engine is not None
        cluster = self._engine.cluster
        nodes = map(cluster.node_at, cluster.row_of.values())
        return sum(allocatable_gpus(cluster, node) for node in nodes)

    def sample(self) -> int:
        """How many GPUs are in use now; remembered for the mean."""
        assert self._engine is not None
        used = sum(row.used for row in self._picture.rows(self._engine.cluster, None))
        self._samples.append(used)
        return used

    def totals(self) -> Totals:
        self._forget_gone()
        used = self.sample()
        p50_ms, p99_ms = self._percentiles()
        first_s = None if self.first_bound_s is None else self.first_bound_s - self.started_s
        return Totals(
            seconds=self._clock() - self.started_s,
            created=self.pods_created,
            bound=self.bound,
            finished=self._finished(),
            refused=len(self._ever_refused),
            never_placed=len(self._refused),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            first_s=first_s,
            gpus=self.gpus(),
            gpus_used=used,
            mean_gpus_used=sum(self._samples) / len(self._samples),
        )

    def screen(self, hint: str, readings: Readings | None = None) -> Screen:
        """What the view shows now."""
        assert self._engine is not None
        self._forget_gone()
        counts = self._engine.queue.counts()
        p50_ms, p99_ms = self._percentiles()
        return Screen(
            elapsed_s=self._clock() - self.started_s,
            nodes=self._picture.rows(self._engine.cluster, readings),
            queue={
                name: counts[pool]
                for pool, name in _POOLS.items()
                if counts[pool] or pool is not Pool.GATED
            },
            decisions=tuple(self._decisions),
            waiting=tuple(dict.fromkeys(made for _, made in reversed(self._refused.values()))),
            binds_per_s=self.binds_per_s(),
            bound=self.bound,
            finished=self._finished(),
            refused=len(self._ever_refused),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            hint=hint,
            queues=tuple(self._queue_bars(self._engine)),
        )

    def binds_per_s(self) -> float:
        now = self._clock()
        recent = 0
        for at in reversed(self._bound_at):
            if now - at > _RATE_WINDOW_S:
                break
            recent += 1
        return recent / max(0.5, min(_RATE_WINDOW_S, now - self.started_s))

    def _team_of(self, pod: Pod) -> str:
        return self._engine.queues.of(pod) if self._engine else ""

    def _queue_bars(self, engine: Engine) -> Iterator[QueueBar]:
        rows = rows_of(engine.queues.report())
        parents = {row.parent for row in rows}
        for row in rows:
            yield QueueBar(
                row.name,
                row.depth,
                row.guaranteed.get(GPUS, 0.0),
                row.used.get(GPUS, 0.0),
                row.fair_share.get(GPUS),
                row.pending_units,
                " " if row.key in parents else self._picture.mark_of_team(row.key),
                row.limit.get(GPUS),
            )

    # -- inside ------------------------------------------------------------------------------

    def _finished(self) -> int:
        """Bound pods that have left: they ended, or were deleted."""
        assert self._engine is not None
        confirmed = sum(not held.assumed for held in self._engine.cluster.holdings.values())
        return max(0, self.bound - confirmed)

    def _forget_gone(self) -> None:
        assert self._engine is not None
        queue = self._engine.queue
        for uid in [uid for uid in self._refused if uid not in queue]:
            del self._refused[uid]

    def _percentiles(self) -> tuple[float | None, float | None]:
        if not self._took_s:
            return None, None
        ordered = sorted(self._took_s)
        return tuple(1000 * ordered[int((len(ordered) - 1) * q)] for q in (0.5, 0.99))  # type: ignore[return-value]


def _name(pod: Pod) -> str:
    """Of the gang, for its members."""
    return pod.gang.gang.rpartition("/")[2] if pod.gang else pod.name


def _first_sentence(message: str) -> str:
    head, _, _ = message.partition(". ")
    return head.rstrip(".")
