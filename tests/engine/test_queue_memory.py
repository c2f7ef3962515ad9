"""Queues that come and go leave nothing behind: every store of the engine is counted."""

from dataclasses import replace

from builders import a_node, a_pod, an_engine
from fairlead.engine import events
from fairlead.engine.instructions import Bind
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder
from stores import stores

#: What is kept beyond the objects that are there; it has a bound, as test_memory.py shows.
BOUNDED = {"ChangeLog._rows", "ChangeLog._aspects"}
ORDERS = list(UnitOrder)
LIVE = 4


class Churn:
    """Queues of every order come, have pods that run and pods that wait, and go again."""

    def __init__(self) -> None:
        self.engine = an_engine(a_node("n1", gpus=64, resources={"pods": 1000}))
        self.engine.handle(events.QueueKindSeen("fairlead", is_served=True), now=0.0)
        self.engine.handle(events.QueueSeen(QueueSpec("fairlead/top")), now=0.0)
        self.now, self.number = 0.0, 0
        self.queues: dict[str, QueueSpec] = {}
        self.pods: dict[str, Pod] = {}

    def step(self) -> None:
        self.now += 40.0
        self.number += 1
        key = f"fairlead/q{self.number}"
        order = ORDERS[self.number % len(ORDERS)]
        spec = self.queues[key] = QueueSpec(
            key, "fairlead/top", limit=((GPUS, 2000),), order=order, priority=self.number % 3
        )
        self.tell(events.QueueSeen(spec))
        for name in "abc":  # two run, and one waits for the limit
            pod = a_pod(f"{self.number}-{name}", gpus=1, cpu=1 + self.number % 7, queue=key)
            self.pods[pod.uid] = replace(pod, namespace=f"team-{self.number}")
            self.tell(events.PodSeen(self.pods[pod.uid]))
        self.decide()
        if len(self.queues) > LIVE:
            self.remove(next(iter(self.queues)))
        self.engine.tend(now=self.now)

    def tell(self, event: events.Event) -> None:
        self.engine.handle(event, now=self.now)

    def decide(self) -> None:
        while (attempt := self.engine.decide(now=self.now)) is not None:
            for made in attempt.instructions:
                if isinstance(made, Bind):
                    bound = self.pods[made.pod.uid] = replace(made.pod, node=made.node)
                    self.tell(events.BindDone(made.pod.uid))
                    self.tell(events.PodSeen(bound))

    def remove(self, key: str) -> None:
        for pod in [pod for pod in self.pods.values() if pod.queue == key]:
            self.tell(events.PodGone(self.pods.pop(pod.uid)))
        del self.queues[key]
        self.tell(events.QueueGone(key))


def test_no_store_grows_with_the_queues_and_pods_that_were_there_before() -> None:
    """A store that keeps one entry of each would have twice as many."""
    churn = Churn()
    for _ in range(80):
        churn.step()
    before = stores(churn.engine)
    for _ in range(80):
        churn.step()
    after = stores(churn.engine)
    assert sum(bool(pod.node) for pod in churn.pods.values()) == 2 * LIVE
    grown = {n: (before.get(n, 0), m) for n, m in after.items() if m > 1.25 * before.get(n, 0) + 24}
    assert grown.keys() <= BOUNDED
