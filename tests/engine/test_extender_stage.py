"""Pods that HTTP extenders are asked about, between two attempts."""

from builders import a_node, a_pod
from fairlead.apps.config.profiles import built_in
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import ExtendersAnswered, NodeSeen, PodGone, PodSeen
from fairlead.engine.instructions import AnnounceFailure, AskExtenders, Bind
from fairlead.model.http_extenders import ExtenderAnswer, ExtenderTerms
from fairlead.model.pods import Pod

URL = "http://x"


def an_engine(*extenders: ExtenderTerms, nodes: str = "ab") -> Engine:
    engine = Engine({"gpu-scheduler": built_in("gpu-scheduler")}, extenders=extenders)
    for name in nodes:
        engine.handle(NodeSeen(a_node(name)), now=0.0)
    return engine


def tried(engine: Engine, now: float = 0.0) -> Attempt:
    found = engine.decide(now=now)
    assert found is not None
    return found


def asked(engine: Engine, pod: Pod, now: float = 0.0) -> AskExtenders:
    engine.handle(PodSeen(pod), now=now)
    (question,) = tried(engine, now).instructions
    assert isinstance(question, AskExtenders)
    return question


def answer(engine: Engine, pod: Pod, now: float = 0.0, **said: object) -> Attempt:
    engine.handle(ExtendersAnswered(pod.uid, ExtenderAnswer(**said)), now=now)  # type: ignore[arg-type]
    return tried(engine, now)


def node_of(attempt: Attempt) -> str:
    (bind,) = (each for each in attempt.instructions if isinstance(each, Bind))
    return bind.node


def test_a_pod_gets_one_of_the_nodes_that_the_extender_accepts() -> None:
    engine, pod = an_engine(ExtenderTerms(URL)), a_pod("p")
    question = asked(engine, pod)
    assert (question.nodes, question.extenders) == (("a", "b"), (URL,))
    assert engine.decide(now=0.0) is None
    assert node_of(answer(engine, pod, accepted=("b",), refused={"a": "no"})) == "b"


def test_points_of_the_extender_are_added() -> None:
    for best in "ab":
        engine, pod = an_engine(ExtenderTerms(URL)), a_pod("p")
        asked(engine, pod)
        scores = {best: 1000.0}
        assert node_of(answer(engine, pod, accepted=("a", "b"), scores=scores)) == best


def test_a_refusal_has_the_words_of_the_extender_and_of_the_other_rules() -> None:
    engine, pod = an_engine(ExtenderTerms(URL)), a_pod("p")
    engine.handle(NodeSeen(a_node("c", unschedulable=True)), now=0.0)
    asked(engine, pod)
    attempt = answer(engine, pod, refused={"a": "no licence", "b": "no licence"})
    assert attempt.outcome is Outcome.UNSCHEDULABLE
    (failure,) = attempt.instructions
    assert isinstance(failure, AnnounceFailure)
    assert "0/3 nodes are available: 1 node(s) were unschedulable, 2 no licence." in failure.message


def test_a_failure_is_an_error_of_this_pod_alone_and_it_is_tried_again() -> None:
    engine, pod = an_engine(ExtenderTerms(URL, frozenset({"x.io/y"}))), a_pod("p")
    special = a_pod("s", resources={"x.io/y": 1})
    engine.handle(NodeSeen(a_node("c", resources={"x.io/y": 4})), now=0.0)
    asked(engine, special)
    engine.handle(PodSeen(pod), now=0.0)
    assert tried(engine).outcome is Outcome.SCHEDULED, "other pods go on"
    attempt = answer(engine, special, error="code 500")
    assert attempt.outcome is Outcome.ERROR
    (failure,) = attempt.instructions
    assert isinstance(failure, AnnounceFailure)
    assert (failure.reason, failure.message) == ("SchedulerError", "code 500")
    (again,) = tried(engine, now=60.0).instructions
    assert isinstance(again, AskExtenders)


def test_an_answer_about_a_pod_that_is_gone_does_nothing() -> None:
    engine, pod = an_engine(ExtenderTerms(URL)), a_pod("p")
    asked(engine, pod)
    engine.handle(PodGone(pod), now=0.0)
    engine.handle(ExtendersAnswered(pod.uid, ExtenderAnswer(("a",))), now=0.0)
    assert engine.decide(now=0.0) is None


def test_an_accepted_node_that_fits_no_longer_is_not_taken() -> None:
    engine, pod = an_engine(ExtenderTerms(URL), nodes="a"), a_pod("p")
    asked(engine, pod)
    engine.handle(NodeSeen(a_node("a", unschedulable=True)), now=0.0)
    engine.handle(NodeSeen(a_node("new")), now=0.0)
    (question,) = answer(engine, pod, accepted=("a",)).instructions
    assert isinstance(question, AskExtenders)
    assert question.nodes == ("new",), "no node is taken that the extender was not asked about"


def test_few_pods_are_asked_about_at_a_time_and_all_in_the_end() -> None:
    engine = an_engine(ExtenderTerms(URL))
    pods = [a_pod(f"p{number}") for number in range(40)]
    for pod in pods:
        engine.handle(PodSeen(pod), now=0.0)
    open_: list[Pod] = []
    bound = 0
    while (attempt := engine.decide(now=0.0)) or open_:
        made = attempt.instructions if attempt else ()
        open_ += [each.pod for each in made if isinstance(each, AskExtenders)]
        bound += sum(isinstance(each, Bind) for each in made)
        assert len(open_) <= 16
        if attempt is None:
            uid = open_.pop(0).uid
            engine.handle(ExtendersAnswered(uid, ExtenderAnswer(("a", "b"))), now=0.0)
    assert bound == 40


def refused(engine: Engine, pod: Pod, now: float = 0.0) -> None:
    assert answer(engine, pod, now, refused={"a": "no"}).outcome is Outcome.UNSCHEDULABLE


def test_what_changed_after_the_question_is_not_lost() -> None:
    engine, pod = an_engine(ExtenderTerms(URL), nodes="a"), a_pod("p")
    other = a_pod("other", node="a")
    engine.handle(PodSeen(other), now=0.0)
    asked(engine, pod)
    engine.handle(PodGone(other), now=0.0)
    refused(engine, pod)
    assert engine.decide(now=0.0) is None, "not before its backoff is over"
    (again,) = tried(engine, now=30.0).instructions
    assert isinstance(again, AskExtenders)
    refused(engine, pod, 30.0)
    assert engine.decide(now=60.0) is None, "nothing has changed since"


def test_each_of_several_equal_pods_is_asked_about_after_a_change() -> None:
    engine, pods = an_engine(ExtenderTerms(URL), nodes="a"), [a_pod("p"), a_pod("q")]
    for pod in pods:
        asked(engine, pod)
        refused(engine, pod)
    engine.handle(NodeSeen(a_node("a", labels={"new": "label"})), now=60.0)
    made = []
    while attempt := engine.decide(now=60.0):
        made += [each.pod.name for each in attempt.instructions if isinstance(each, AskExtenders)]
    assert made == ["p", "q"]


def test_no_pod_is_evicted_from_a_node_that_only_an_extender_refuses() -> None:
    engine = an_engine(ExtenderTerms(URL), nodes="a")
    engine.handle(PodSeen(a_pod("low", node="a")), now=0.0)
    pod = a_pod("p", priority=10)
    asked(engine, pod)
    attempt = answer(engine, pod, refused={"a": "no"})
    (failure,) = attempt.instructions
    assert isinstance(failure, AnnounceFailure)


def test_pods_that_wait_for_their_question_are_all_tried_when_answers_come_together() -> None:
    engine = Engine(
        {"gpu-scheduler": built_in("gpu-scheduler")}, extenders=(ExtenderTerms(URL),)
    )  # fmt: skip
    engine.handle(NodeSeen(a_node("a", resources={"x.io/y": 1})), now=0.0)
    pods = [a_pod(f"p{n}", resources={"x.io/y": 1}) for n in range(60)]
    for pod in pods:
        engine.handle(PodSeen(pod), now=0.0)
    open_: list[Pod] = []
    seen: set[str] = set()
    while (attempt := engine.decide(now=0.0)) or open_:
        for each in attempt.instructions if attempt else ():
            if isinstance(each, AskExtenders):
                open_.append(each.pod)
            elif isinstance(each, Bind | AnnounceFailure):
                seen.add(each.pod.uid)
        if attempt is None:
            for pod in open_:
                said = ExtenderAnswer(accepted=("a",))
                engine.handle(ExtendersAnswered(pod.uid, said), now=0.0)
            open_.clear()
    assert seen == {pod.uid for pod in pods}
