"""A virtual cluster that begins with what an engine knows of a real one."""

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from math import inf

from fairlead.cluster.holdings import Holding
from fairlead.engine.engine import Engine
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunEnd
from fairlead.queue.entries import Entry
from fairlead.sim.virtual.cluster import VirtualCluster
from fairlead.sim.virtual.jobs import SimJob
from fairlead.sim.virtual.runs import JobOrder


class RunLength(Enum):
    """Which of the run times that are thought possible is taken."""

    LEAST = "earliest_s"
    EXPECTED = "expected_s"
    MOST = "latest_s"


@dataclass(frozen=True, slots=True)
class AssumedRunTimes:
    """For units of which nothing is declared or learned; None: they run for ever."""

    running_s: float | None = None
    waiting_s: float | None = None
    #: For the others.
    known: RunLength = RunLength.EXPECTED


FOR_EVER = AssumedRunTimes()


def begin_with(
    engine: Engine,
    *,
    now_s: float = 0.0,
    assumed: AssumedRunTimes = FOR_EVER,
    order: JobOrder | None = None,
) -> VirtualCluster:
    """Running pods end when the engine expects them to; units that wait start when it lets them.

    The engine is used from then on, and no longer shows the real cluster. `order`: that of the
    engine's queue, if a policy orders jobs.
    """
    cluster = VirtualCluster(engine, start_s=now_s)
    for node in filter(None, engine.cluster.columns.nodes):
        published = len(engine.cluster.claim_gpus.models.get(node.name, ()))
        cluster.result.meter.add_node(node, published)
    for name, held in _running(engine).items():
        cluster.adopt(_running_job(cluster, name, held, assumed), now_s)
    for entry in _waiting(engine):
        cluster.adopt_waiting(_waiting_job(cluster, entry, assumed))
    if order is not None:
        order.runs = cluster.runs_by_uid
        engine.queue.reorder(list(cluster.runs_by_uid))
    return cluster


def _running(engine: Engine) -> dict[str, list[Holding]]:
    """Pods with a node by unit: those of a gang end together."""
    found = defaultdict(list)
    for held in engine.cluster.holdings.values():
        found[_name(held.pod)].append(held)
    return found


def _waiting(engine: Engine) -> list[Entry]:
    entries = {id(entry): entry for entry in engine.queue.entries()}
    return [entry for entry in entries.values() if entry.unit.pods]


def _name(pod: Pod) -> str:
    return pod.gang.gang if pod.gang else pod.key


def _running_job(
    cluster: VirtualCluster, name: str, held: Iterable[Holding], assumed: AssumedRunTimes
) -> SimJob:
    pods, now_s = tuple(each.pod for each in held), cluster.now_s
    ends = [cluster.engine.run_times.end_s(pod.uid, now=now_s) for pod in pods]
    known = [_end_s(end, assumed.known) - now_s for end in ends if end is not None]
    run_s = max(known) if known else assumed.running_s
    return _job(cluster, f"{name} (running)", pods, inf if run_s is None else max(0.0, run_s))


def _end_s(end: RunEnd, which: RunLength) -> float:
    found: float | None = getattr(end, which.value)
    return end.expected_s if found is None else found


def _run_s(engine: Engine, entry: Entry, which: RunLength) -> float | None:
    found = engine.run_times.quantiles(entry.unit)
    return None if found is None else found[list(RunLength).index(which)]


def _waiting_job(cluster: VirtualCluster, entry: Entry, assumed: AssumedRunTimes) -> SimJob:
    known = _run_s(cluster.engine, entry, assumed.known)
    run_s = assumed.waiting_s if known is None else known
    pods = tuple(entry.unit.pods)
    return _job(cluster, _name(pods[0]), pods, inf if run_s is None else run_s)


def _job(cluster: VirtualCluster, name: str, pods: tuple[Pod, ...], run_s: float) -> SimJob:
    gpus = sum(cluster.gpus_of(pod) for pod in pods)
    return SimJob(name, cluster.now_s, run_s, pods, pods[0].namespace, gpus)
