"""Pods with volumes in the engine: what is asked for, in which order, and what is given back."""

from typing import Any

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, AnnounceScheduled, Bind, Prepare
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.pods import NodeTerm, Pod
from fairlead.model.selectors import Requirement
from fairlead.model.storage import StorageClass, Volume, VolumeClaim, VolumePlan
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.plugins.prepare import failure_of
from fairlead.plugins.volume_step import VolumeStep
from fairlead.queue.entries import Pool

HOST = "kubernetes.io/hostname"


def on(node: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(HOST, "In", (node,)),)),)


def a_claim(name: str = "data", **more: Any) -> VolumeClaim:
    return VolumeClaim(
        "default", name, **{"uid": f"u-{name}", "storage_class": "waits", "size_bytes": 1, **more}
    )


def a_volume(name: str = "disk", node: str = "n2", **more: Any) -> Volume:
    given = {"storage_class": "waits", "capacity_bytes": 1, "phase": "Available", **more}
    return Volume(name, node_terms=on(node), **given)


def a_user(name: str = "user", claim: str = "data", **more: Any) -> Pod:
    return a_pod(name, volumes=PodVolumes((VolumeClaimUse(f"default/{claim}"),)), **more)


def engine_with(*storage: Any) -> Engine:
    engine = an_engine(*(a_node(name, labels={HOST: name}) for name in ("n1", "n2")))
    tell(engine, *storage)
    return engine


def planned(asked: Prepare) -> VolumePlan:
    (step,) = asked.steps
    assert isinstance(step, VolumeStep)
    return step.plan


def failed(pod: Pod, message: str) -> events.PrepareFailed:
    return events.PrepareFailed(pod.uid, failure_of(VolumeStep(VolumePlan()), message))


def tell(engine: Engine, *storage: Any) -> None:
    for told in storage:
        engine.handle(events.StorageSeen(told), now=0.0)


WAITS = StorageClass("waits", waits=True)
MAKES = StorageClass("waits", waits=True, provisioner="csi")


def test_volumes_are_bound_before_the_pod() -> None:
    engine = engine_with(WAITS, a_claim(), a_volume())
    pod = a_user()
    see(engine, pod)

    (asked,) = decide(engine)
    assert isinstance(asked, Prepare)
    assert (asked.pod, asked.node) == (pod, "n2")
    assert planned(asked).bindings == ((a_claim(), a_volume()),)

    tell(engine, a_claim(volume="disk", bind_completed=True))
    tell(engine, a_volume(claim="default/data", claim_uid="u-data", phase="Bound"))
    assert engine.handle(events.Prepared(pod.uid), now=1.0) == [Bind(pod, "n2")]
    (told,) = engine.handle(events.BindDone(pod.uid), now=2.0)
    assert isinstance(told, AnnounceScheduled)


@pytest.mark.parametrize("dialect", ["gpushare", "fairlead"])
@pytest.mark.parametrize(
    "left",
    [
        pytest.param(None, id="no GPU is listed"),
        pytest.param((), id="the GPU is gone"),
        pytest.param((Gpu("1", 1, "T4", 16_000),), id="another GPU is there"),
        pytest.param((Gpu("0", 0, "T4", 16_000, healthy=False),), id="it is not healthy"),
    ],
)
def test_a_gpu_that_is_lost_while_volumes_are_bound_is_not_assigned(
    dialect: str, left: tuple[Gpu, ...] | None
) -> None:
    """Its number could not be told to a device plugin, and the pod would wait for ever."""
    engine = engine_with(WAITS, a_claim(), a_volume())
    spoken = frozenset({dialect})
    had = Inventory((Gpu("0", 0, "T4", 16_000),), dialects=spoken)
    engine.handle(events.NodeSeen(a_node("n2", labels={HOST: "n2"}, inventory=had)), now=0.0)
    pod = a_user(gpu_request=GpuRequest(1, whole=False, milli=0, memory_mib=4096, dialect=dialect))
    see(engine, pod)
    (asked,) = decide(engine)
    assert isinstance(asked, Prepare)

    others = Gpu("7", 7, "T4", 1, healthy=False)
    rest = None if left is None else Inventory((*left, others), dialects=spoken)
    engine.handle(events.NodeSeen(a_node("n2", labels={HOST: "n2"}, inventory=rest)), now=0.5)
    (told,) = engine.handle(events.Prepared(pod.uid), now=1.0)

    assert isinstance(told, AnnounceFailure)
    assert told.message == "GPU 0 was lost on n2 while volumes were bound"
    assert pod.uid not in engine.cluster.holdings
    assert engine.queue.counts()[Pool.BACKOFF] == 1, "it is tried again"


def test_a_pod_with_bound_claims_is_bound_at_once() -> None:
    engine = engine_with(a_claim(volume="disk", bind_completed=True), a_volume())
    pod = a_user()
    see(engine, pod)

    assert decide(engine) == [Bind(pod, "n2")]


def test_two_pods_never_count_on_one_volume() -> None:
    engine = engine_with(WAITS, a_claim(), a_claim("more"), a_volume())
    see(engine, a_user(), a_user("second", "more"))

    first, second = decide(engine)
    assert isinstance(first, Prepare)
    assert isinstance(second, AnnounceFailure)
    assert "2 node(s) didn't find available persistent volumes to bind" in second.message


def test_a_failure_gives_everything_back_and_is_tried_again() -> None:
    engine = engine_with(WAITS, a_claim(), a_claim("more"), a_volume())
    pod, second = a_user(), a_user("second", "more")
    see(engine, pod, second)
    decide(engine)

    (told,) = engine.handle(failed(pod, "somebody was faster"), now=1.0)

    assert told == AnnounceFailure(
        pod,
        "SchedulerError",
        'running PreBind plugin "VolumeBinding": somebody was faster',
        nominated="",
    )
    assert pod.uid not in engine.cluster.holdings
    # The volume is free again: the pod that waited for it goes first, since it does not back off.
    assert [step.pod for step in decide(engine, now=3.0) if isinstance(step, Prepare)] == [second]
    assert engine.queue.counts()[Pool.WAITING] + engine.queue.counts()[Pool.BACKOFF] == 1


def test_a_volume_made_in_the_wrong_place_is_found_out_before_the_bind() -> None:
    engine = engine_with(MAKES, a_claim())
    pod = a_user(node_selector=((HOST, "n1"),))
    see(engine, pod)
    (asked,) = decide(engine)
    assert isinstance(asked, Prepare)
    assert planned(asked).provisions == (a_claim(),)

    tell(engine, a_volume("made", node="n2"), a_claim(volume="made", bind_completed=True))
    (told,) = engine.handle(events.Prepared(pod.uid), now=1.0)

    assert told.message == (
        'running PreBind plugin "VolumeBinding": binding volumes: pv "made" node affinity '
        'doesn\'t match node "n1": no matching NodeSelectorTerms'
    )


@pytest.mark.parametrize("answer", [events.Prepared, lambda uid: events.PrepareFailed(uid, "")])
def test_a_pod_that_goes_meanwhile_leaves_nothing_behind(answer: Any) -> None:
    engine = engine_with(WAITS, a_claim(), a_claim("more"), a_volume())
    pod = a_user()
    see(engine, pod)
    decide(engine)
    engine.handle(events.PodGone(pod), now=1.0)

    assert engine.handle(answer(pod.uid), now=2.0) == []
    assert engine.handle(answer(pod.uid), now=2.0) == [], "a second answer is no answer"

    second = a_user("second", "more")
    see(engine, second)
    (asked,) = decide(engine, now=3.0)
    assert isinstance(asked, Prepare)


def test_a_pod_waits_until_its_claim_is_there_and_then_goes() -> None:
    engine = engine_with()
    pod = a_user()
    see(engine, pod)
    (refused,) = decide(engine)
    assert refused.message == (
        '0/2 nodes are available: persistentvolumeclaim "data" not found. not found'
    )
    tell(engine, a_claim("other", volume="disk", bind_completed=True))
    assert decide(engine, now=2.0) == [], "somebody else's claim wakes nobody"

    tell(engine, a_volume(), a_claim(volume="disk", bind_completed=True))

    assert decide(engine, now=3.0) == [Bind(pod, "n2")]


def test_other_pods_are_not_touched_by_storage_without_sense() -> None:
    engine = engine_with(
        a_claim(storage_class="gone"), a_volume(capacity_bytes=-1), StorageClass("odd", waits=True)
    )
    plain, strange = a_pod("plain"), a_user("strange")
    see(engine, strange, plain)

    refused, bound = decide(engine)
    assert "pod has unbound immediate PersistentVolumeClaims" in refused.message
    assert isinstance(bound, Bind)


def test_a_change_of_storage_recomputes_nothing_for_pods_without_volumes(monkeypatch) -> None:
    from fairlead.placement.views import View

    engine = engine_with()
    see(engine, a_pod("first", gpus=1))
    decide(engine)
    asked: list[object] = []
    monkeypatch.setattr(View, "_update", lambda *args: asked.append(args))
    monkeypatch.setattr(View, "_sum_up", lambda *args: asked.append(args))
    tell(engine, WAITS, a_claim(), a_volume())
    view = engine._parts.placements["gpu-scheduler"].view(a_pod("second", gpus=1))

    # Only the placement itself is followed: storage costs no look at any row.
    assert len(asked) == 1, asked
    assert view.left.any()
