"""Queues of teams in the engine: what one change costs, and what queues cost a decision.

python bench/queues.py [--queues 1000] [--pods 20000] [--hostile]

"fair shares" divides three resources among so many queues of one parent. "one change" has so many
queues (in three levels) at their limits, with so many pending pods: the change itself and the turns
that follow it, until the engine has nothing more to do. "drain" places pods of so many queues,
without queues and with. "refused" has a full cluster; each queue has its share. `--hostile`
has 10,000 queues, a chain of 1,000, a queue with 10,000 kinds of pods, long names and vast amounts:
the longest turn of each.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from engine import a_cluster, a_request
from fairlead.apps.collection import spare_the_collector
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, PodGone, PodSeen, QueueGone, QueueKindSeen, QueueSeen
from fairlead.engine.instructions import Bind
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec
from fairlead.queue.quotas.shares import FairShares
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree

SCHEDULER = "gpu-scheduler"
BENCH = frozenset(["bench"])


def a_queue(number: int, gpus: int | None = None) -> QueueSpec:
    """Ten to a parent, and these under one top."""
    limit = () if gpus is None else ((GPUS, 1000 * gpus),)
    parent = "fairlead/top" if number % 10 == 0 else key_of(number - number % 10)
    return QueueSpec(key_of(number), parent, limit=limit, guaranteed=((GPUS, 1000),))


def key_of(number: int) -> str:
    return f"fairlead/q{number:05}"


def pods_of(queues: int, pods: int, shapes: int = 20, *, queued: bool = True) -> list[Pod]:
    requests = [a_request(shape, shapes) for shape in range(shapes)]
    return [
        Pod("bench", f"p{n}", f"uid-{n}", scheduler=SCHEDULER, request=requests[n % shapes],
            queue=key_of(n % queues) if queued else "")
        for n in range(pods)
    ]  # fmt: skip


def turns(engine: Engine, now: float, found: list[str] | None = None) -> Iterator[float]:
    """How long each turn takes, until there is nothing more to do."""
    while True:
        start = time.process_time()
        attempt = engine.decide(now=now)
        took = time.process_time() - start
        if attempt is None:
            due = engine.wake_at_s()
            if due is None or due > now or took < 1e-4:
                return
        elif found is not None:
            found += [made.pod.uid for made in attempt.instructions if isinstance(made, Bind)]
        yield took


def full(queues: int, pods: int, *, limit: int = 2) -> tuple[Engine, list[str]]:
    """Every queue is at its limit, and all other pods wait."""
    engine = a_cluster(1000)
    engine.handle(QueueKindSeen("fairlead", is_served=True), now=0.0)
    engine.handle(QueueSeen(QueueSpec("fairlead/top")), now=0.0)
    for number in range(queues):
        engine.handle(QueueSeen(a_queue(number, limit if number % 10 else None)), now=0.0)
    for pod in pods_of(queues, pods):
        engine.handle(PodSeen(pod), now=0.0)
    bound: list[str] = []
    spent = list(turns(engine, 1.0, bound))
    print(f"  filled: {len(bound)} bound, longest turn {1000 * max(spent):.1f} ms")
    for uid in bound:
        engine.handle(BindDone(uid), now=1.0)
    return engine, bound


def change(engine: Engine, name: str, event: object, now: float) -> None:
    start = time.process_time()
    engine.handle(event, now=now)
    for made in engine.tend(now=now):
        del made
    bound: list[str] = []
    spent = list(turns(engine, now, bound))
    whole = time.process_time() - start
    for uid in bound:
        engine.handle(BindDone(uid), now=now)
    print(f"  {name}: {1000 * whole:.2f} ms, {len(spent)} turns, {len(bound)} bound")


def one_change(queues: int, pods: int) -> None:
    print(f"one change, {queues} queues, {pods} pods")
    engine, bound = full(queues, pods)
    held = engine.cluster.holdings
    of_limited = (held[uid].pod for uid in bound if not held[uid].pod.queue.endswith("0"))
    one = a_queue(11, 2)
    now = 100.0
    list(turns(engine, now))  # what is due every half a minute
    while engine.tend(now=now):
        now += 1.0
    for name, event in (
        ("a weight", QueueSeen(replace(one, weight=2.0))),
        ("a pod ends", PodGone(next(of_limited))),
        ("another pod ends", PodGone(next(of_limited))),
        ("a limit is raised by one GPU", QueueSeen(a_queue(12, 3))),
        ("a queue has another parent", QueueSeen(replace(one, parent=key_of(50)))),
        ("a queue comes", QueueSeen(QueueSpec("fairlead/new", key_of(10)))),
        ("a queue goes", QueueGone("fairlead/new")),
        ("a queue lists its namespace", QueueSeen(replace(a_queue(13, 2), namespaces=BENCH))),
        ("a pod comes", PodSeen(replace(pods_of(queues, 1)[0], uid="new"))),
        ("the parent from before", QueueSeen(one)),
    ):
        now += 0.01
        change(engine, name, event, now)
    clock = time.process_time()
    rows = engine.queues.report()
    print(f"  report of {len(rows)}: {1000 * (time.process_time() - clock):.1f} ms")


def shares(queues: int) -> None:
    """All queues have one parent, and each asks for more than its share."""
    print(f"fair shares of {queues} queues of one parent, three resources")
    tree = QueueTree()
    used, asked = TreeSums(tree), TreeSums(tree)
    for number in range(queues):
        tree.put(QueueSpec(key_of(number), weight=1.0 + number % 5))
        asked.add(key_of(number), ((GPUS, 20_000), ("cpu", 900), ("memory", 900)), +1)
    found = FairShares(tree, used, asked)
    found.set_totals({GPUS: 10_000.0 * queues, "cpu": 500.0 * queues, "memory": 500.0 * queues})
    for name, number, gpus in (
        ("all", 0, 0),
        ("one asks for more", 1, 5000),
        ("one asks for less than its share", 2, -19_000),
    ):
        start = time.process_time()
        asked.add(key_of(number), ((GPUS, gpus),), +1)
        found.touch(key_of(number))
        found.of(key_of(number))
        print(f"  {name}: {1000 * (time.process_time() - start):.2f} ms")


def drain(queues: int, pods: int) -> None:
    print(f"drain, {queues} queues, {pods} pods, 5000 nodes")
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(3):
        for with_queues in (False, True):
            engine = a_cluster(5000)
            for number in range(queues if with_queues else 0):
                engine.handle(QueueSeen(a_queue(number, 10**6)), now=0.0)
            if with_queues:
                engine.handle(QueueSeen(QueueSpec("fairlead/top")), now=0.0)
            for pod in pods_of(queues, pods, queued=with_queues):
                engine.handle(PodSeen(pod), now=0.0)
            start = time.process_time()
            attempts = [engine.decide(now=1.0) for _ in range(pods)]
            spent = time.process_time() - start
            assert all(each and each.outcome is Outcome.SCHEDULED for each in attempts)
            rates[with_queues].append(1e6 * spent / pods)
    without, with_ = min(rates[False]), min(rates[True])
    more = 100 * (with_ / without - 1)
    print(f"  {without:.1f} µs a decision without, {with_:.1f} with: +{more:.1f} %")


def refused(queues: int, nodes: int = 1000) -> None:
    """The cluster is full, and each queue has its part of it and more pods that wait."""
    print(f"refused, {queues} queues, {nodes} full nodes")
    spent: dict[bool, float] = {}
    for with_queues in (False, True):
        engine = a_cluster(nodes)
        if with_queues:
            engine.handle(QueueKindSeen("fairlead", is_served=True), now=0.0)
            engine.handle(QueueSeen(QueueSpec("fairlead/top")), now=0.0)
        for number in range(queues if with_queues else 0):
            engine.handle(QueueSeen(replace(a_queue(number), guaranteed=())), now=0.0)
        for pod in pods_of(queues, 9 * nodes, queued=with_queues):
            engine.handle(PodSeen(pod), now=0.0)
        took: list[float] = []
        for _ in range(9 * nodes):
            start = time.process_time()
            attempt = engine.decide(now=1.0)
            if attempt and attempt.outcome is Outcome.UNSCHEDULABLE:
                took.append(time.process_time() - start)
        spent[with_queues] = 1e6 * sum(took) / len(took)
        print(f"  {len(took)} refused: longest {1000 * max(took):.1f} ms")
    print(f"  {spent[False]:.1f} µs a refusal without queues, {spent[True]:.1f} with")


def longest(engine: Engine, events: Iterator[object], now: float) -> float:
    """Of a turn: one event, or one decision."""
    most = 0.0
    for event in events:
        start = time.process_time()
        engine.handle(event, now=now)
        most = max(most, time.process_time() - start)
    start = time.process_time()
    engine.tend(now=now)
    most = max(most, time.process_time() - start)
    return max([most, *turns(engine, now)])


def hostile() -> None:
    print("hostile: the longest turn")
    for name, build in HOSTILE.items():
        engine, events = a_cluster(1000), list(build())
        half = len(events) * 9 // 10
        first = longest(engine, iter(events[:half]), 1.0)
        second = longest(engine, iter(events[half:]), 30.0)
        start = time.process_time()
        engine.queues.report()
        took = 1000 * (time.process_time() - start)
        print(f"  {name}: {1000 * max(first, second):.1f} ms (report {took:.1f} ms)")


def ten_thousand() -> Iterator[object]:
    yield from (QueueSeen(a_queue(number, 1)) for number in range(10_000))
    yield QueueSeen(QueueSpec("fairlead/top"))
    yield from map(PodSeen, pods_of(10_000, 10_000))
    yield from (QueueSeen(replace(a_queue(n, 1), parent=key_of(n + 3))) for n in range(50))


def a_chain() -> Iterator[object]:
    limit = ((GPUS, 3000),)
    for n in range(1000):
        yield QueueSeen(QueueSpec(key_of(n), key_of(n - 1) if n else "", limit=limit))
    yield from map(PodSeen, pods_of(1000, 5000))
    yield QueueSeen(QueueSpec(key_of(0), key_of(999), limit=limit))
    yield QueueSeen(QueueSpec(key_of(0), limit=limit))


def many_kinds() -> Iterator[object]:
    """A queue with 10,000 units, no two alike, that is opened, closed and given room."""
    closed = replace(a_queue(1, 0), parent="")
    yield QueueSeen(closed)
    yield from map(PodSeen, pods_of(1, 10_000, shapes=10_000, queued=False))
    yield from (
        PodSeen(replace(pod, uid=f"k{n}", queue=key_of(1)))
        for n, pod in enumerate(pods_of(1, 10_000, shapes=10_000))
    )
    for n in range(20):
        yield QueueSeen(replace(closed, limit=((GPUS, 1000 * (n % 2)),)))


def vast() -> Iterator[object]:
    name = "fairlead/" + "n" * 253
    amounts = tuple((f"example.com/{n}", 9 * 10**18) for n in range(1000))
    yield QueueSeen(QueueSpec(name, limit=((GPUS, 9 * 10**18), *amounts), guaranteed=amounts))
    yield from (PodSeen(replace(pod, queue=name)) for pod in pods_of(1, 5000, shapes=5000))
    yield QueueSeen(QueueSpec(name, limit=((GPUS, 0),)))


HOSTILE: dict[str, Callable[[], Iterator[object]]] = {
    "10,000 queues": ten_thousand,
    "a chain of 1,000": a_chain,
    "10,000 kinds of pods in one queue": many_kinds,
    "long names and vast amounts": vast,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--hostile", action="store_true")
    args = parser.parse_args()
    spare_the_collector()
    if args.hostile:
        hostile()
        return
    shares(args.queues)
    one_change(args.queues, args.pods)
    if not args.pods:
        return
    drain(args.queues, args.pods)
    refused(args.queues)


if __name__ == "__main__":
    main()
