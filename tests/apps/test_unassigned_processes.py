"""Which processes may use a GPU, which are reported, and which GPUs are withheld."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_pod
from fairlead.apps.agent.node_pods import pods_by_uid
from fairlead.apps.agent.unassigned_processes import (
    REPEAT_S,
    NodePod,
    ObservedProcess,
    ProcessCheck,
    ProcessMonitor,
)
from fairlead.apps.agent.unassigned_processes import (
    UnassignedKind as Kind,
)
from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import GpuRequest, GpuUse, Grant
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import Cut, GpuFacts, GpuProcess
from fairlead.telemetry.processes import Owner

A, B = GpuFacts(0, "GPU-a"), GpuFacts(1, "GPU-b")
CUT = GpuFacts(2, "GPU-c", mig=True, mig_on=True, cuts=(Cut("7g.141gb", 8, (0,)),))
GPUS = (A, B, CUT)
GRACE_S = 30.0


def seen(pid: int, gpu: GpuFacts = A, pod: str = "", **more: object) -> ObservedProcess:
    owner = Owner(str(more.pop("command", "python")), tuple(pod.split()))
    return ObservedProcess(gpu.uuid, str(gpu.index), GpuProcess(pid, 1 << 30, **more), owner)


def given_gpus(*uses: GpuUse, **more: object) -> Pod:
    ask, grant = (GpuRequest(len(uses)), Grant(uses)) if uses else (None, None)
    return a_pod("p", node="n", gpu_request=ask, grant=grant, **more)


def checked(
    *observed: ObservedProcess, pods: tuple[Pod, ...] = (), at: tuple[float, ...] = (0, 60)
) -> ProcessCheck:
    monitor = ProcessMonitor(grace_s=GRACE_S, trusted=frozenset({"kube-system"}))
    monitor.check((), {}, 0)
    residents = pods_by_uid(pods, GPUS)
    return [monitor.check(observed, residents, now) for now in at][-1]


def kinds(check: ProcessCheck) -> list[Kind]:
    return [process.kind for process in check.unassigned]


def test_a_pod_on_its_own_gpu_is_assigned() -> None:
    pod = given_gpus(GpuUse("GPU-a"))
    assert checked(seen(1, A, pod.uid), pods=(pod,)) == ProcessCheck()


def test_a_pod_on_another_gpu_is_reported_and_the_gpu_stays_free() -> None:
    """Otherwise a pod could make the GPUs of other pods unavailable."""
    pod = given_gpus(GpuUse("GPU-a"))
    check = checked(seen(1, B, pod.uid), pods=(pod,))
    assert kinds(check) == [Kind.UNASSIGNED]
    assert [pod.uid for pod in check.unassigned[0].pods] == [pod.uid]
    assert check.withheld == {}


def test_a_pod_may_use_the_gpus_that_the_kubelet_says_its_plugin_chose() -> None:
    counted = given_gpus(GpuUse(""))
    monitor = ProcessMonitor(grace_s=0.0)

    def found(*devices: str) -> list[Kind]:
        picked = {counted.uid: frozenset(devices)}
        pods = pods_by_uid([counted], GPUS, picked)
        observed = [seen(1, A, counted.uid), seen(2, B, counted.uid)]
        return kinds(monitor.check(observed, pods, 0.0))

    assert found("GPU-a") == [Kind.UNASSIGNED]
    assert found("GPU-a", "GPU-b") == []
    assert found("MIG-of-some-gpu") == [], "what is no GPU of ours says nothing about the others"
    assert found() == [], "unknown"


def test_a_pod_that_asked_for_no_gpu_belongs_on_none() -> None:
    pod = given_gpus()
    assert kinds(checked(seen(1, A, pod.uid), pods=(pod,))) == [Kind.UNASSIGNED]


def test_a_pod_whose_gpus_the_device_plugin_chose_is_never_unassigned() -> None:
    counted = given_gpus(GpuUse(""))
    unsaid = replace(given_gpus(GpuUse("")), grant=None)
    for pod in (counted, unsaid):
        assert checked(seen(1, B, pod.uid), pods=(pod,)) == ProcessCheck()


def test_a_gpu_that_is_named_by_its_index_is_found() -> None:
    pod = given_gpus(GpuUse("1"))
    assert kinds(checked(seen(1, B, pod.uid), pods=(pod,))) == []
    assert kinds(checked(seen(1, A, pod.uid), pods=(pod,))) == [Kind.UNASSIGNED]


def test_a_slice_is_for_its_pod_alone() -> None:
    """A 3g at 4 is GPU instance 2."""
    pod = given_gpus(GpuUse("GPU-c", False, 0, 0, "3g.71gb", 4, 4))
    assert kinds(checked(seen(1, CUT, pod.uid, instance=2), pods=(pod,))) == []
    assert kinds(checked(seen(1, CUT, pod.uid, instance=1), pods=(pod,))) == [Kind.UNASSIGNED]


def test_a_pod_of_a_trusted_namespace_may_be_anywhere() -> None:
    pod = replace(a_pod("monitor", node="n"), namespace="kube-system")
    assert checked(seen(1, A, pod.uid), pods=(pod,)) == ProcessCheck()


def test_what_a_pod_left_behind_keeps_its_gpu_at_once() -> None:
    """Its GPU is given away as soon as the pod is gone, so there is no time to lose."""
    check = checked(seen(7, A, "6a0c2f1e-1111-4222-8333-0123456789ab"), at=(0,))
    assert check.unassigned == ()
    assert check.withheld == {"GPU-a": "not empty: process 7 (python) of a pod that is gone"}


def test_so_does_what_a_finished_pod_left_behind() -> None:
    pod = given_gpus(GpuUse("GPU-a"), finished=True)
    check = checked(seen(7, A, pod.uid), pods=(pod,))
    assert kinds(check) == [Kind.LEFT_BEHIND]
    assert "GPU-a" in check.withheld


def test_a_pod_that_is_being_deleted_still_has_its_gpus() -> None:
    pod = given_gpus(GpuUse("GPU-a"), deleting=True)
    assert checked(seen(7, A, pod.uid), pods=(pod,)) == ProcessCheck()


def test_a_process_of_no_pod_gets_its_grace() -> None:
    assert checked(seen(7), at=(0, GRACE_S - 1)) == ProcessCheck()
    check = checked(seen(7), at=(0, GRACE_S))
    assert kinds(check) == [Kind.OF_NO_POD]
    assert list(check.withheld) == ["GPU-a"]


def test_who_was_there_before_the_agent_has_had_his_grace() -> None:
    """Else a restart of the agent would give away a GPU that is not empty."""
    monitor = ProcessMonitor(grace_s=GRACE_S)
    assert list(monitor.check([seen(7)], {}, 0).withheld) == ["GPU-a"]
    assert list(monitor.check([seen(7), seen(8, B)], {}, 5).withheld) == ["GPU-a"]


def test_the_same_process_is_named_in_whatever_order_they_come() -> None:
    monitor = ProcessMonitor(grace_s=0)
    texts = [
        monitor.check(each, {}, 0).withheld for each in ([seen(7), seen(8)], [seen(8), seen(7)])
    ]
    assert texts == [{"GPU-a": "not empty: process 7 (python) of no pod"}] * 2


def test_who_only_reports_withholds_nothing() -> None:
    check = ProcessMonitor(grace_s=0, withhold=False).check([seen(7)], {}, 0)
    assert kinds(check) == [Kind.OF_NO_POD]
    assert check.withheld == {}


def test_the_server_of_mps_is_of_no_pod_and_allowed() -> None:
    assert checked(seen(7, command="nvidia-cuda-mps")) == ProcessCheck()
    in_a_pod = seen(7, pod="6a0c2f1e-1111-4222-8333-0123456789ab", command="nvidia-cuda-mps")
    assert kinds(checked(in_a_pod)) == [Kind.LEFT_BEHIND]


def test_an_x_server_keeps_nobody_from_the_gpu() -> None:
    assert checked(seen(7, draws=True)) == ProcessCheck()
    in_a_pod = seen(7, pod="6a0c2f1e-1111-4222-8333-0123456789ab", draws=True)
    assert kinds(checked(in_a_pod)) == [Kind.LEFT_BEHIND]


def test_an_unassigned_process_is_reported_once_and_again_after_an_hour() -> None:
    monitor = ProcessMonitor(grace_s=0)
    times = (0.0, 5.0, REPEAT_S - 1, REPEAT_S, REPEAT_S + 5)
    assert [len(monitor.check([seen(7)], {}, now).to_report) for now in times] == [1, 0, 0, 1, 0]


def test_who_comes_and_goes_all_the_time_is_not_news_each_time() -> None:
    monitor = ProcessMonitor(grace_s=0)
    monitor.check([seen(7)], {}, 0)
    assert monitor.check([], {}, 5) == ProcessCheck()
    assert monitor.check([seen(7)], {}, 10).to_report == ()
    assert len(monitor.check([seen(8)], {}, 10).to_report) == 1


HASH = "0123456789abcdef0123456789abcdef"
VICTIM = "6a0c2f1e-1111-4222-8333-0123456789ab"


def mirror_of(digest: str) -> dict[str, str]:
    """Annotations as a kubelet writes them on the mirror of a static pod."""
    return {"kubernetes.io/config.hash": digest, "kubernetes.io/config.mirror": digest}


def forged(claimed: str, *uses: GpuUse, **more: object) -> list[Pod]:
    """Each way in which a user can claim to be what has this uid or hash."""
    hashed = {"kubernetes.io/config.hash": claimed}
    ways = (
        hashed,
        mirror_of(claimed),
        {**mirror_of(claimed), "kubernetes.io/config.source": "file"},
    )
    return [given_gpus(*uses, annotations=said, **more) for said in ways]


@pytest.mark.parametrize("way", range(3))
@pytest.mark.parametrize("first", [True, False], ids=["seen first", "seen last"])
@pytest.mark.parametrize("over", [True, False], ids=["ended", "running"])
def test_no_annotation_takes_the_place_of_another_pod(way: int, first: bool, over: bool) -> None:
    """Else its GPU could be withheld, or its processes be reported as those of another pod."""
    victim = given_gpus(GpuUse("GPU-a"), uid=VICTIM)
    forgery = forged(VICTIM, GpuUse("GPU-b"), finished=over)[way]
    pods = (forgery, victim) if first else (victim, forgery)
    assert checked(seen(1, A, VICTIM), pods=pods) == ProcessCheck()
    check = checked(seen(1, B, VICTIM), pods=pods)
    assert kinds(check) == [Kind.UNASSIGNED]
    assert [pod.uid for pod in check.unassigned[0].pods] == [VICTIM]


@pytest.mark.parametrize("way", range(3))
def test_no_annotation_gives_the_processes_of_a_pod_the_gpus_of_another(way: int) -> None:
    intruder, helper = given_gpus(uid=VICTIM), forged(VICTIM, GpuUse("GPU-a"))[way]
    check = checked(seen(1, A, VICTIM), pods=(intruder, helper))
    assert kinds(check) == [Kind.UNASSIGNED]
    assert [pod.uid for pod in check.unassigned[0].pods] == [VICTIM]


@pytest.mark.parametrize("way", range(3))
def test_no_annotation_covers_what_a_pod_left_behind(way: int) -> None:
    check = checked(seen(1, A, VICTIM), pods=(forged(VICTIM, GpuUse("GPU-a"))[way],))
    assert kinds(check) == [Kind.LEFT_BEHIND]
    assert list(check.withheld) == ["GPU-a"]


@pytest.mark.parametrize("over", [True, False], ids=["ended", "running"])
@pytest.mark.parametrize("first", [True, False], ids=["seen first", "seen last"])
def test_two_mirrors_of_one_static_pod_withhold_nothing_and_hide_nothing(
    first: bool, over: bool
) -> None:
    static = given_gpus(GpuUse("GPU-a"), annotations=mirror_of(HASH))
    forgery = given_gpus(GpuUse("GPU-b"), annotations=mirror_of(HASH), finished=over)
    pods = (forgery, static) if first else (static, forgery)
    for gpu in (A, B):
        check = checked(seen(1, gpu, HASH), pods=pods)
        assert check.withheld == {}
        if not (over and gpu is A):  # one that has ended claims nothing
            assert kinds(check) == [Kind.UNASSIGNED]
            reported = {pod.uid for pod in check.unassigned[0].pods}
            assert reported == {static.uid, forgery.uid}


def test_a_hash_without_the_mark_of_a_mirror_claims_nothing() -> None:
    pod = given_gpus(GpuUse("GPU-a"), annotations={"kubernetes.io/config.hash": HASH})
    assert kinds(checked(seen(1, A, HASH), pods=(pod,))) == [Kind.LEFT_BEHIND]


def test_a_control_group_inside_a_pod_does_not_make_it_another_pod() -> None:
    victim = given_gpus(GpuUse("GPU-a"), uid=VICTIM)
    intruder = given_gpus()
    check = checked(seen(1, A, f"{intruder.uid} {VICTIM}"), pods=(victim, intruder))
    assert [pod.uid for pod in check.unassigned[0].pods] == [intruder.uid]


def test_in_a_cluster_inside_a_pod_the_pod_of_this_cluster_counts() -> None:
    pod = given_gpus(GpuUse("GPU-a"), uid=VICTIM)
    outer = "00000000-0000-4000-8000-000000000000"
    assert checked(seen(1, A, f"{outer} {VICTIM}"), pods=(pod,)) == ProcessCheck()


@pytest.mark.parametrize("word", ["gpu-share", "gpu-memory"])
def test_to_ask_for_a_share_is_not_to_have_one(word: str) -> None:
    """The scheduler names the GPU with the bind; a pod that came another way was given none."""
    raw = {
        "metadata": {
            "name": "p", "namespace": "d", "uid": "u",
            "annotations": {f"fairlead.dev/{word}": "0.5" if word == "gpu-share" else "1Gi"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]},
    }  # fmt: skip
    pod = decode_pod(json.dumps(raw).encode())
    assert kinds(checked(seen(1, A, "u"), pods=(pod,))) == [Kind.UNASSIGNED]


def test_a_static_pod_is_known_by_the_hash_of_its_manifest() -> None:
    digest = HASH
    pod = given_gpus(GpuUse("GPU-a"), annotations=mirror_of(digest))
    assert checked(seen(1, A, digest), pods=(pod,)) == ProcessCheck()
    assert kinds(checked(seen(1, B, digest), pods=(pod,))) == [Kind.UNASSIGNED]


def test_what_the_scheduler_wrote_with_the_bind_is_what_counts() -> None:
    """The real words, through the real codec."""
    assignment = {"devices": [{"u": "GPU-b", "m": 500, "w": False}], "dialect": "fairlead"}
    raw = {
        "metadata": {
            "name": "p",
            "namespace": "d",
            "uid": "u",
            "annotations": {
                "fairlead.dev/gpu-share": "0.5",
                "fairlead.dev/assignment": json.dumps(assignment),
            },
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]},
    }
    pod = decode_pod(json.dumps(raw).encode())
    assert checked(seen(1, B, "u"), pods=(pod,)) == ProcessCheck()
    assert kinds(checked(seen(1, A, "u"), pods=(pod,))) == [Kind.UNASSIGNED]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(1, 4)), st.integers(0, 2000))))
def test_whatever_comes_and_goes_nothing_is_reported_twice_in_an_hour(
    turns: list[tuple[set[int], int]],
) -> None:
    monitor = ProcessMonitor(grace_s=10)
    now, reported = 0.0, {}
    for pids, passed in turns:
        now += passed
        for process in monitor.check([seen(pid) for pid in pids], {}, now).to_report:
            pid = process.observed.process.pid
            assert now - reported.get(pid, float("-inf")) >= REPEAT_S
            reported[pid] = now


@pytest.mark.parametrize("given", [None, {}, {"GPU-a": None}, {"GPU-a": frozenset({3})}])
def test_what_a_pod_may_use(given: dict[str, frozenset[int] | None] | None) -> None:
    pod = NodePod("d", "p", "u", assigned=given)
    allowed = [pod.may_use("GPU-a", i) for i in (None, 3, 4)]
    expected = {
        str(None): [True] * 3,
        str({}): [False] * 3,
        str({"GPU-a": None}): [True] * 3,
        str({"GPU-a": frozenset({3})}): [True, True, False],
    }
    assert allowed == expected[str(given)]
    assert pod.may_use("GPU-b", None) == (given is None)
