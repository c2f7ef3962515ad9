"""Known failures of other schedulers with queues, as scenarios for the engine."""

from dataclasses import replace
from itertools import pairwise

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide, see
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, GangStatusChanged
from fairlead.model.gangs import GangSpec, GangState, Membership
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec
from fairlead.queue.quotas.admitted import FIRM_S, LONGEST_S

QUEUE = QueueSpec("volcano/q", limit=((GPUS, 8000),), charged_at_admission=True)


def a_job(name: str, gpus: int = 8) -> GangSpec:
    return GangSpec(
        f"volcano/default/{name}",
        gpus,
        least_resources=((GPU, gpus),),
        admitted_by=SCHEDULER,
        queue=QUEUE.key,
    )


def an_engine_with(*specs: QueueSpec, gpus: int = 32) -> Engine:
    engine = an_engine(a_node("n1", gpus=gpus))
    for spec in specs:
        engine.handle(events.QueueSeen(spec), now=0.0)
    return engine


def states(engine: Engine, now: float) -> dict[str, GangState]:
    made = [each for each in engine.tend(now=now) if isinstance(each, GangStatusChanged)]
    return {each.spec.name: each.status.state for each in made}


def used(engine: Engine, key: str) -> int:
    return next(dict(r.used).get(GPUS, 0) for r in engine.queues.report() if r.spec.key == key)


# -- a job that was admitted and whose pods never come keeps its quota for ever ----------------


def test_an_admission_whose_pods_never_come_expires() -> None:
    engine = an_engine_with(QUEUE)
    engine.handle(events.GangSeen(a_job("a")), now=0.0)
    engine.handle(events.GangSeen(a_job("b")), now=0.0)
    assert states(engine, 5.0) == {
        "default/a": GangState.GATHERING,
        "default/b": GangState.UNSCHEDULABLE,
    }
    assert states(engine, LONGEST_S - 1.0) == {}
    assert engine.wake_at_s() <= LONGEST_S
    assert states(engine, LONGEST_S) == {
        "default/a": GangState.UNSCHEDULABLE,
        "default/b": GangState.GATHERING,
    }
    assert not engine.queues.admissions.gangs.of(a_job("a").key, has_pods=False)[0]


def test_an_admission_that_was_revoked_comes_again_later_and_later() -> None:
    engine = an_engine_with(QUEUE)
    engine.handle(events.GangSeen(a_job("a")), now=0.0)
    changes = []
    for second in range(0, 4 * 3600, 10):
        changes += [(second, state) for state in states(engine, float(second)).values()]
    admitted = [second for second, state in changes if state is GangState.GATHERING]
    assert [second for second, state in changes if state is GangState.UNSCHEDULABLE] == [
        second + LONGEST_S for second in admitted
    ], "each is revoked after the same time"
    pauses = [b - a - LONGEST_S for a, b in pairwise(admitted)]
    assert pauses == pytest.approx([300, 600, 1200, 2400, 3600, 3600], abs=10)


def test_pods_end_the_wait_for_pods() -> None:
    engine = an_engine_with(QUEUE)
    job = a_job("a")
    engine.handle(events.GangSeen(job), now=0.0)
    states(engine, 5.0)
    pods = [a_pod(f"a-{n}", gpus=1, gang=Membership(job.key)) for n in range(3)]
    see(engine, *pods, now=LONGEST_S - 1.0)
    assert GangState.UNSCHEDULABLE not in states(engine, LONGEST_S + 10.0).values()
    for pod in pods:  # its controller starts it once more
        engine.handle(events.PodGone(pod), now=LONGEST_S + 20.0)
    assert GangState.UNSCHEDULABLE not in states(engine, LONGEST_S + 30.0).values()
    assert states(engine, 2 * LONGEST_S + 30.0) == {"default/a": GangState.UNSCHEDULABLE}


def test_a_job_that_has_run_is_neither_charged_nor_refused_after_a_restart() -> None:
    engine = an_engine_with(QUEUE)
    engine.handle(events.GangSeen(replace(a_job("done"), has_run=True)), now=0.0)
    engine.handle(events.GangSeen(a_job("b")), now=0.0)
    assert states(engine, 5.0)["default/b"] is GangState.GATHERING
    assert states(engine, 2 * LONGEST_S) == {"default/b": GangState.UNSCHEDULABLE}


# -- an admitted job without pods holds back one of higher priority that has them ---------------


def test_units_with_pods_pass_an_admission_without_pods() -> None:
    engine = an_engine_with(QUEUE)
    engine.handle(events.GangSeen(a_job("low")), now=0.0)
    assert states(engine, 5.0) == {"default/low": GangState.GATHERING}
    high = GangSpec("volcano/default/high", 8, queue=QUEUE.key)
    engine.handle(events.GangSeen(high), now=6.0)
    pods = [a_pod(f"h-{n}", gpus=1, priority=9, gang=Membership(high.key)) for n in range(8)]
    see(engine, *pods, now=6.0)
    made = decide(engine, now=6.0)
    assert not [each for each in made if isinstance(each, Bind)], "its pods may come in a moment"
    assert engine.wake_at_s() <= FIRM_S
    engine.handle(events.GangSeen(a_job("other")), now=FIRM_S)
    engine.tend(now=FIRM_S)
    assert len([each for each in decide(engine, now=FIRM_S) if isinstance(each, Bind)]) == 8
    assert "default/other" not in [
        name for name, state in states(engine, FIRM_S + 5.0).items() if state is GangState.GATHERING
    ], "one that has no pods either does not pass it"


def test_an_admission_whose_pods_are_being_created_is_not_passed() -> None:
    engine = an_engine_with(QUEUE)
    job = a_job("slow")
    engine.handle(events.GangSeen(job), now=0.0)
    states(engine, 5.0)
    see(engine, *(a_pod(f"s-{n}", gpus=1, gang=Membership(job.key)) for n in range(4)), now=6.0)
    see(engine, a_pod("single", gpus=1, queue=QUEUE.key), now=6.0)
    engine.tend(now=FIRM_S + 1.0)
    assert not [each for each in decide(engine, now=FIRM_S + 1.0) if isinstance(each, Bind)]
    engine.tend(now=LONGEST_S)
    (bind,) = [each for each in decide(engine, now=LONGEST_S + 1.0) if isinstance(each, Bind)]
    assert bind.pod.name == "single"


def test_an_admission_of_a_job_that_is_deleted_charges_nothing() -> None:
    engine = an_engine_with(QUEUE)
    engine.handle(events.GangSeen(a_job("a")), now=0.0)
    engine.handle(events.GangSeen(a_job("b")), now=0.0)
    states(engine, 5.0)
    engine.handle(events.GangGone(a_job("a").key), now=6.0)
    assert states(engine, 8.0) == {"default/b": GangState.GATHERING}
    engine.handle(events.GangGone(a_job("b").key), now=9.0)
    assert not engine.queues.admissions.gangs.sums.of(QUEUE.key)


def test_a_job_is_counted_once_when_its_pods_come() -> None:
    engine = an_engine_with(QUEUE)
    job = a_job("a", gpus=4)
    engine.handle(events.GangSeen(job), now=0.0)
    assert states(engine, 5.0) == {"default/a": GangState.GATHERING}
    see(engine, *(a_pod(f"a-{n}", gpus=1, gang=Membership(job.key)) for n in range(4)), now=6.0)
    binds = [each for each in decide(engine, now=6.0) if isinstance(each, Bind)]
    assert len(binds) == 4, "its own admission does not hold it back"
    for bind in binds:
        engine.handle(events.BindDone(bind.pod.uid), now=7.0)
    engine.tend(now=8.0)
    assert used(engine, QUEUE.key) == 4000
    assert not engine.queues.admissions.gangs
    engine.handle(events.GangSeen(a_job("b", gpus=4)), now=9.0)
    assert states(engine, 12.0)["default/b"] is GangState.GATHERING


# -- pending although there is room: only resources that are listed limit -----------------------


def test_resources_that_the_limit_does_not_list_hold_no_pod_back() -> None:
    limit = (("cpu", 8000), ("memory", 1 << 34))
    engine = an_engine_with(QueueSpec("volcano/q", limit=limit))
    more = {"hugepages-2Mi": 0, "memory": 1 << 30}
    pods = [a_pod(f"p{n}", cpu=3000, gpus=8, queue="volcano/q", resources=more) for n in range(3)]
    see(engine, *pods)
    made = decide(engine)
    assert len([each for each in made if isinstance(each, Bind)]) == 2
    (failure,) = [each for each in made if isinstance(each, AnnounceFailure)]
    assert failure.reason == "QueueLimit"
    assert failure.message == "queue q has a limit of 8 cpu: 6 used, 3 requested"


# -- counted twice, or past the limit -----------------------------------------------------------


@pytest.mark.parametrize("end", ["finishes", "is deleted", "fails to bind"])
def test_what_ends_is_counted_no_longer(end: str) -> None:
    engine = an_engine_with(replace(QUEUE, limit=((GPUS, 1000),)))
    pods = [a_pod(f"p{n}", gpus=1, queue=QUEUE.key) for n in range(3)]
    see(engine, *pods)
    now = 0.0
    for count in range(len(pods)):
        (bind,) = [each for each in decide(engine, now=now) if isinstance(each, Bind)]
        assert used(engine, QUEUE.key) == 1000, f"after {count}"
        now += 20.0
        _end(engine, bind.pod, end, now)
        assert used(engine, QUEUE.key) == 0
        if end == "fails to bind":
            engine.handle(events.PodGone(bind.pod), now=now)


def _end(engine: Engine, pod: Pod, how: str, now: float) -> None:
    if how == "fails to bind":
        engine.handle(events.BindFailed(pod.uid, events.BindProblem.DENIED, "no"), now=now)
        return
    engine.handle(events.BindDone(pod.uid), now=now)
    see(engine, replace(pod, node="n1"), now=now)
    if how == "finishes":
        see(engine, replace(pod, node="n1", finished=True), now=now)
    else:
        engine.handle(events.PodGone(replace(pod, node="n1")), now=now)


def test_a_limit_below_what_is_used_ends_no_pod() -> None:
    engine = an_engine_with(QUEUE)
    pods = [a_pod(f"p{n}", gpus=1, queue=QUEUE.key) for n in range(8)]
    see(engine, *pods)
    assert len([each for each in decide(engine) if isinstance(each, Bind)]) == 8
    engine.handle(events.QueueSeen(replace(QUEUE, limit=((GPUS, 2000),))), now=1.0)
    see(engine, a_pod("more", gpus=1, queue=QUEUE.key), now=1.0)
    made = decide(engine, now=1.0)
    assert [each.message for each in made if isinstance(each, AnnounceFailure)] == [
        "queue q has a limit of 2 nvidia.com/gpu: 8 used, 1 requested"
    ]
    assert not [each for each in made if not isinstance(each, AnnounceFailure)]


def test_a_gang_above_its_minimum_gets_what_the_limit_leaves() -> None:
    engine = an_engine_with(replace(QUEUE, limit=((GPUS, 6000),)))
    key = "volcano/default/elastic"
    engine.handle(events.GangSeen(GangSpec(key, 4, queue=QUEUE.key)), now=0.0)
    see(engine, *(a_pod(f"e-{n}", gpus=1, gang=Membership(key)) for n in range(8)))
    assert len([each for each in decide(engine) if isinstance(each, Bind)]) == 6
    assert used(engine, QUEUE.key) == 6000


# -- what is guaranteed and not lent stays free, in use or not ---------------------------------


def _keeping() -> Engine:
    keeps = QueueSpec("volcano/a", guaranteed=((GPUS, 4000),), not_lent=((GPUS, 4000),))
    return an_engine_with(keeps, QueueSpec("volcano/b"), gpus=8)


def _bound(engine: Engine, now: float) -> list[str]:
    made = [each for each in decide(engine, now=now) if isinstance(each, Bind)]
    for each in made:
        engine.handle(events.BindDone(each.pod.uid), now=now)
    return [each.pod.name for each in made]


def test_what_is_kept_for_one_queue_is_not_used_by_another() -> None:
    engine = _keeping()
    see(engine, *(a_pod(f"b-{n}", gpus=1, queue="volcano/b") for n in range(5)))
    made = decide(engine)
    assert len([each for each in made if isinstance(each, Bind)]) == 4
    (failure,) = [each for each in made if isinstance(each, AnnounceFailure)]
    assert failure.reason == "QueueGuarantee"
    assert failure.message == (
        "queue b may use at most 4 nvidia.com/gpu, because 4 are kept for other queues: "
        "4 used, 1 requested"
    )
    see(engine, a_pod("late", gpus=4, queue="volcano/a"), now=1.0)
    assert _bound(engine, 1.0) == ["late"], "it needs no reclaim"


def test_what_wakes_a_unit_for_which_nothing_is_left() -> None:
    engine = _keeping()
    see(engine, *(a_pod(f"b-{n}", gpus=4, queue="volcano/b") for n in range(4)))
    assert len(_bound(engine, 0.0)) == 1
    engine.handle(events.NodeSeen(a_node("n2", gpus=4)), now=5.0)
    engine.tend(now=5.0)
    assert len(_bound(engine, 5.0)) == 1, "there are more GPUs"
    less = QueueSpec("volcano/a", guaranteed=((GPUS, 4000),))
    engine.handle(events.QueueSeen(less), now=10.0)
    engine.tend(now=10.0)
    assert len(_bound(engine, 10.0)) == 1, "nothing is kept any more"


def test_a_queue_that_keeps_may_borrow_and_gives_back_what_it_borrowed() -> None:
    engine = _keeping()
    see(engine, *(a_pod(f"a-{n}", gpus=1, queue="volcano/a") for n in range(8)))
    assert len(_bound(engine, 0.0)) == 8
    within, beyond = (a_pod(f"b-{gpus}", gpus=gpus, queue="volcano/b") for gpus in (4, 5))
    see(engine, within, beyond, now=1.0)
    assert engine.queues.why(within) is None, "it may reclaim"
    refusal = engine.queues.why(beyond)
    assert refusal is not None
    assert refusal.reason == "QueueGuarantee"
