"""Whatever other queues submit, a unit that fits an empty cluster starts in bounded time."""

import heapq
from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, an_engine, see
from examples import examples
from fairlead.engine import events
from fairlead.engine.instructions import Bind, Evict
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder
from fairlead.queue.quotas.ageing import AGED_S, FIRST_HOLD_S

GPUS_OF_NODE = 4


class Days:
    """Simulated time: pods run for as long as their annotation says, and others follow them."""

    def __init__(self, nodes: int, *queues: QueueSpec) -> None:
        named = [a_node(f"n{number}", gpus=GPUS_OF_NODE) for number in range(nodes)]
        self.engine = an_engine(*named)
        self.engine.handle(events.QueueKindSeen("fairlead", is_served=True), now=0.0)
        for queue in queues:
            self.engine.handle(events.QueueSeen(queue), now=0.0)
        self.now = 0.0
        self._ends: list[tuple[float, int, Pod]] = []
        self._numbers = count()
        self.started: dict[str, float] = {}
        #: Pods for which others were evicted, which end after half a minute or run on.
        self.evicted_for: list[str] = []
        self.victims_stay = False
        #: Pending pods of each queue that is never done, and how long each of them runs.
        self.endless: dict[str, tuple[int, float]] = {}

    def submit(self, queue: str, runs_s: float, **more: object) -> str:
        name = f"{queue}-{next(self._numbers)}"
        words = {"runs": str(runs_s)}
        pod = a_pod(name, queue=f"fairlead/{queue}", cpu=1, annotations=words, **more)
        see(self.engine, pod, now=self.now)
        return name

    def submit_gang(self, queue: str, runs_s: float, pods: int) -> str:
        """Pods of one GPU that start together; the name of one of them."""
        key = f"fairlead/default/{queue}-gang-{next(self._numbers)}"
        gang = Membership(key, spec=GangSpec(key, pods))
        return [self.submit(queue, runs_s, gpus=1, gang=gang) for _ in range(pods)][-1]

    def run_until(self, name: str, at_most_s: float) -> float:
        """When the pod started; it fails if that is not by the time."""
        while name not in self.started:
            assert self.now <= at_most_s, f"{name} has not started after {self.now:.0f} s"
            self._decide()
            if name in self.started:
                break
            self._go_on()
        return self.started[name]

    def _decide(self) -> None:
        while (attempt := self.engine.decide(now=self.now)) is not None:
            for each in attempt.instructions:
                if isinstance(each, Bind):
                    self._start(each)
                elif isinstance(each, Evict):
                    self._evict(each)

    def _evict(self, evict: Evict) -> None:
        self.evicted_for.append(evict.pod.name)
        gone = {pod.uid for pod in evict.victims}
        if not self.victims_stay:
            others = [end for end in self._ends if end[2].uid not in gone]
            then = self.now + 30.0
            self._ends = [*others, *((then, next(self._numbers), pod) for pod in evict.victims)]
            heapq.heapify(self._ends)
        self.engine.handle(events.EvictionEnded(evict.pod.uid), now=self.now)

    def _start(self, bind: Bind) -> None:
        pod = replace(bind.pod, node=bind.node)
        self.engine.handle(events.BindDone(pod.uid), now=self.now)
        see(self.engine, pod, now=self.now)
        self.started[pod.name] = self.now
        end = self.now + float(pod.annotations["runs"])
        heapq.heappush(self._ends, (end, next(self._numbers), pod))
        queue = pod.queue.removeprefix("fairlead/")
        if queue in self.endless:
            self.submit(queue, self.endless[queue][1], gpus=1)

    def _go_on(self) -> None:
        """To the next end of a pod, or half a minute on."""
        then = min(self._ends[0][0] if self._ends else self.now + 30.0, self.now + 30.0)
        self.now = max(then, self.now + 0.5)
        while self._ends and self._ends[0][0] <= self.now:
            _, _, pod = heapq.heappop(self._ends)
            self.engine.handle(events.PodGone(pod), now=self.now)

    def flood(self, queue: str, pending: int, runs_s: float) -> None:
        """From now on a pod of one GPU takes the place of each that starts."""
        self.endless[queue] = pending, runs_s
        for _ in range(pending):
            self.submit(queue, runs_s, gpus=1)


def a_queue(name: str, **more: object) -> QueueSpec:
    return QueueSpec(f"fairlead/{name}", **more)


@given(
    nodes=st.integers(1, 2),
    weight=st.sampled_from([0.0, 0.1, 1.0]),
    # Those that started just before a hold end before it does.
    runs_s=st.floats(900.0, FIRST_HOLD_S - 60.0),
    floods=st.integers(1, 2),
    limit=st.sampled_from([(), ((GPUS, 4000),)]),
    same=st.booleans(),
    gang=st.booleans(),
)
@examples(6)
def test_a_large_unit_starts_beside_endless_small_ones(
    nodes: int,
    weight: float,
    runs_s: float,
    floods: int,
    limit: tuple[()],
    same: bool,
    gang: bool,
) -> None:
    names = [f"flood{number}" for number in range(floods)]
    others = [a_queue(name, order=UnitOrder.FIFO) for name in names]
    days = Days(nodes, a_queue("large", weight=weight, limit=() if same else limit), *others)
    for name in names:
        days.flood(name, 6, runs_s)
    days.run_until(f"{names[0]}-0", 10.0)
    if gang:  # of the whole cluster, if the limit allows it
        size = GPUS_OF_NODE * (1 if limit and not same else nodes)
        large = days.submit_gang("large", 60.0, size)
    else:
        large = days.submit("large", 60.0, gpus=GPUS_OF_NODE)
    if same:  # units of its own queue overtake it as well
        days.now += 1.0
        days.flood("large", 6, runs_s)
    # Each queue may hold once before, until a pod ends that runs for the longest.
    bound = AGED_S + (1 + floods) * (FIRST_HOLD_S + 120.0)
    assert days.run_until(large, bound) <= bound


def test_a_nominated_unit_behind_the_oldest_of_its_queue_uses_its_room() -> None:
    """The oldest one holds the cluster meanwhile, and may not use that room."""
    days = Days(1, a_queue("large"), a_queue("busy"))
    days.victims_stay = True
    busy = [days.submit("busy", 4000.0, gpus=1) for _ in range(GPUS_OF_NODE)]
    days.run_until(busy[-1], 10.0)
    large = days.submit("large", 60.0, gpus=GPUS_OF_NODE)
    days.submit("large", 60.0, gpus=GPUS_OF_NODE - 1)
    while days.now < AGED_S - 60.0:
        days._decide()
        days._go_on()
    small = days.submit("large", 60.0, gpus=1)
    assert days.run_until(small, 4100.0) <= 4100.0
    assert days.evicted_for == [small]
    assert large not in days.started


def test_a_unit_that_can_never_start_does_not_stop_the_others() -> None:
    days = Days(2, a_queue("hopeless"), a_queue("busy"))
    days.flood("busy", 10, 600.0)
    days.submit("hopeless", 60.0, gpus=GPUS_OF_NODE + 2)  # in sum there is as much
    days.run_until("busy-0", 10.0)
    while days.now < 8 * 3600.0:
        days._decide()
        days._go_on()
    busy = sum(name.startswith("busy") for name in days.started)
    at_best = 8 * days.now / 600.0
    assert busy >= 0.8 * at_best


def test_a_guarantee_and_pods_without_gpus_need_not_wait_for_a_large_unit() -> None:
    sure = a_queue("sure", guaranteed=((GPUS, 1000),))
    days = Days(1, a_queue("large"), a_queue("busy"), a_queue("plain"), sure)
    days.flood("busy", 6, 1500.0)
    days.run_until("busy-0", 10.0)
    large = days.submit("large", 60.0, gpus=GPUS_OF_NODE)
    while days.now < AGED_S + 90.0:
        days._decide()
        days._go_on()
    assert large not in days.started
    plain = days.submit("plain", 60.0, gpus=0)
    assert days.run_until(plain, days.now + 60.0)
    promised = days.submit("sure", 60.0, gpus=1)
    assert days.run_until(promised, days.now + 1500.0) < days.now + 1500.0
    assert large not in days.started, "it still holds what becomes free"
