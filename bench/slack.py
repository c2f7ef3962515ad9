"""Which share of units starts within its wait goal, by the order of the queue and the load.

python bench/slack.py [--units 800] [--seeds 1]

64 GPUs on 8 nodes, one queue. Half of the units are of a class with a wait goal of 10 minutes and
run for 20 minutes in the mean, half of one with 2 hours that run for 2 hours; run times are
exponential, arrivals are a Poisson process, and each unit asks for one GPU, some for four. The load
is GPU-time asked for beside GPU-time there is. Time is virtual.
"""

import argparse
from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from fairlead.apps.config.profiles import built_in
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind, Instruction
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.queues import QueueSpec, UnitOrder
from fairlead.model.service_classes import SERVICE_CLASS, ServiceClass
from fairlead.model.start_times import StartTimes, utc
from fairlead.queue.retry_times import RetryTimes

SCHEDULER, QUEUE = "gpu-scheduler", "fairlead/team"
EPOCH = 1_800_000_000.0
FAST = ServiceClass("fast", wait_goal_s=600.0)
SLOW = ServiceClass("slow", wait_goal_s=7200.0)
MEAN_RUN_S = {FAST: 1200.0, SLOW: 7200.0}
GPUS = 64
ORDERS = (UnitOrder.FIFO, UnitOrder.DEADLINE, UnitOrder.SLACK)


class World:
    """Pods come, run and end; binds are carried out at once."""

    def __init__(self, order: UnitOrder) -> None:
        retries = RetryTimes(0.0, 0.0, float("inf"))
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)}, retries=retries)
        self.engine.wall_offset_s = EPOCH
        self._numbers = count()
        self.now, self._heap, self._runs_s = 0.0, list[tuple[float, int, Pod]](), dict[str, float]()
        allocatable = (("cpu", 10**6), ("memory", 10**12), (GPU, 8), ("pods", 1000))
        for number in range(GPUS // 8):
            self._feed(events.NodeSeen(Node(f"n{number}", f"n{number}", allocatable=allocatable)))
        self._feed(events.ServiceClassesSeen((FAST, SLOW)))
        self._feed(events.QueueKindSeen("fairlead", is_served=True))
        self._feed(events.QueueSeen(QueueSpec(QUEUE, order=order)))

    def _feed(self, event: events.Event) -> None:
        self._carry_out(self.engine.handle(event, now=self.now))

    def _carry_out(self, made: "list[Instruction] | tuple[Instruction, ...]") -> None:
        for each in made:
            if isinstance(each, Bind):
                pod = replace(each.pod, node=each.node, started=utc(EPOCH + self.now))
                self._feed(events.BindDone(pod.uid))
                self._feed(events.PodSeen(pod))
                end_s = self.now + self._runs_s[pod.uid]
                heappush(self._heap, (end_s, next(self._numbers), pod))

    def submit(self, pod: Pod, run_s: float) -> None:
        self._runs_s[pod.uid] = run_s
        self._feed(events.PodSeen(pod))

    def run_until(self, until_s: float) -> None:
        while True:
            self._work()
            ends_s = self._heap[0][0] if self._heap else float("inf")
            wake_s = self.engine.wake_at_s()
            next_s = min(ends_s, wake_s if wake_s and wake_s > self.now else float("inf"))
            if next_s > until_s:
                break
            self.now = next_s
            while self._heap and self._heap[0][0] <= self.now:
                self._feed(events.PodGone(heappop(self._heap)[2]))
        self.now = until_s
        self._work()

    def _work(self) -> None:
        self._carry_out(self.engine.tend(now=self.now))
        while (attempt := self.engine.decide(now=self.now)) is not None:
            self._carry_out([*attempt.instructions])


def a_unit(number: int, class_: ServiceClass, gpus: int, now: float) -> Pod:
    """With a deadline for its start, which only the order Deadline reads beside the class."""
    start = StartTimes(EPOCH + now, deadline_s=EPOCH + now + class_.wait_goal_s)
    return Pod(
        "default",
        f"p{number}",
        f"p{number}",
        scheduler=SCHEDULER,
        created=utc(EPOCH + now),
        annotations={SERVICE_CLASS: class_.name},
        request=PodRequest(((GPU, gpus),)),
        usage=((GPU, gpus),),
        queue=QUEUE,
        start=start,
    )


def in_time(order: UnitOrder, load: float, units: int, seed: int) -> Counter[str]:
    draw, world = np.random.default_rng(seed), World(order)
    mean_gpus = 0.9 * 1 + 0.1 * 4
    mean_s = sum(MEAN_RUN_S.values()) / 2 * mean_gpus
    at_s = 0.0
    for number in range(units):
        at_s += draw.exponential(mean_s / (load * GPUS))
        class_ = (FAST, SLOW)[number % 2]
        gpus = 4 if draw.random() < 0.1 else 1
        world.run_until(at_s)
        world.submit(a_unit(number, class_, gpus, at_s), draw.exponential(MEAN_RUN_S[class_]))
    world.run_until(at_s + 3 * SLOW.wait_goal_s)
    found = Counter[str]()
    for (name, result), units_counted in world.engine.service_record.totals.items():
        found[f"{name} {result}"] += units_counted
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    print(f"{'load':>5}  {'order':10}  {'all':>6}  {'fast':>6}  {'slow':>6}   in time, %")
    for load in (0.8, 1.1, 1.5, 2.5):
        for order in ORDERS:
            found = Counter[str]()
            for seed in range(options.seeds):
                found += in_time(order, load, options.units, seed)
            shares = [_share(found, *names) for names in (("fast", "slow"), ("fast",), ("slow",))]
            row = "  ".join(f"{100 * share:6.1f}" for share in shares)
            print(f"{load:5.1f}  {order:10}  {row}", flush=True)


def _share(found: Counter[str], *names: str) -> float:
    met = sum(found[f"{name} met"] for name in names)
    return met / max(1, met + sum(found[f"{name} missed"] for name in names))


if __name__ == "__main__":
    main()
