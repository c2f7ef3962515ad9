"""Spot and on-demand capacity, and nodes that end: what pods ask for holds, whatever happens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod, a_taint, an_engine, decide, see
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine import gang_flights, goal_waits
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, NodeSeen, PodGone
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict, Instruction
from fairlead.engine.reasons import UNSCHEDULABLE, WAITING_FOR_BETTER_PLACE
from fairlead.model.capacity_types import CapacityTerms, CapacityType, capacity_type
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.nodes import Node
from fairlead.model.pods import NodeTerm, Pod, Taint, Toleration
from fairlead.model.run_times import RunTime
from fairlead.model.selectors import Requirement
from fairlead.model.start_times import StartTimes
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import PodCost
from gang_world import GangWorld, a_gang

SPOT = {"karpenter.sh/capacity-type": "spot"}
TOLERATES_ALL = (Toleration(operator="Exists"),)
ON_DEMAND = CapacityTerms(on_demand_only=True)
PREFERS_SPOT = CapacityTerms(prefers_spot=True)


def binds(made: Sequence[Instruction]) -> dict[str, str]:
    return {each.pod.name: each.node for each in made if isinstance(each, Bind)}


def failures(made: Sequence[Instruction]) -> list[AnnounceFailure]:
    return [each for each in made if isinstance(each, AnnounceFailure)]


def accepting(terms: CapacityTerms, pod: Pod) -> Pod:
    return replace(pod, request=replace(pod.request, capacity=terms))


def spot(name: str, gpus: int = 4) -> Node:
    return a_node(name, gpus=gpus, labels=SPOT)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, CapacityType.UNKNOWN),
        (SPOT, CapacityType.SPOT),
        ({"karpenter.sh/capacity-type": "reserved"}, CapacityType.RESERVED),
        ({"karpenter.sh/capacity-type": "odd"}, CapacityType.UNKNOWN),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, CapacityType.SPOT),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, CapacityType.ON_DEMAND),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, CapacityType.RESERVED),
        ({"cloud.google.com/gke-spot": "true"}, CapacityType.SPOT),
        ({"cloud.google.com/gke-preemptible": "true"}, CapacityType.SPOT),
        ({"cloud.google.com/gke-provisioning": "spot"}, CapacityType.SPOT),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, CapacityType.SPOT),
        (
            {"karpenter.sh/capacity-type": "on-demand", "cloud.google.com/gke-spot": "true"},
            CapacityType.SPOT,
        ),
    ],
)
def test_each_platform_labels_capacity_in_its_own_way(
    labels: dict[str, str], found: CapacityType
) -> None:
    assert capacity_type(labels) is found


# -- on-demand only, spot preferred ---------------------------------------------------------------


def test_on_demand_only_never_lands_on_spot_after_labels_change() -> None:
    engine = an_engine(a_node("a", gpus=1), a_node("b", gpus=1))
    see(engine, accepting(ON_DEMAND, a_pod("p", gpus=1)))
    engine.handle(NodeSeen(spot("a", gpus=1)), now=1.0)
    assert binds(decide(engine, now=1.0)) == {"p": "b"}

    see(engine, accepting(ON_DEMAND, a_pod("q", gpus=1)), now=2.0)
    (failure,) = failures(decide(engine, now=2.0))
    assert failure.reason == UNSCHEDULABLE
    assert "1 node(s) were spot capacity" in failure.message

    engine.handle(NodeSeen(a_node("a", gpus=1)), now=20.0)
    assert binds(decide(engine, now=20.0)) == {"q": "a"}


def test_spot_preferred_takes_spot_first_and_then_the_rest() -> None:
    engine = an_engine(a_node("a", gpus=1), spot("b", gpus=1))
    see(engine, accepting(PREFERS_SPOT, a_pod("p", gpus=1)))
    assert binds(decide(engine)) == {"p": "b"}
    see(engine, accepting(PREFERS_SPOT, a_pod("q", gpus=1)))
    assert binds(decide(engine)) == {"q": "a"}


# -- patience -------------------------------------------------------------------------------------


def waiting(wait_s: float = 60.0, name: str = "p") -> Pod:
    return accepting(CapacityTerms(prefers_spot=True, wait_s=wait_s), a_pod(name, gpus=1))


def test_a_pod_waits_for_spot_with_a_reason_that_buys_no_node_and_no_longer_than_it_said() -> None:
    engine = an_engine(a_node("a", gpus=1))
    see(engine, waiting())
    (failure,) = failures(decide(engine))
    assert failure.reason == WAITING_FOR_BETTER_PLACE
    assert "60 s" in failure.message
    assert engine.wake_at_s() is not None

    engine.tend(now=59.0)
    assert not decide(engine, now=59.0)
    engine.tend(now=60.0)
    assert binds(decide(engine, now=75.0)) == {"p": "a"}


def test_a_pod_waits_for_spot_no_longer_than_its_deadline_allows() -> None:
    engine = an_engine(a_node("a", gpus=4))
    start = StartTimes(0.0, deadline_s=200.0)
    pod = replace(waiting(3600.0), start=start, run_time=RunTime(100.0, 150.0, "annotation"))
    see(engine, pod)
    (failure,) = failures(decide(engine))
    assert (failure.reason, failure.message) == (
        "WaitingForBetterPlace",
        "it fits now, and waits 50 s more at most for spot capacity",
    )
    engine.tend(now=49.0)
    assert not binds(decide(engine, now=49.0))
    engine.tend(now=50.0)
    assert binds(decide(engine, now=50.0)) == {"p": "a"}


def test_a_pod_that_is_late_already_does_not_wait_for_spot() -> None:
    engine = an_engine(a_node("a", gpus=4))
    pod = replace(waiting(3600.0), start=StartTimes(0.0, deadline_s=-10.0))
    see(engine, pod)
    assert binds(decide(engine)) == {"p": "a"}


def test_spot_capacity_that_comes_ends_the_wait() -> None:
    engine = an_engine(a_node("a", gpus=1))
    see(engine, waiting())
    decide(engine)
    engine.handle(NodeSeen(a_node("c", gpus=1)), now=20.0)
    assert not decide(engine, now=20.0), "on-demand capacity is no news"
    engine.handle(NodeSeen(spot("b", gpus=1)), now=30.0)
    assert binds(decide(engine, now=30.0)) == {"p": "b"}


def test_a_pod_that_fits_nowhere_asks_for_nodes_however_patient() -> None:
    engine = an_engine(a_node("a", gpus=0))
    see(engine, waiting())
    (failure,) = failures(decide(engine))
    assert failure.reason == UNSCHEDULABLE


def test_patience_that_has_ended_does_not_hold_back_equal_pods() -> None:
    """The one whose time is over is woken by on-demand capacity, although another still waits."""
    engine = an_engine(a_node("a", gpus=1))
    see(engine, waiting(name="p"))
    decide(engine)
    other = a_pod("other", gpus=1)
    see(engine, other)
    decide(engine)
    engine.tend(now=61.0)
    (failure,) = failures(decide(engine, now=80.0))
    assert (failure.pod.name, failure.reason) == ("p", UNSCHEDULABLE)
    see(engine, waiting(name="q"), now=100.0)
    decide(engine, now=100.0)
    engine.handle(PodGone(other), now=130.0)
    assert binds(decide(engine, now=150.0)) == {"p": "a"}


@pytest.fixture(params=[(1000, 40_000), (4, 1), (1, 1)], ids=["whole", "costly", "large"])
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gangs are placed at once, or in slices: because of their goals, or of their size."""
    monkeypatch.setattr(gang_flights, "SLICE", request.param[0])
    monkeypatch.setattr(gang_flights, "SLICE_WORK", request.param[1])


@pytest.mark.usefixtures("_slices")
def test_a_gang_waits_whole_and_then_takes_what_there_is() -> None:
    world = GangWorld(an_engine(a_node("a", gpus=2), spot("b", gpus=1)))
    terms = CapacityTerms(prefers_spot=True, wait_s=60.0)
    world.create(*(accepting(terms, pod) for pod in a_gang("job", 2)))
    world.decide_all()
    assert not world.binds
    assert {each.reason for each in world.failures.values()} == {WAITING_FOR_BETTER_PLACE}
    world.now = 61.0
    world.decide_all()
    assert sorted(bind.node for bind in world.binds.values()) == ["a", "b"]


def test_a_pod_that_does_not_ask_for_spot_any_more_takes_any_node() -> None:
    engine = an_engine(a_node("a", gpus=1))
    see(engine, waiting(3600.0))
    assert failures(decide(engine))[0].reason == WAITING_FOR_BETTER_PLACE
    see(engine, a_pod("q", gpus=1, node="a"), now=1.0)
    see(engine, a_pod("p", gpus=1), now=2.0)
    decide(engine, now=2.0)
    engine.handle(NodeSeen(a_node("b", gpus=1)), now=20.0)
    assert binds(decide(engine, now=20.0)) == {"p": "b"}


def test_pods_that_are_gone_leave_no_waits() -> None:
    engine = an_engine(a_node("a", gpus=1))
    for number in range(1000):
        pod = waiting(3600.0, f"p{number}")
        see(engine, pod, now=1.0)
        decide(engine, now=1.0)
        engine.handle(PodGone(pod), now=1.0)
    waits = engine._parts.requeuer.goal_waits
    assert len(waits._waits) < 100
    assert len(waits._heap) < 100


def test_many_waits_that_end_at_once_end_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(goal_waits, "_AT_ONCE", 2)
    engine = an_engine(a_node("a", gpus=8))
    for number in range(5):
        see(engine, waiting(60.0, f"p{number}"))
    decide(engine)
    for _ in range(3):
        assert engine.wake_at_s() is not None
        assert engine._parts.requeuer.goal_waits.due_s() == 60.0
        engine.tend(now=60.0)
    assert engine._parts.requeuer.goal_waits.due_s() is None
    assert len(binds(decide(engine, now=75.0))) == 5


def limited(engine_nodes: Sequence[Node], at_most: float = 2.0) -> Engine:
    level = GoalLevel(((PodCost(), 1.0),), at_most=at_most, patience_s=60.0)
    engine = Engine({SCHEDULER: aiming(built_in(SCHEDULER), Goals((level,)))})
    for node in engine_nodes:
        engine.handle(NodeSeen(node), now=0.0)
    return engine


def priced(engine: Engine, now: float = 0.0, **prices: float) -> None:
    rules = tuple(FigureRule(((NAME, name),), price) for name, price in prices.items())
    seen = SeenFigures(Figure.PRICE, (FigureList("test", rules),))
    engine.handle(FiguresSeen(seen), now=now)


def test_a_goal_with_a_patience_waits_for_a_price_and_then_takes_the_best() -> None:
    engine = limited([a_node("a", gpus=1), a_node("b", gpus=1)])
    priced(engine, a=5.0, b=4.0)
    see(engine, a_pod("p", gpus=1))
    (failure,) = failures(decide(engine))
    assert failure.reason == WAITING_FOR_BETTER_PLACE
    assert "a node with Cost of at most 2 money/h" in failure.message
    engine.tend(now=60.0)
    assert binds(decide(engine, now=75.0)) == {"p": "b"}


def test_a_gang_with_goals_is_placed_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_flights, "SLICE", 4)
    monkeypatch.setattr(gang_flights, "SLICE_WORK", 1)
    engine = limited([a_node("a", gpus=2), a_node("b", gpus=2)])
    see(engine, *a_gang("job", 4))
    turns = [engine.decide(now=1.0) for _ in range(6)]
    outcomes = Counter(turn.outcome for turn in turns if turn)
    assert outcomes[Outcome.UNFINISHED] >= 3
    assert outcomes[Outcome.SCHEDULED] == 1


@pytest.mark.usefixtures("_slices")
def test_a_gang_waits_for_a_price_of_all_its_nodes() -> None:
    engine = limited([a_node("a", gpus=2), a_node("b", gpus=2)])
    priced(engine, a=1.0, b=8.0)
    world = GangWorld(engine)
    world.create(*a_gang("job", 4))
    world.decide_all()
    assert not world.binds
    assert {each.reason for each in world.failures.values()} == {WAITING_FOR_BETTER_PLACE}
    priced(engine, a=1.0, b=3.0)
    world.now = 20.0
    world.decide_all()
    assert len(world.binds) == 4


def test_a_price_that_falls_ends_the_wait_and_other_changes_do_not() -> None:
    engine = limited([a_node("a", gpus=1)])
    priced(engine, a=5.0)
    see(engine, a_pod("p", gpus=1))
    decide(engine)
    engine.handle(NodeSeen(a_node("b", gpus=1)), now=20.0)
    priced(engine, now=20.0, a=5.0, b=3.0)
    assert not decide(engine, now=20.0)
    priced(engine, now=30.0, a=5.0, b=1.5)
    assert binds(decide(engine, now=30.0)) == {"p": "b"}


def test_a_feed_of_prices_that_stops_ends_the_wait() -> None:
    engine = limited([a_node("a", gpus=1)])
    priced(engine, a=5.0)
    see(engine, a_pod("p", gpus=1))
    decide(engine)
    priced(engine, now=20.0)
    assert binds(decide(engine, now=20.0)) == {"p": "a"}


# -- shares of gangs ------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "most"), [(0.0, 0), (0.25, 1), (0.5, 2), (1.0, 4)])
def test_no_more_than_its_share_of_a_gang_is_on_spot(share: float, most: int) -> None:
    nodes = [spot("s1"), spot("s2"), a_node("d", gpus=4)]
    world = GangWorld(an_engine(*nodes))
    terms = CapacityTerms(spot_share=share, prefers_spot=True)
    world.create(*(accepting(terms, pod) for pod in a_gang("job", 4)))
    world.decide_all()
    assert len(world.binds) == 4
    assert sum(bind.node != "d" for bind in world.binds.values()) == most


def test_a_gang_that_could_have_only_spot_waits() -> None:
    world = GangWorld(an_engine(spot("s1"), a_node("d", gpus=1)))
    terms = CapacityTerms(spot_share=0.5)
    world.create(*(accepting(terms, pod) for pod in a_gang("job", 4)))
    world.decide_all()
    assert not world.binds
    assert {each.reason for each in world.failures.values()} == {UNSCHEDULABLE}


def test_the_share_counts_members_that_are_bound_already() -> None:
    world = GangWorld(an_engine(spot("s1"), a_node("d", gpus=2)))
    terms = CapacityTerms(spot_share=0.5, prefers_spot=True)
    pods = [accepting(terms, pod) for pod in a_gang("job", 4, minimum=2)]
    world.create(*pods[:2])
    world.decide_all()
    world.answer_all()
    world.create(*pods[2:])
    world.decide_all()
    on = [*(pod.node for pod in world.pods.values() if pod.node)]
    on += [bind.node for bind in world.binds.values() if not world.pods[bind.pod.uid].node]
    assert sorted(on) == ["d", "d", "s1", "s1"]


# -- nodes that end -------------------------------------------------------------------------------

TAINTS = [
    a_taint("aws-node-termination-handler/spot-itn"),
    a_taint("aws-node-termination-handler/scheduled-maintenance"),
    a_taint("aws-node-termination-handler/asg-lifecycle-termination"),
    a_taint("aws-node-termination-handler/rebalance-recommendation"),
    Taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute"),
    a_taint("karpenter.sh/disrupted"),
    Taint("karpenter.sh/unregistered", "", "NoExecute"),
    a_taint("cloud.google.com/impending-node-termination"),
    a_taint("remediator.kubernetes.azure.com/unschedulable"),
    a_taint("ToBeDeletedByClusterAutoscaler"),
]
ENDING = [
    *({"taints": (taint,)} for taint in TAINTS),
    {"labels": {"cloud.google.com/active-node-maintenance": "ONGOING"}},
    {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2026-11-16T10:00:00Z"}},
]


def tolerant(name: str, **more: object) -> Pod:
    return a_pod(name, gpus=1, tolerations=TOLERATES_ALL, **more)


@pytest.mark.parametrize("sign", ENDING, ids=lambda sign: str(*sign.values()))
def test_nothing_new_lands_on_a_node_that_ends_whatever_pods_tolerate(
    sign: dict[str, object],
) -> None:
    engine = an_engine(a_node("a", gpus=2))
    see(engine, tolerant("p"))
    assert binds(decide(engine)) == {"p": "a"}
    engine.handle(NodeSeen(replace(a_node("a", gpus=2), **sign)), now=1.0)
    see(engine, tolerant("q"), now=1.0)
    (failure,) = failures(decide(engine, now=1.0))
    assert "1 node(s) were about to end" in failure.message

    engine.handle(NodeSeen(a_node("a", gpus=2)), now=20.0)
    assert binds(decide(engine, now=20.0)) == {"q": "a"}


def test_the_soft_taint_of_a_candidate_for_deletion_only_advises() -> None:
    taint = Taint("DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule")
    engine = an_engine(replace(a_node("a", gpus=1), taints=(taint,)))
    see(engine, a_pod("p", gpus=1))
    assert binds(decide(engine)) == {"p": "a"}


def ending(engine: Engine, node: Node) -> None:
    taints = (a_taint("karpenter.sh/disrupted"),)
    engine.handle(NodeSeen(replace(node, taints=taints)), now=1.0)


def test_a_node_that_ends_is_no_target_of_preemption() -> None:
    engine = an_engine(a_node("a", gpus=1), a_node("b", gpus=1))
    for name, node in (("low-a", "a"), ("low-b", "b")):
        see(engine, a_pod(name, gpus=1, node=node, priority=0))
    ending(engine, a_node("a", gpus=1))
    see(engine, tolerant("high", priority=10), now=1.0)
    evictions = [each for each in decide(engine, now=1.0) if isinstance(each, Evict)]
    assert [each.node for each in evictions] == ["b"]


def test_a_gang_counts_the_capacity_of_a_node_that_ends_as_gone() -> None:
    world = GangWorld(an_engine(a_node("a", gpus=2), a_node("b", gpus=2)))
    ending(world.engine, a_node("b", gpus=2))
    world.create(*a_gang("job", 4, tolerations=TOLERATES_ALL))
    world.decide_all()
    assert not world.binds
    world.tell(NodeSeen(a_node("c", gpus=2)))
    world.now = 30.0
    world.decide_all()
    assert sorted(bind.node for bind in world.binds.values()) == ["a", "a", "c", "c"]


def test_a_pod_of_a_daemon_set_still_gets_its_node() -> None:
    engine = an_engine(a_node("a", gpus=1))
    ending(engine, a_node("a", gpus=1))
    terms = (NodeTerm(fields=(Requirement("metadata.name", "In", ("a",)),)),)
    see(engine, tolerant("daemon", node_terms=terms), now=1.0)
    assert binds(decide(engine, now=1.0)) == {"daemon": "a"}


def test_pods_that_run_on_a_node_that_ends_stay_and_planned_room_there_is_gone() -> None:
    engine = an_engine(a_node("a", gpus=2), a_node("b", gpus=2))
    see(engine, a_pod("runs", gpus=1, node="a"))
    ending(engine, a_node("a", gpus=2))
    see(engine, tolerant("p"), tolerant("q"), tolerant("r"), now=1.0)
    assert sorted(binds(decide(engine, now=1.0)).values()) == ["b", "b"]
    assert [held.node for held in engine.cluster.holdings.values()].count("a") == 1
