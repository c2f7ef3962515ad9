"""Gangs whose pods an HTTP extender is asked about, before they are tried."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.trial import Trial
from fairlead.engine import gang_flights
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    ExtendersAnswered,
    GangSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    QueueKindSeen,
    QueueSeen,
)
from fairlead.engine.gang_trials import Filling, GangTrials
from fairlead.engine.instructions import (
    AnnounceFailure,
    AskExtenders,
    AttemptCrashed,
    Bind,
    Evict,
    Instruction,
)
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.http_extenders import ExtenderAnswer, ExtenderTerms
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.model.topology import Topology, TopologyLevel
from fairlead.queue.units import Gang
from fairlead.testing.builders import a_gpu_node, gpu_share
from gang_world import a_gang

URL = "http://x"
RACK = "rack"
#: What the extender says about a question.
Says = Callable[[AskExtenders], ExtenderAnswer]


class World:
    """An engine, and an extender that answers when the test says so."""

    def __init__(self, *nodes: str, terms: ExtenderTerms | None = None, gpus: int = 2) -> None:
        topology = Topology((TopologyLevel(RACK),))
        profiles = {SCHEDULER: built_in(SCHEDULER)}
        self.engine = Engine(
            profiles, extenders=(terms or ExtenderTerms(URL),), topology=topology
        )  # fmt: skip
        for name in nodes:
            node = a_node(name, gpus=gpus, labels={RACK: name[0]})
            self.engine.handle(NodeSeen(node), now=0.0)
        self.asked: list[AskExtenders] = []
        self.most_open = 0
        self.questions = 0
        self.binds: dict[str, str] = {}
        self.failures: dict[str, AnnounceFailure] = {}
        self.victims: list[str] = []

    def create(self, *pods: Pod, now: float = 0.0) -> None:
        for pod in pods:
            self._take(self.engine.handle(PodSeen(pod), now=now))

    def decide(self, now: float = 0.0) -> None:
        for _ in range(200):
            self._take(self.engine.tend(now=now))
            attempt = self.engine.decide(now=now)
            if attempt is None:
                return
            self._take(attempt.instructions)
        raise AssertionError("it does not come to an end")

    def run(self, says: Says, now: float = 0.0) -> None:
        """Until nothing is asked any more."""
        self.decide(now)
        while self.asked:
            question = self.asked.pop(0)
            said = says(question)
            self.engine.handle(ExtendersAnswered(question.pod.uid, said), now=now)
            self.decide(now)

    def _take(self, made: "list[Instruction] | tuple[Instruction, ...]") -> None:
        for each in made:
            assert not isinstance(each, AttemptCrashed), each.error
            if isinstance(each, AskExtenders):
                self.asked.append(each)
                self.questions += 1
            elif isinstance(each, Bind):
                self.binds[each.pod.uid] = each.node
            elif isinstance(each, AnnounceFailure):
                self.failures[each.pod.uid] = each
            elif isinstance(each, Evict):
                self.victims += [pod.uid for pod in each.victims]
        self.most_open = max(self.most_open, len(self.asked))


def accepting(*nodes: str, points: dict[str, float] | None = None) -> Says:
    def says(asked: AskExtenders) -> ExtenderAnswer:
        accepted = tuple(node for node in asked.nodes if node in nodes)
        refused = {node: "no licence" for node in asked.nodes if node not in nodes}
        return ExtenderAnswer(accepted, refused, scores=points or {})

    return says


def in_racks(pods: list[Pod]) -> list[Pod]:
    rule = (TopologyRule(RACK, required=True),)
    found = []
    for pod in pods:
        assert pod.gang is not None
        assert pod.gang.spec is not None
        spec = replace(pod.gang.spec, topology=rule)
        found.append(replace(pod, gang=Membership(spec.key, rank=pod.gang.rank, spec=spec)))
    return found


def test_each_pod_is_asked_about_and_the_gang_goes_where_all_are_accepted() -> None:
    world = World("a1", "a2", "b1")
    world.create(*a_gang("g", 4))
    world.decide()
    assert [each.pod.uid for each in world.asked] == [f"g-{number}" for number in range(4)]
    assert not world.binds
    world.run(accepting("a2", "b1"))
    assert sorted(world.binds.values()) == ["a2", "a2", "b1", "b1"]
    assert world.questions == 4


def test_answers_about_one_pod_hold_for_that_pod_alone() -> None:
    world = World("a1", "a2")
    world.create(*a_gang("g", 2, gpus=1))
    own = {"g-0": "a2", "g-1": "a1"}
    world.run(lambda asked: accepting(own[asked.pod.uid])(asked))
    assert world.binds == own


@pytest.mark.parametrize("best", ["a1", "a2"])
def test_points_count(best: str) -> None:
    world = World("a1", "a2")
    world.create(*a_gang("g", 2, gpus=1))
    world.run(accepting("a1", "a2", points={best: 1000.0}))
    assert set(world.binds.values()) == {best}


def test_a_gang_with_topology_rules_goes_to_a_rack_that_is_accepted() -> None:
    world = World("a1", "a2", "b1", "b2")
    world.create(*in_racks(a_gang("g", 4)))
    world.run(accepting("a1", "b1", "b2"))
    assert sorted(world.binds.values()) == ["b1", "b1", "b2", "b2"]


def test_answers_hold_for_a_gang_that_is_placed_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_flights, "SLICE", 3)
    world = World("a1", "a2", "b1", gpus=4)
    world.create(*a_gang("g", 8))
    world.run(accepting("a2", "b1"))
    assert Counter(world.binds.values()) == {"a2": 4, "b1": 4}


def test_answers_count_also_if_the_room_is_gone_when_they_come() -> None:
    world = World("a1", "b1")
    world.create(*a_gang("g", 2, gpus=2))
    world.decide()
    world.create(a_pod("other", uid="other", gpus=1, node="a1"))
    world.run(accepting())
    assert world.failures["g-0"].message.endswith("1 Insufficient nvidia.com/gpu, 1 no licence.")


def test_a_refusal_has_the_words_of_the_extender() -> None:
    world = World("a1", "a2")
    world.create(*a_gang("g", 3))
    world.run(accepting("a1"))
    assert not world.binds
    assert "no licence" in world.failures["g-0"].message
    assert world.failures["g-0"].reason == "Unschedulable"


def test_it_is_asked_again_after_a_change_and_not_before() -> None:
    world = World("a1")
    world.create(*a_gang("g", 2))
    world.run(accepting())
    before = world.questions
    world.run(accepting(), now=60.0)
    assert world.questions == before
    world.engine.handle(NodeSeen(a_node("a2", gpus=2, labels={RACK: "a"})), now=90.0)
    world.run(accepting("a2"), now=120.0)
    assert set(world.binds.values()) == {"a2"}


def test_a_gang_without_room_is_not_asked_about() -> None:
    world = World("a1")
    world.create(*a_gang("g", 3))
    world.decide()
    assert not world.asked
    assert "Insufficient" in world.failures["g-0"].message


def test_an_extender_that_fails_is_an_error_of_the_gang_which_is_tried_again() -> None:
    world = World("a1")
    world.create(*a_gang("g", 2))
    world.run(lambda _: ExtenderAnswer(error="code 500"))
    assert (world.failures["g-0"].reason, world.failures["g-0"].message) == (
        "SchedulerError", "code 500",
    )  # fmt: skip
    world.run(accepting("a1"), now=60.0)
    assert len(world.binds) == 2


def test_other_pods_go_on_and_few_are_asked_about_at_a_time() -> None:
    managed = ExtenderTerms(URL, frozenset({"x.io/y"}))
    world = World(terms=managed)
    for number in range(21):
        node = a_node(f"n{number}", resources={"x.io/y": 2})
        world.engine.handle(NodeSeen(node), now=0.0)
    world.create(*a_gang("g", 40, gpus=0, resources={"x.io/y": 1}))
    world.decide()
    world.create(a_pod("plain", uid="plain", gpus=0))
    world.decide()
    assert world.binds.keys() == {"plain"}
    world.create(a_pod("asked", uid="asked", gpus=0, resources={"x.io/y": 1}))
    world.decide()
    assert world.asked[-1].pod.uid == "asked", "a large gang does not keep others from being asked"
    world.run(lambda asked: ExtenderAnswer(asked.nodes))
    assert len(world.binds) == 42
    assert (world.most_open, world.questions) == (9, 41)


def test_pods_that_no_extender_manages_are_not_limited() -> None:
    managed = ExtenderTerms(URL, frozenset({"x.io/y"}))
    world = World("a1", terms=managed)
    world.engine.handle(NodeSeen(a_node("c1", gpus=0, resources={"x.io/y": 1})), now=0.0)
    one, other = a_gang("g", 2, gpus=0)
    one = replace(one, request=a_pod("x", gpus=0, resources={"x.io/y": 1}).request)
    other = replace(other, request=a_pod("x", gpus=1).request)
    world.create(one, other)
    world.run(accepting("c1"))
    assert world.binds == {"g-0": "c1", "g-1": "a1"}
    assert world.questions == 1


def test_a_gang_that_loses_a_pod_meanwhile_is_not_placed_and_nothing_is_left() -> None:
    world = World("a1")
    pods = a_gang("g", 2)
    world.create(*pods)
    world.decide()
    world.engine.handle(PodGone(pods[0]), now=0.0)
    world.run(accepting("a1"))
    assert not world.binds
    world.create(replace(pods[0], uid="g-new"), now=1.0)
    world.run(accepting("a1"), now=30.0)
    assert world.binds.keys() == {"g-new", "g-1"}
    for pod in (replace(pods[0], uid="g-new"), pods[1]):
        world.engine.handle(PodGone(pod), now=31.0)


def test_a_gang_whose_pods_are_all_gone_is_forgotten() -> None:
    world = World("a1")
    pods = a_gang("g", 2)
    world.create(*pods)
    world.decide()
    for pod in pods:
        world.engine.handle(PodGone(pod), now=0.0)
    world.run(accepting("a1"))
    assert not list(world.engine.queue.gangs())


def test_more_nodes_are_asked_about_if_those_with_the_best_scores_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.engine.extender_stage._MOST_NODES", 2)
    world = World("a1", "a2", "a3", "a4", "a5")
    world.create(*a_gang("g", 2))
    world.run(accepting("a3"))
    assert set(world.binds.values()) == {"a3"}
    assert world.questions <= 2 * 3


def test_a_gang_is_tried_again_when_all_its_pods_were_asked_about_more_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not after each answer: a trial costs more than a question."""
    monkeypatch.setattr("fairlead.engine.extender_stage._MOST_NODES", 2)
    tried: list[bool] = []
    real = GangTrials.best

    def best(trials: GangTrials, trial: Trial, gang: Gang, *work: int) -> Filling:
        tried.append(trials._cluster.extended_members is not None)
        return real(trials, trial, gang, *work)

    monkeypatch.setattr(GangTrials, "best", best)
    world = World(*(f"a{number}" for number in range(6)), gpus=4)
    world.create(*a_gang("g", 12))
    world.run(accepting("a5"))
    assert world.questions == 12 * 3
    assert sum(tried) == 3, "once after each round"


@pytest.mark.parametrize("ignorable", [False, True])
def test_a_gang_that_is_too_large_to_be_asked_about_has_a_sentence(
    ignorable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.engine.gang_extenders.MOST_PODS", 3)
    world = World("a1", gpus=4, terms=ExtenderTerms(URL, ignorable=ignorable))
    world.create(*a_gang("g", 4))
    world.decide()
    assert not world.asked
    assert len(world.binds) == (4 if ignorable else 0)
    if not ignorable:
        assert world.failures["g-0"].reason == "InvalidPod"
        assert f"the extender {URL} would have to be asked" in world.failures["g-0"].message


def test_no_pod_is_evicted_from_a_node_that_is_refused() -> None:
    world = World("a1", "b1")
    full = [a_pod(f"low-{n}", uid=f"low-{n}", gpus=2, node=n, priority=0) for n in ("a1", "b1")]
    world.create(*full)
    world.create(a_pod("free", uid="free", gpus=0))
    world.run(accepting("a1", "b1"))
    world.engine.handle(PodGone(full[0]), now=1.0)
    world.create(*a_gang("g", 2, priority=10), now=1.0)
    world.run(accepting("b1"), now=1.0)
    assert not [uid for uid in world.binds if uid.startswith("g-")]
    assert world.victims == ["low-b1"]


def test_a_member_beyond_the_limit_of_one_model_goes_where_it_is_accepted() -> None:
    world, key = World(), "fairlead/red"
    world.engine.handle(QueueKindSeen("fairlead", is_served=True), now=0.0)
    limit = (("fairlead.dev/gpu-H100", 2000),)
    world.engine.handle(QueueSeen(QueueSpec(key, limit=limit)), now=0.0)
    for name, model in (("h1", "NVIDIA H100 80GB"), ("a1", "NVIDIA A100 80GB"),
                        ("a2", "NVIDIA A100 80GB")):  # fmt: skip
        world.engine.handle(NodeSeen(a_gpu_node(name, model=model)), now=0.0)
    world.engine.handle(GangSeen(GangSpec("x/default/g", 6, queue=key)), now=0.0)
    share, gang = gpu_share(1000), Membership("x/default/g")
    world.create(*[a_pod(f"g{n}", uid=f"g{n}", gang=gang, gpu_request=share) for n in range(6)])
    world.run(accepting("h1", "a2"))
    assert Counter(world.binds.values()) == {"h1": 2, "a2": 4}
