"""Searches for room that need not be made, go on where they stopped, or are made again in time."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, an_engine, see
from examples import examples
from fairlead.engine import events
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict
from fairlead.engine.room_searches import UselessSearches
from fairlead.model.budgets import Budget
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.queues import QueueSpec, Victims
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.placement import making_room
from gang_world import a_gang

NAMES = ("a", "b", "c")
LABELS = {"app": "x"}
SELECTOR = LabelSelector((Requirement("app", "In", ("x",)),))


def a_budget(allowed: int) -> Budget:
    return Budget("default", "pdb", selector=SELECTOR, allowed=allowed)


class Scene:
    """A small full cluster. Time hardly passes, so that answers could be kept."""

    def __init__(self, *gpus: int) -> None:
        nodes = [a_node(f"n{at}", gpus=n) for at, n in enumerate(gpus)]
        self.engine = an_engine(*nodes)
        self.now = 100.0
        self.names = count()
        self.bound: dict[str, Pod] = {}
        self.tell(events.QueueKindSeen("fairlead", is_served=True))

    def tell(self, event: events.Event) -> None:
        self.now += 0.001
        self.engine.handle(event, now=self.now)

    def queue(self, name: str, weight: float = 1.0, **more: object) -> None:
        parent = "" if name == "top" else "fairlead/top"
        self.tell(events.QueueSeen(QueueSpec(f"fairlead/{name}", parent, weight=weight, **more)))

    def create(self, queue: str, gpus: int = 1, priority: int = 0) -> None:
        key = f"fairlead/{queue}" if queue else ""
        name = f"p{next(self.names)}"
        pod = a_pod(name, gpus=gpus, priority=priority, queue=key, labels=LABELS)
        see(self.engine, replace(pod, started="1970-01-01T00:00:00Z"), now=self.now)

    def decide(self) -> Attempt | None:
        self.now += 0.001
        attempt = self.engine.decide(now=self.now)
        for made in attempt.instructions if attempt else ():
            if isinstance(made, Bind):
                pod = self.bound[made.pod.uid] = replace(made.pod, node=made.node)
                self.tell(events.BindDone(pod.uid))
                see(self.engine, pod, now=self.now)
            if isinstance(made, Evict):
                for victim in made.victims:
                    self.end(victim.uid)
                self.tell(events.EvictionEnded(made.pod.uid))
        return attempt

    def end(self, uid: str) -> None:
        if (pod := self.bound.pop(uid, None)) is not None:
            self.tell(events.PodGone(pod))

    def is_checked(self, attempt: Attempt | None) -> None:
        """What was refused is refused by a search that knows nothing of those before."""
        if attempt is None or attempt.outcome is not Outcome.UNSCHEDULABLE:
            return
        if not any(isinstance(made, Evict) for made in attempt.instructions):
            found, _ = self.engine.would_evict(attempt.unit.pod.uid, now=self.now)
            assert not found, attempt.unit.pod.name


STEPS = st.lists(
    st.tuples(st.just("pod"), st.sampled_from(["", *NAMES]), st.integers(1, 2), st.integers(0, 1))
    | st.tuples(st.just("weight"), st.sampled_from(NAMES), st.sampled_from([0.5, 1.0, 4.0]))
    | st.tuples(st.just("rule"), st.sampled_from(NAMES), st.sampled_from([*Victims]))
    | st.tuples(st.just("budget"), st.integers(0, 3))
    | st.tuples(st.just("end"), st.integers(0, 9))
    | st.tuples(st.just("gone"), st.sampled_from(NAMES))
    | st.tuples(st.just("decide"), st.integers(1, 6)),
    min_size=10,
    max_size=60,
)


@examples(60)
@given(steps=STEPS)
def test_an_answer_that_is_kept_is_that_of_a_search(steps: list[tuple[object, ...]]) -> None:
    scene = Scene(4, 2)
    for name in ("top", *NAMES):
        scene.queue(name)
    for step in [*steps, ("decide", 20)]:
        match step:
            case ("pod", str(queue), int(gpus), int(priority)):
                scene.create(queue, gpus, priority)
            case ("weight", str(name), float(weight)):
                scene.queue(name, weight)
            case ("rule", str(name), Victims() as rule):
                scene.queue(name, reclaims=rule, within=rule)
            case ("budget", int(allowed)):
                scene.tell(events.BudgetSeen(a_budget(allowed)))
            case ("end", int(choice)) if scene.bound:
                scene.end([*scene.bound][choice % len(scene.bound)])
            case ("gone", str(name)):
                scene.tell(events.QueueGone(f"fairlead/{name}"))
            case ("decide", int(times)):
                for _ in range(times):
                    scene.is_checked(scene.decide())


def test_a_share_that_moves_is_seen_at_once() -> None:
    scene = Scene(4)
    for name in ("top", "a", "b"):
        scene.queue(name)
    for _ in range(4):
        scene.create("a")
        scene.create("b")
    attempts = [scene.decide() for _ in range(8)]
    refused = [each for each in attempts if each and each.outcome is Outcome.UNSCHEDULABLE]
    assert len(refused) == 4
    said = [made.message for each in refused for made in each.instructions]
    assert all(each.endswith("would have more than its fair share with it.") for each in said)
    scene.queue("b", weight=3.0)
    scene.create("b")
    attempt = scene.decide()
    assert attempt
    assert any(isinstance(made, Evict) for made in attempt.instructions)


def test_no_search_is_begun_for_a_queue_that_has_its_share() -> None:
    scene = Scene(4)
    for name in ("top", "a", "b"):
        scene.queue(name)
    for _ in range(4):
        scene.create("a")
        scene.create("b")
    trials = 0
    for _ in range(8):
        before = scene.engine.cluster.work.trials
        attempt = scene.decide()
        assert attempt
        trials += scene.engine.cluster.work.trials - before
    assert trials == 0


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making_room, "_MOST_WORK", 1000)


@pytest.mark.usefixtures("little_work")
def test_a_search_goes_on_where_it_stopped_and_a_budget_begins_it_again() -> None:
    nodes = 60
    scene = Scene(*[4] * nodes)
    low = [
        replace(a_pod(f"low{n}", gpus=1, labels=LABELS), node=f"n{n // 4}")
        for n in range(4 * nodes)
    ]
    see(scene.engine, *low, now=scene.now)
    scene.tell(events.BudgetSeen(a_budget(0)))
    see(scene.engine, *a_gang("high", 2, gpus=4, priority=10), now=scene.now)
    said: list[str] = []
    while not said or "no set of them is enough" not in said[-1]:
        scene.now += 11.0
        attempt = scene.engine.decide(now=scene.now)
        assert attempt
        said += [m.message for m in attempt.instructions if isinstance(m, AnnounceFailure)][:1]
    assert 2 <= len(said) <= 6, "each time it looks at rows that it has not looked at"
    scene.now += 11.0
    assert scene.engine.decide(now=scene.now) is None
    scene.tell(events.BudgetSeen(a_budget(8)))
    scene.now += 11.0
    attempt = scene.engine.decide(now=scene.now) or scene.engine.decide(now=scene.now + 11.0)
    assert attempt
    assert any(isinstance(made, Evict) for made in attempt.instructions)


def test_large_requests_for_which_a_search_was_of_no_use_are_not_all_kept() -> None:
    known: UselessSearches[Pod] = UselessSearches()
    refused = making_room.RoomOutcome[Pod](None, "no room")
    requests = [
        PodRequest(node_selector=tuple((f"key-{number}-{n}", "x" * 60) for n in range(1000)))
        for number in range(60)
    ]
    for request in requests:
        known.put(("s", request, 0, ""), refused, now=0.0)
    answers = [known.get(("s", request, 0, ""), None, now=0.5) for request in requests]
    assert answers[-1] is refused
    assert answers.count(refused) < 60
    assert known._refused.bytes <= 8 << 20
