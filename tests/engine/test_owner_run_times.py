"""What Jobs declare counts for their pods, from the moment that it counts from."""

import json
from dataclasses import replace

import msgspec
import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine import events, owner_run_times
from fairlead.kube.gangs.coscheduling import Coscheduling
from fairlead.kube.gangs.registry import decode_object
from fairlead.kube.owner_kinds import owner_paths
from fairlead.kube.owner_run_times import OwnerSaid, read_owner, run_time_of_chain
from fairlead.model.gangs import Membership
from fairlead.model.run_times import RunEnd, RunTime

JOB_S = 1_800_000_000.0
JOB_STARTED, POD_STARTED = "2027-01-15T08:00:00Z", "2027-01-15T08:10:00Z"
DEADLINE = RunTime(None, 3600.0, "job activeDeadlineSeconds")


def a_job(**fields: object) -> tuple[RunTime | None, str]:
    found = read_owner(json.dumps(fields).encode())
    return found.run_time, found.started


def test_the_deadline_of_a_job_counts_from_its_start() -> None:
    spec, status = {"activeDeadlineSeconds": 3600}, {"startTime": JOB_STARTED}
    assert a_job(spec=spec, status=status) == (DEADLINE, JOB_STARTED)
    engine = an_engine(a_node("n1"))
    engine.wall_offset_s = JOB_S
    engine.handle(events.OwnerRunTimeSeen("default/Job/train", DEADLINE, JOB_STARTED), now=0.0)
    waiting = a_pod("p", controller="Job/train")
    assert engine.run_times.of_pod(waiting) == DEADLINE
    running = replace(waiting, node="n1", started=POD_STARTED)
    engine.handle(events.PodSeen(running), now=600.0)
    end = engine.run_times.end_s(running.uid, now=600.0)
    assert end == RunEnd(2100.0, 3600.0, 3600.0, bounded=True)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("1h30m0s", RunTime(5400.0, None, "Volcano runningEstimate")),
        ("90s", RunTime(90.0, None, "Volcano runningEstimate")),
        ("0s", None),
        ("-1h", None),
        ("soon", None),
        ("876000h0m0s", None),
    ],
)
def test_what_a_job_of_volcano_is_estimated_to_take_is_an_estimate(
    word: str, expected: RunTime | None
) -> None:
    found, started = a_job(spec={"runningEstimate": word})
    assert found is not None
    assert started == ""
    if expected is None:
        assert found.estimate_s is None
        assert f"Volcano runningEstimate is {word!r} and is ignored" in found.problem
    else:
        assert found == expected


def test_an_annotation_counts_before_the_estimate_of_volcano() -> None:
    said = {"annotations": {"fairlead.dev/run-time": "10m"}}
    found, _ = a_job(metadata=said, spec={"runningEstimate": "2h"})
    assert found == RunTime(600.0, None, "annotation")


def test_a_job_of_volcano_is_looked_for_after_one_of_kubernetes() -> None:
    assert owner_paths("team", "Job", "train") == [
        "/apis/batch/v1/namespaces/team/jobs/train",
        "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/train",
    ]


def test_a_job_that_is_resumed_has_its_whole_deadline_again() -> None:
    engine = an_engine(a_node("n1"))
    for started in (JOB_STARTED, POD_STARTED):
        engine.handle(events.OwnerRunTimeSeen("default/Job/train", DEADLINE, started), now=0.0)
    pod = a_pod("p", controller="Job/train", started=POD_STARTED)
    assert engine.run_times.of_pod(pod) == DEADLINE


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (RunTime(60.0, None, "annotation"),
         RunTime(60.0, 3600.0, "annotation and job activeDeadlineSeconds")),
        (RunTime(None, 600.0, "pod activeDeadlineSeconds"),
         RunTime(None, 600.0, "pod activeDeadlineSeconds")),
        (RunTime(None, 7200.0, "pod activeDeadlineSeconds"), DEADLINE),
        (RunTime(None, 600.0, "time limit", enforced=False), DEADLINE),
    ],
)  # fmt: skip
def test_what_a_pod_declares_counts_before_what_its_job_does(
    said: RunTime, expected: RunTime
) -> None:
    engine = an_engine()
    engine.handle(events.OwnerRunTimeSeen("default/Job/train", DEADLINE), now=0.0)
    assert engine.run_times.of_pod(a_pod("p", controller="Job/train", run_time=said)) == expected
    other = a_pod("p", controller="Job/other", run_time=said)
    assert engine.run_times.of_pod(other) == said


def test_a_job_may_have_the_annotations_and_the_label_of_a_pod() -> None:
    words = {"annotations": {"fairlead.dev/run-time": "2h"}}
    assert a_job(metadata=words) == (RunTime(7200.0, None, "annotation"), "")
    words = {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "600"}}
    assert a_job(metadata=words) == (RunTime(None, 600.0, "kueue"), "")
    assert a_job(metadata={}) == (None, "")
    with pytest.raises(msgspec.MsgspecError):
        a_job(spec={"activeDeadlineSeconds": "soon"})


def test_an_estimate_of_a_job_is_that_of_its_pods() -> None:
    engine = an_engine()
    said = RunTime(7200.0, None, "annotation")
    engine.handle(events.OwnerRunTimeSeen("default/Job/train", said), now=0.0)
    pod = a_pod("p", controller="Job/train")
    assert engine.run_times.of_pod(pod) == said
    engine.handle(events.OwnerRunTimeSeen("default/Job/train", None), now=0.0)
    assert engine.run_times.of_pod(pod) is None


def test_what_jobs_declare_is_bounded() -> None:
    engine = an_engine()
    for number in range(5000):
        engine.handle(events.OwnerRunTimeSeen(f"default/Job/{number}", DEADLINE), now=0.0)
    assert len(engine.run_times.owners._owners) == owner_run_times.MOST_OWNERS


# -- controllers of controllers ------------------------------------------------------------------

RAY_JOB = {"spec": {"activeDeadlineSeconds": 1800}, "status": {"startTime": JOB_STARTED}}


def said(kind: str, **fields: object) -> OwnerSaid:
    return read_owner(json.dumps(fields).encode(), kind)


def test_deadlines_of_kubeflows_jobs_are_in_their_run_policy() -> None:
    spec = {"runPolicy": {"activeDeadlineSeconds": 7200}}
    found = said("PyTorchJob", spec=spec, status={"startTime": JOB_STARTED})
    assert found.run_time == RunTime(None, 7200.0, "PyTorchJob activeDeadlineSeconds")
    assert found.started == JOB_STARTED


def test_the_controller_of_a_controller_is_named() -> None:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "controller": True}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    found = said("RayCluster", metadata={"ownerReferences": [other, owner]}, spec={})
    assert found == OwnerSaid(None, "", ("RayJob", "train"))


def test_of_a_chain_the_bound_that_ends_first_counts_from_its_own_start() -> None:
    job = said("Job", spec={"activeDeadlineSeconds": 3600}, status={"startTime": POD_STARTED})
    ray = said("RayJob", **RAY_JOB)
    expected = RunTime(None, 1800.0, "RayJob activeDeadlineSeconds")
    assert run_time_of_chain([job, ray]) == (expected, JOB_STARTED)
    late = said("Job", spec={"activeDeadlineSeconds": 60}, status={"startTime": POD_STARTED})
    assert run_time_of_chain([late, ray])[1] == POD_STARTED
    assert run_time_of_chain([said("RayCluster", spec={}), ray]) == (expected, JOB_STARTED)


def test_the_nearest_estimate_of_a_chain_counts() -> None:
    near, far = (
        said(kind, metadata={"annotations": {"fairlead.dev/run-time": word}})
        for kind, word in (("Job", "10m"), ("TrainJob", "2h"))
    )
    assert run_time_of_chain([near, far])[0] == RunTime(600.0, None, "annotation")
    assert run_time_of_chain([]) == (None, "")


@pytest.mark.parametrize("deadline", [0, -5])
def test_a_deadline_that_is_none_is_ignored(deadline: int) -> None:
    assert said("MPIJob", spec={"runPolicy": {"activeDeadlineSeconds": deadline}}).run_time is None


def test_what_the_object_of_a_gang_declares_counts_for_its_pods() -> None:
    words = {"fairlead.dev/run-time": "20m"}
    meta = {"name": "train", "namespace": "default", "annotations": words}
    raw = json.dumps({"metadata": meta, "spec": {"minMember": 2}}).encode()
    spec = decode_object(Coscheduling(), raw).spec
    assert spec.run_time == RunTime(1200.0, None, "annotation")
    engine = an_engine()
    engine.handle(events.GangSeen(spec), now=0.0)
    member = a_pod("p", gang=Membership(spec.key))
    assert engine.run_times.of_pod(member) == spec.run_time
    own = replace(member, run_time=RunTime(60.0, None, "annotation"))
    assert engine.run_times.of_pod(own) == own.run_time
