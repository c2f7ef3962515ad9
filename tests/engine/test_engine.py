from typing import ClassVar

import pytest

from builders import SCHEDULER, a_node, a_pod, a_taint, an_engine, decide, decide_once, drawing, see
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.aspects import Aspect
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    BindFailed,
    BindProblem,
    EvictionEnded,
    NodeDistrusted,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    ServerKnown,
    TrustRestored,
)
from fairlead.engine.instructions import AnnounceFailure, AnnounceScheduled, Bind, Evict
from fairlead.model.behaviour import KNOWN, Behaviour
from fairlead.model.volumes import PodVolumes
from fairlead.placement.profile import Profile
from fairlead.queue.entries import Pool


def bound(made) -> dict[str, str]:
    return {step.pod.name: step.node for step in made if isinstance(step, Bind)}


def failures(made) -> list[tuple[str, str]]:
    return [(s.reason, s.message) for s in made if isinstance(s, AnnounceFailure)]


def test_a_pod_is_placed_bound_and_announced() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    pod = a_pod("p", uid="u", gpus=2)
    see(engine, pod, now=1.0)
    assert decide(engine, now=2.0) == [Bind(pod, "n1")]
    assert drawing(engine.cluster) == ["n1 ##"]
    announced = engine.handle(BindDone("u"), now=3.0)
    assert announced == [AnnounceScheduled(pod, "n1", attempts=1, first_queued_s=1.0)]
    see(engine, a_pod("p", uid="u", gpus=2, node="n1"))
    assert drawing(engine.cluster) == ["n1 ##"]


def test_it_speaks_as_the_version_of_the_server_does() -> None:
    messages = []
    for known in KNOWN:
        engine = an_engine(a_node("n1", gpus=2))
        engine.handle(ServerKnown(known), now=0.0)
        see(engine, a_pod(gpus=3))
        messages.append(failures(decide(engine))[0][1].partition(" preemption:")[0])
    start = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert messages == [f"{start} no new claims to deallocate,", start]


def test_a_gated_pod_holds_the_room_that_it_was_nominated_for() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("gated", gpus=2, priority=5, gates=("wait",), nominated="n1"))
    see(engine, a_pod("p", gpus=2))
    assert bound(decide(engine)) == {}


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_whoever_evicts_a_pod_on_its_way_is_not_left_waiting(known: Behaviour) -> None:
    """kube-scheduler 1.36 may leave it so; a victim of ours is deleted, bound already or not."""
    engine = an_engine(a_node("n1", gpus=2))
    engine.handle(ServerKnown(known), now=0.0)
    victim, urgent = a_pod("v", uid="v", gpus=2), a_pod("urgent", uid="u", gpus=2, priority=5)
    see(engine, victim)
    assert bound(decide(engine)) == {"v": "n1"}  # and the reply is still to come
    see(engine, urgent)
    evictions = [step for step in decide(engine) if isinstance(step, Evict)]
    assert evictions == [Evict(urgent, "n1", {"n1": (victim,)})]
    engine.handle(EvictionEnded("u", ""), now=1.0)
    engine.handle(PodGone(victim), now=1.0)
    assert bound(decide(engine, now=20.0)) == {"urgent": "n1"}


def test_pods_of_other_schedulers_are_not_placed_but_count_once_bound() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("theirs", scheduler="default-scheduler", gpus=2))
    assert decide(engine) == []
    see(engine, a_pod("theirs", uid="t", scheduler="default-scheduler", gpus=2, node="n1"))
    see(engine, a_pod("ours", gpus=1))
    assert bound(decide(engine)) == {}


def test_a_pod_that_does_not_fit_is_explained_and_placed_when_it_does() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("first", uid="f", gpus=2, node="n1"), a_pod("second", gpus=2))
    made = decide(engine)
    assert failures(made)[0][0] == "Unschedulable"
    assert "1 Insufficient nvidia.com/gpu" in failures(made)[0][1]
    assert decide(engine, now=60.0) == []
    engine.handle(PodGone(a_pod("first", uid="f", node="n1")), now=61.0)
    assert bound(decide(engine, now=61.0)) == {"second": "n1"}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(NodeSeen(a_node("n2", gpus=8)), id="a node comes"),
        pytest.param(NodeSeen(a_node("n1", gpus=8)), id="a node grows"),
        pytest.param(PodSeen(a_pod("x", uid="x", node="n1", finished=True)), id="a pod finishes"),
    ],
)
def test_what_frees_room_wakes_who_waits_for_it(event) -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("x", uid="x", gpus=2, node="n1"), a_pod("p", gpus=2))
    assert bound(decide(engine)) == {}
    engine.handle(event, now=1.0)
    assert "p" in bound(decide(engine, now=1.0))


def test_what_does_not_help_wakes_nobody() -> None:
    engine = an_engine(a_node("n1", gpus=2), a_node("n2", gpus=2, taints=(a_taint(),)))
    see(engine, a_pod("p", gpus=2), a_pod("q", gpus=2))
    decide(engine)
    engine.handle(NodeSeen(a_node("n2", gpus=2, taints=(a_taint(),), labels={"a": "b"})), now=1.0)
    engine.handle(NodeSeen(a_node("n3", gpus=1)), now=1.0)
    assert decide(engine, now=1.0) == []
    assert engine.queue.counts()[Pool.WAITING] == 1


def test_no_more_is_given_out_than_there_is() -> None:
    engine = an_engine(a_node("n1", gpus=8), a_node("n2", gpus=8))
    see(engine, *(a_pod(f"p{number}", gpus=3) for number in range(10)))
    assert len(bound(decide(engine))) == 4
    assert drawing(engine.cluster) == ["n1 ######..", "n2 ######.."]


def test_terminating_pods_keep_what_they_have_until_they_are_gone() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("x", uid="x", gpus=2, node="n1", deleting=True), a_pod("p", gpus=1))
    assert bound(decide(engine)) == {}
    engine.handle(PodGone(a_pod("x", uid="x", node="n1")), now=1.0)
    assert bound(decide(engine, now=1.0)) == {"p": "n1"}


def test_a_denied_pod_backs_off_and_starves_nobody() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("doomed", uid="d", gpus=1, priority=100))
    times = []
    for tenth in range(300):
        now = tenth / 10
        for step in decide_once(engine, now=now):
            if isinstance(step, Bind) and step.pod.name == "doomed":
                times.append(now)
                failed = BindFailed("d", BindProblem.DENIED, "webhook says no")
                assert failures(engine.handle(failed, now=now)) == [
                    ("SchedulerError", 'running Bind plugin "DefaultBinder": webhook says no')
                ]
        if tenth % 50 == 0:
            see(engine, a_pod(f"other-{tenth}", uid=f"o{tenth}"), now=now)
            assert list(bound(decide(engine, now=now))) == [f"other-{tenth}"]
    assert len(times) <= 6
    assert drawing(engine.cluster) == ["n1 .."]


@pytest.mark.parametrize("problem", [BindProblem.GONE, BindProblem.TAKEN])
def test_a_pod_that_is_gone_or_taken_is_forgotten(problem: BindProblem) -> None:
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, a_pod("p", uid="u", gpus=1))
    decide(engine)
    assert engine.handle(BindFailed("u", problem, ""), now=1.0) == []
    assert drawing(engine.cluster) == ["n1 ."]
    assert decide(engine, now=100.0) == []


def test_a_pod_bound_by_another_scheduler_meanwhile_counts_where_it_is() -> None:
    engine = an_engine(a_node("n1", gpus=1), a_node("n2", gpus=2))
    see(engine, a_pod("p", uid="u", gpus=1))
    assert bound(decide(engine)) == {"p": "n1"}
    see(engine, a_pod("p", uid="u", gpus=1, node="n2"))
    engine.handle(BindFailed("u", BindProblem.TAKEN, ""), now=1.0)
    assert drawing(engine.cluster) == ["n1 .", "n2 #."]


def test_a_second_reply_to_a_bind_that_was_written_changes_nothing() -> None:
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, a_pod("p", uid="u", gpus=1))
    decide(engine)
    engine.handle(BindDone("u"), now=1.0)
    assert engine.handle(BindFailed("u", BindProblem.TAKEN, ""), now=2.0) == []
    assert drawing(engine.cluster) == ["n1 #"]


def test_a_pod_deleted_in_mid_bind_frees_its_room_and_its_successor_is_placed() -> None:
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, a_pod("p", uid="old", gpus=1))
    decide(engine)
    engine.handle(PodGone(a_pod("p", uid="old")), now=1.0)
    see(engine, a_pod("p", uid="new", gpus=1), now=1.0)
    assert [step.pod.uid for step in decide(engine, now=1.0)] == ["new"]
    assert engine.handle(BindFailed("old", BindProblem.GONE, ""), now=2.0) == []
    assert drawing(engine.cluster) == ["n1 #"]


def test_a_node_deleted_with_pods_on_their_way_harms_nothing() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("p", uid="u", gpus=2))
    decide(engine)
    engine.handle(NodeGone("n1"), now=1.0)
    engine.handle(BindFailed("u", BindProblem.DENIED, "no such node"), now=1.0)
    engine.handle(NodeSeen(a_node("n1", gpus=2)), now=2.0)
    assert drawing(engine.cluster) == ["n1 .."]


def test_gates_are_respected() -> None:
    engine = an_engine(a_node("n1"))
    see(engine, a_pod("p", uid="u", gates=("wait",)))
    assert decide(engine) == []
    see(engine, a_pod("p", uid="u"), now=1.0)
    assert bound(decide(engine, now=1.0)) == {"p": "n1"}


def test_a_pending_pod_that_is_being_deleted_is_dropped_with_a_word() -> None:
    engine = an_engine(a_node("n1"))
    see(engine, a_pod("p", uid="u"))
    made = see(engine, a_pod("p", uid="u", deleting=True))
    assert failures(made)[0][1] == "skip schedule deleting pod: default/p"
    assert decide(engine) == []


def test_a_pod_that_cannot_be_understood_is_refused_once_and_others_go_on() -> None:
    engine = an_engine(a_node("n1"))
    see(engine, a_pod("odd", uid="u", problem="it asks for -1 GPUs"), a_pod("fine"))
    made = decide(engine)
    assert ("InvalidPod", "it asks for -1 GPUs") in failures(made)
    assert bound(made) == {"fine": "n1"}
    engine.handle(NodeSeen(a_node("n2")), now=1.0)
    assert decide(engine, now=1.0) == []
    see(engine, a_pod("odd", uid="u"), now=20.0)
    assert "odd" in bound(decide(engine, now=20.0))


def test_a_bound_pod_that_cannot_be_understood_closes_its_node() -> None:
    engine = an_engine(a_node("n1"))
    see(engine, a_pod("odd", uid="o", node="n1", problem="?"), a_pod("p"))
    assert "1 node(s) had an object that could not be read" in failures(decide(engine))[0][1]
    engine.handle(PodGone(a_pod("odd", uid="o", node="n1")), now=1.0)
    assert bound(decide(engine, now=1.0)) == {"p": "n1"}


def test_a_distrusted_node_is_opened_when_the_cause_is_gone() -> None:
    engine = an_engine(a_node("n1"))
    engine.handle(NodeDistrusted("n1", "default/odd"), now=0.0)
    see(engine, a_pod("p"))
    assert bound(decide(engine)) == {}
    engine.handle(TrustRestored("default/odd"), now=1.0)
    assert bound(decide(engine, now=1.0)) == {"p": "n1"}


def test_an_unchanged_cluster_is_left_in_peace() -> None:
    """A refused backlog costs one announcement a pod and then nothing for five minutes."""
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, *(a_pod(f"p{number}", gpus=2) for number in range(50)))
    assert len(decide(engine)) == 50
    for second in range(1, 299):
        assert engine.decide(now=float(second)) is None


class Breaks:
    name: ClassVar[str] = "Breaks"
    reads: ClassVar[Aspect] = Aspect.USAGE

    def rate(self, request, nodes):
        raise ZeroDivisionError("oops")


def test_a_plugin_that_breaks_is_reported_and_others_are_not_harmed() -> None:
    good = built_in(SCHEDULER)
    bad = Profile("bad", good.filters, ((Breaks(), 1.0),))
    engine = Engine({SCHEDULER: good, "broken": bad})
    engine.handle(NodeSeen(a_node("n1")), now=0.0)
    see(engine, a_pod("unlucky", scheduler="broken"), a_pod("lucky"))
    made = decide(engine)
    line = Breaks.rate.__code__.co_firstlineno + 1
    told = f"a plugin failed: score Breaks ({__file__}:{line}): ZeroDivisionError: oops"
    assert failures(made) == [("SchedulerError", told)]
    assert bound(made) == {"lucky": "n1"}


class Moody:
    """Allows no node, or all, and breaks when it is asked what it reads, or what it plans."""

    name: ClassVar[str] = "Moody"
    refusal: ClassVar[str] = "not today"
    resolvable: ClassVar[bool] = False

    def __init__(self, *, allowed: bool) -> None:
        self.allowed, self.broken = allowed, False

    @property
    def reads(self) -> Aspect:
        if self.broken:
            raise ZeroDivisionError("oops")
        return Aspect.USAGE

    def allows(self, request, nodes):
        return nodes.all() if self.allowed else nodes.none()

    def prepares(self, request):
        return True

    def pre_bind(self, request, node):
        raise ZeroDivisionError("no plan")


def test_a_plugin_that_breaks_while_pods_are_requeued_ends_nothing() -> None:
    rule = Moody(allowed=False)
    profile = Profile("moody", (*built_in(SCHEDULER).filters, rule), ())
    engine = Engine({SCHEDULER: built_in(SCHEDULER), "moody": profile})
    engine.handle(NodeSeen(a_node("n1")), now=0.0)
    see(engine, a_pod("there", uid="there", node="n1"), a_pod("waits", scheduler="moody"))
    assert "1 not today" in failures(decide(engine))[0][1]
    rule.broken = True
    engine.handle(PodGone(a_pod("there", uid="there", node="n1")), now=1.0)
    see(engine, a_pod("lucky"), now=1.0)
    assert bound(decide(engine, now=1.0)) == {"lucky": "n1"}
    ((_, told),) = failures(decide(engine, now=20.0, times=1))
    assert told.startswith(f"a plugin failed: filter Moody ({__file__}:")


def test_a_plugin_that_breaks_while_it_plans_is_reported_by_name() -> None:
    profile = Profile("moody", (*built_in(SCHEDULER).filters, Moody(allowed=True)), ())
    engine = Engine({SCHEDULER: profile})
    engine.handle(NodeSeen(a_node("n1")), now=0.0)
    see(engine, a_pod("planned", volumes=PodVolumes()))
    ((_, told),) = failures(decide(engine, times=1))
    assert told.startswith(f"a plugin failed: filter Moody ({__file__}:")


def test_the_same_events_give_the_same_instructions() -> None:
    def history() -> list:
        engine = an_engine(*(a_node(f"n{number}", gpus=4) for number in range(5)))
        made = []
        for number in range(40):
            pod = a_pod(f"p{number}", uid=f"u{number}", gpus=number % 3)
            made += see(engine, pod, now=number / 10) + decide(engine, now=number / 10)
        return made

    assert history() == history()


def test_a_version_from_before_the_bind_does_not_queue_the_pod_again() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    see(engine, a_pod("p", uid="u", gpus=1))
    assert bound(decide(engine)) == {"p": "n1"}
    engine.handle(BindDone("u"), now=1.0)
    see(engine, a_pod("p", uid="u", gpus=1, labels={"patched": "while it was bound"}))
    assert decide(engine, now=2.0) == []
    assert drawing(engine.cluster) == ["n1 #."]
    see(engine, a_pod("p", uid="u", gpus=1, node="n1"))
    assert drawing(engine.cluster) == ["n1 #."]
    assert not engine.in_flight.unconfirmed()


def test_a_pod_that_is_pending_again_after_it_was_seen_on_its_node_starts_over() -> None:
    """Versions come in order, so etcd was restored to a state from before the bind."""
    engine = an_engine(a_node("n1", gpus=2))
    for scheduler in (SCHEDULER, "default-scheduler"):
        see(engine, a_pod("p", uid=scheduler, gpus=1, node="n1", scheduler=scheduler))
    assert drawing(engine.cluster) == ["n1 ##"]
    for scheduler in (SCHEDULER, "default-scheduler"):
        see(engine, a_pod("p", uid=scheduler, gpus=1, scheduler=scheduler))
    assert drawing(engine.cluster) == ["n1 .."]
    assert bound(decide(engine)) == {"p": "n1"}


def test_an_attempt_says_what_came_of_it_and_an_empty_queue_says_so() -> None:
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, a_pod("fits", gpus=1, priority=2), a_pod("refused", gpus=1, priority=1))
    see(engine, a_pod("odd", problem="the request cannot be read"))
    attempts = [engine.decide(now=1.0) for _ in range(4)]
    assert attempts.pop() is None
    assert [(each.unit.pod.name, each.outcome.value) for each in attempts if each] == [
        ("fits", "scheduled"), ("refused", "unschedulable"), ("odd", "unschedulable"),
    ]  # fmt: skip
