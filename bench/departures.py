"""Pods that come and go: drawn from a trace with replacement, staying for exponential times.

Load is what is asked for at any time, as a share of all GPUs, if nothing were refused. A pod that
does not fit is gone. The figure is the percentage of GPUs allocated over time, the first half of
the arrivals left out.
"""

import heapq

import numpy as np

from audit import Audit
from replay import Replay
from traces import Trace, a_pod

ARRIVALS = 40_000


def mean_allocated(
    trace: Trace, replay: Replay, audit: Audit, seed: int, load: float, arrivals: int
) -> float:
    lots = np.random.default_rng(seed)
    which = lots.integers(len(trace.requests), size=arrivals)
    # Time is counted in mean lifetimes.
    rate = load * trace.capacity_milli / trace.milli.mean()
    comes = np.cumsum(lots.exponential(1 / rate, size=arrivals))
    goes = comes + lots.exponential(1.0, size=arrivals)
    leaving: list[tuple[float, int]] = []
    allocated = held_s = 0.0
    since, start = 0.0, float(comes[arrivals // 2])
    for number in range(arrivals):
        now = float(comes[number])
        while leaving and leaving[0][0] <= now:
            at, gone = heapq.heappop(leaving)
            held_s += allocated * max(0.0, at - max(since, start))
            since = at
            allocated -= float(trace.milli[which[gone]])
            audit.left(f"u{gone}")
            replay.leave(a_pod(trace.requests[which[gone]], gone))
        held_s += allocated * max(0.0, now - max(since, start))
        since = now
        at = int(which[number])
        found = replay.offer(a_pod(trace.requests[at], number))
        if found is not None:
            audit.given(found.pod, at, found.node, found.gpus)
            allocated += float(trace.milli[at])
            heapq.heappush(leaving, (float(goes[number]), number))
    return 100 * held_s / (since - start) / trace.capacity_milli
