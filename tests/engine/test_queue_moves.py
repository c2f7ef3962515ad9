"""Queues come, go and move while units are active: their order is that of a new pool."""

from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, an_engine, see
from examples import examples
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder

NAMES = ("a", "b", "c", "d")
NODE = a_node("n1", gpus=12, resources={"pods": 1000})
ORDERS = (UnitOrder.PRIORITY, UnitOrder.FIFO, UnitOrder.STRICT_FIFO, UnitOrder.FAIR)

SPECS = st.builds(
    lambda name, parent, limit, weight, order: QueueSpec(
        f"fairlead/{name}",
        f"fairlead/{parent}" if parent else "",
        limit=() if limit is None else ((GPUS, 1000 * limit),),
        weight=weight,
        order=order,
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["", *NAMES, "missing"]),
    st.none() | st.integers(0, 8),
    st.sampled_from([1.0, 3.0]),
    st.sampled_from(ORDERS),
)
GONE = st.sampled_from(NAMES)
PODS = st.tuples(st.sampled_from(["", *NAMES, "missing"]), st.integers(0, 2))
STEPS = st.lists(SPECS | GONE | PODS | st.integers(1, 3), min_size=5, max_size=40)


class Scene:
    def __init__(self, *, rebuilt: bool) -> None:
        self.engine: Engine = an_engine(NODE)
        self.rebuilt = rebuilt
        self.now = 0.0
        self.names = count()
        self.tell(events.QueueKindSeen("fairlead", is_served=True))

    def tell(self, event: events.Event) -> None:
        self.engine.handle(event, now=self.now)

    def step(self, step: object) -> list[str]:
        self.now += 20.0
        match step:
            case QueueSpec():
                self.tell(events.QueueSeen(step))
            case str():
                self.tell(events.QueueGone(f"fairlead/{step}"))
            case (str(queue), int(priority)):
                key = f"fairlead/{queue}" if queue else ""
                name = f"p{next(self.names)}"
                see(self.engine, a_pod(name, gpus=1, priority=priority, queue=key), now=self.now)
            case int():
                return [name for _ in range(step) for name in self.decide()]
        return []

    def decide(self) -> list[str]:
        if self.rebuilt:
            self.engine.queues.order.sort_again()
        attempt = self.engine.decide(now=self.now)
        if attempt is None:
            return []
        for bind in attempt.instructions:
            if isinstance(bind, Bind):
                self.tell(events.BindDone(bind.pod.uid))
                see(self.engine, replace(bind.pod, node=bind.node), now=self.now)
        return [f"{attempt.unit.pod.name} {attempt.outcome.name}"]


@examples(60)
@given(steps=STEPS)
def test_the_order_is_that_of_a_pool_built_anew(steps: list[object]) -> None:
    kept, built = Scene(rebuilt=False), Scene(rebuilt=True)
    for step in [*steps, 30]:
        assert kept.step(step) == built.step(step)


def test_units_of_a_queue_that_goes_and_comes_are_not_lost() -> None:
    scene = Scene(rebuilt=False)
    for name in NAMES:
        scene.step(QueueSpec(f"fairlead/{name}", "fairlead/a" if name == "b" else ""))
        scene.step((name, 0))
    scene.step("a")
    held_back, scheduled = ["p0 HELD_BACK", "p1 HELD_BACK"], ["p2 SCHEDULED", "p3 SCHEDULED"]
    assert sorted(scene.step(5)) == [*held_back, *scheduled]
    scene.step(QueueSpec("fairlead/a"))
    assert sorted(scene.step(3)) == ["p0 SCHEDULED", "p1 SCHEDULED"]
