"""What planned starts cost: a plan, a decision beside it, and plain pods with and without it.

    python bench/backfill.py [--nodes 5000] [--pods 38000]

CPU time of one engine without an API server. Every running pod has a bound, so that all of them
count in the plan; the head is a gang of 64 pods with 8 GPUs each.
"""

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime

from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.model.backfill import NO_BACKFILL, BackfillMode, BackfillTerms
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime
from fairlead.testing.builders import SCHEDULER, a_node, a_pod

_GPUS = 8


def full_cluster(nodes: int, pods: int, terms: BackfillTerms) -> Engine:
    """Pods of one GPU that end over the next ten hours; the last nodes are nearly free."""
    engine = Engine({SCHEDULER: built_in(SCHEDULER)}, backfill=terms)
    for at in range(nodes):
        engine.handle(NodeSeen(a_node(f"n{at}", gpus=_GPUS)), now=0.0)
    started = datetime.fromtimestamp(0, UTC).isoformat()
    for at in range(pods):
        run = RunTime(bound_s=float(60 + at * 36_000 // pods), source="bench")
        pod = a_pod(f"r{at}", uid=f"r{at}", gpus=1, node=f"n{at % nodes}", run_time=run,
                    started=started)  # fmt: skip
        engine.handle(PodSeen(pod), now=0.0)
    return engine


def a_large_gang(count: int, gpus: int) -> list[Pod]:
    spec = GangSpec("fairlead/default/head", count)
    run = RunTime(bound_s=3600.0, source="bench")
    return [
        a_pod(f"head-{at}", uid=f"head-{at}", gpus=gpus, run_time=run,
              gang=Membership(spec.key, rank=at, spec=spec))
        for at in range(count)
    ]  # fmt: skip


def timed_ms(what: Callable[[], object]) -> float:
    start = time.process_time()
    what()
    return 1000 * (time.process_time() - start)


def decide_ms(engine: Engine, now: float) -> list[float]:
    """Of each turn until there is nothing to do."""
    turns = []
    while True:
        start = time.process_time()
        attempt = engine.decide(now=now)
        turns.append(1000 * (time.process_time() - start))
        if attempt is None:
            return turns


def measure(nodes: int, pods: int, terms: BackfillTerms, label: str) -> None:
    engine = full_cluster(nodes, pods, terms)
    decide_ms(engine, 1.0)
    for pod in a_large_gang(64, _GPUS):
        engine.handle(PodSeen(pod), now=1.0)
    head = [*decide_ms(engine, 1.0), *(ms for _ in range(8) for ms in decide_ms(engine, 1.0))]
    planned = list(engine.plans)
    start_s = f"{planned[0].start_s:.0f} s" if planned else "none"
    for kind, run_s in (("short", 30.0), ("long", 1e6)):
        for at in range(200):
            run = RunTime(bound_s=run_s, source="bench")
            engine.handle(PodSeen(a_pod(f"{kind}{at}", gpus=1, run_time=run)), now=1.0)
        turns = decide_ms(engine, 1.0)
        print(
            f"{label}: 200 {kind} pods: {sum(turns) / 200:.3f} ms each, longest {max(turns):.1f} ms"
        )
    print(f"{label}: head: longest turn {max(head):.1f} ms, planned start {start_s}")
    print(f"{label}: plan_all(20): {timed_ms(lambda: engine.plans.plan_all(20, now=1.0)):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=38_000)
    given = parser.parse_args()
    for terms, label in (
        (NO_BACKFILL, "none"),
        (BackfillTerms(BackfillMode.EASY), "easy"),
        (BackfillTerms(BackfillMode.CONSERVATIVE), "conservative"),
    ):
        measure(given.nodes, given.pods, terms, label)


if __name__ == "__main__":
    main()
