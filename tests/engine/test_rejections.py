"""Pods that a kubelet rejected: they are reported, and pods like them wait, longer each time."""

from builders import SCHEDULER, a_node, a_pod, decide_once
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, NodeSeen, PodGone, PodRejected, PodSeen
from fairlead.engine.instructions import AnnounceFailure, AnnounceWarning, Bind
from fairlead.engine.rejections import FORGET_AFTER_S, LONGEST_PAUSE_S, MOST_KINDS, Rejections
from fairlead.model.pods import Pod

WHY = "UnexpectedAdmissionError: Allocate failed"


def an_engine() -> Engine:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    engine.handle(NodeSeen(a_node("n1", gpus=8)), now=0.0)
    return engine


def reject(engine: Engine, name: str, now: float, **more: object) -> list[object]:
    bound = a_pod(name, uid=name, gpus=1, node="n1", **more)
    engine.handle(BindDone(bound.uid), now=now)
    engine.handle(PodSeen(bound), now=now)
    engine.handle(PodGone(bound), now=now)
    return list(engine.handle(PodRejected(bound, WHY), now=now))


def bound_at(engine: Engine, pod: Pod, now: float) -> float:
    """When a new pod is bound, at the latest ten minutes later."""
    engine.handle(PodSeen(pod), now=now)
    for later in range(600):
        if any(isinstance(made, Bind) for made in decide_once(engine, now=now + later)):
            return now + later
    raise AssertionError("never")


def test_a_rejected_pod_is_reported_with_what_the_kubelet_said() -> None:
    (warning,) = reject(an_engine(), "p", 0.0)

    assert isinstance(warning, AnnounceWarning)
    assert warning.reason == "RejectedByKubelet"
    assert "node n1 rejected the pod: UnexpectedAdmissionError: Allocate failed" in warning.message


def test_its_replacement_waits_and_says_why() -> None:
    engine = an_engine()
    reject(engine, "first", 0.0)
    made = engine.handle(PodSeen(a_pod("second", gpus=1)), now=0.1)

    (failure,) = made
    assert isinstance(failure, AnnounceFailure)
    assert "the kubelet rejected 1 pod with the same requests" in failure.message
    assert "on node n1: UnexpectedAdmissionError: Allocate failed" in failure.message
    assert not decide_once(engine, now=1.0)
    assert any(isinstance(one, Bind) for one in decide_once(engine, now=3.1))


def test_each_rejection_doubles_the_pause_up_to_the_longest() -> None:
    rejections, pod = Rejections(), a_pod("p", gpus=1, node="n1")
    pauses = [rejections.note(pod, WHY, 0.0).due_s for _ in range(10)]
    assert pauses[:4] == [2.0, 4.0, 8.0, 16.0]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_loop_of_rejections_becomes_slow() -> None:
    engine, now, binds = an_engine(), 0.0, 0
    while now < 600.0:
        binds += 1
        now = bound_at(engine, a_pod(f"p-{binds}", uid=f"p-{binds}", gpus=1), now)
        reject(engine, f"p-{binds}", now)
    assert binds <= 11


def test_pods_of_other_namespaces_and_with_other_requests_do_not_wait() -> None:
    engine = an_engine()
    reject(engine, "p", 0.0)
    assert bound_at(engine, a_pod("other", namespace="another", gpus=1), 0.1) == 0.1
    assert bound_at(engine, a_pod("larger", gpus=2), 0.2) == 0.2


def test_what_was_rejected_long_ago_is_forgotten() -> None:
    rejections, pod = Rejections(), a_pod("p", gpus=1, node="n1")
    for _ in range(5):
        rejections.note(pod, WHY, 0.0)
    assert rejections.note(pod, WHY, FORGET_AFTER_S + 1.0).pods == 1


def test_only_so_many_kinds_are_remembered() -> None:
    rejections = Rejections()
    for number in range(MOST_KINDS + 1):
        rejections.note(a_pod("p", namespace=f"ns-{number}", node="n1"), WHY, 0.0)
    assert rejections.pause_of(a_pod("q", namespace="ns-0"), 1.0) is None
    assert rejections.pause_of(a_pod("q", namespace="ns-1"), 1.0) is not None
