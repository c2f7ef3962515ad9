"""The figures of a simulation."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.virtual.jobs import JobRecord
from fairlead.sim.virtual.result import SimResult

#: Run times below this are taken for this in slowdowns, as is usual.
SHORTEST_S = 10.0


@dataclass(frozen=True, slots=True)
class SimFigures:
    """Times in seconds; shares between 0 and 1. Names in brackets are those of Kant."""

    jobs: int
    #: Jobs that never started: no node of the trace has room for them.
    never_started: int
    #: From submission to completion.
    jct_s: float
    jct_p50_s: float
    jct_p99_s: float
    #: From submission to the first start (JWTD).
    wait_avg_s: float
    wait_p50_s: float
    wait_p99_s: float
    wait_p999_s: float
    #: (wait + run) / run, with run times of at least ten seconds.
    slowdown_avg: float
    #: From the first submission to the last completion.
    makespan_s: float
    #: GPU time held / GPU time of all GPUs over the makespan (SOR).
    utilisation: float
    #: Nodes of which some GPUs are held and some are free / nodes with GPUs, over time (GFR).
    fragmentation: float
    #: GPUs that are free and of no use to a typical pod / all GPUs, over time, as in the FGD paper.
    unusable: float | None
    #: Jain's index of the average slowdowns of users: 1 is equal.
    fairness: float
    evictions: int
    #: Events that the engine was given and attempts that it made.
    events: int


def figures_of(result: SimResult) -> SimFigures:
    ended = result.ended
    waits = sorted(record.wait_s for record in ended if record.wait_s is not None)
    jcts = sorted(record.jct_s for record in ended if record.jct_s is not None)
    first = min((record.submit_s for record in ended), default=0.0)
    makespan = max((record.end_s or 0.0 for record in ended), default=0.0) - first
    meter = result.meter
    gpu_nodes = sum(gpus > 0 for gpus in meter.gpus_of_node.values())
    return SimFigures(
        jobs=len(result.jobs),
        never_started=len(result.never_started),
        jct_s=_mean(jcts),
        jct_p50_s=percentile(jcts, 0.5),
        jct_p99_s=percentile(jcts, 0.99),
        wait_avg_s=_mean(waits),
        wait_p50_s=percentile(waits, 0.5),
        wait_p99_s=percentile(waits, 0.99),
        wait_p999_s=percentile(waits, 0.999),
        slowdown_avg=_mean([slowdown(record) for record in ended]),
        makespan_s=makespan,
        utilisation=_part(meter.used_gpu_s, meter.total_gpus * makespan),
        fragmentation=_part(meter.partly_used_node_s, gpu_nodes * makespan),
        unusable=result.unusable,
        fairness=jain(_by_user(ended)),
        evictions=sum(record.evictions for record in result.records.values()),
        events=result.events + result.decisions,
    )


def slowdown(record: JobRecord) -> float:
    return max(1.0, (record.jct_s or 0.0) / max(record.run_s, SHORTEST_S))


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value that this part of them does not exceed; 0 of none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _by_user(ended: Iterable[JobRecord]) -> list[float]:
    found = defaultdict(list)
    for record in ended:
        found[record.user].append(slowdown(record))
    return [_mean(each) for each in found.values()]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _part(of: float, whole: float) -> float:
    return of / whole if whole else 0.0
