"""Extended resources that devices of a class stand in for, as in kube-scheduler."""

import json
from dataclasses import replace
from typing import Any

from builders import a_node, an_engine, decide, see
from claim_objects import DRIVER, GPU_CLASS, a_claim_user, a_slice
from fairlead.cluster.checking import wrong_nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, FreeClaim, Prepare
from fairlead.kube.codec import decode_pod
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep

MAPPED = replace(GPU_CLASS, extended_resource=GPU)


def gpu_pod(name: str = "p", gpus: int = 1, resource: str = GPU, **more: Any) -> Pod:
    requests = {"cpu": "1", "memory": "1Gi", resource: str(gpus)}
    container = {"name": "main", "resources": {"requests": requests}}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": f"u-{name}"},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container], **more},
    }
    return decode_pod(json.dumps(body).encode())


def bound(name: str, gpus: int, node: str, claim: str = "") -> Pod:
    requests = {GPU: str(gpus)}
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": "r"}
    status = {"resourceClaimName": claim, "requestMappings": [mapping]}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": f"u-{name}"},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"extendedResourceClaimStatus": status} if claim else {},
    }
    return decode_pod(json.dumps(body).encode())


def show(engine: Engine, *objects: ClaimObject, now: float = 0.0) -> None:
    for each in objects:
        engine.handle(events.ClaimObjectSeen(each), now=now)


def engine_with(*objects: ClaimObject, nodes: tuple[Node, ...] = ()) -> Engine:
    engine = an_engine(*(nodes or (a_node("n1", gpus=0), a_node("n2", gpus=0))))
    show(engine, *objects)
    return engine


def step_of(made: list[object]) -> tuple[Prepare, ClaimStep]:
    (asked,) = made
    assert isinstance(asked, Prepare), made
    (step,) = asked.steps
    assert isinstance(step, ClaimStep)
    return asked, step


def made_of(step: ClaimStep, pod: Pod, name: str = "made", **more: Any) -> ResourceClaim:
    """The claim as the API server shows it after the step."""
    (write,) = step.writes
    fields = {
        "name": name, "uid": f"u-{name}", "version": "10", "allocation": write.allocation,
        "reserved_for": (a_claim_user(pod),), **more,
    }  # fmt: skip
    return replace(write.claim, **fields)


def bind(engine: Engine, pod: Pod, name: str) -> str:
    see(engine, pod)
    asked, step = step_of(decide(engine))
    show(engine, made_of(step, pod, name))
    (told,) = engine.handle(events.Prepared(pod.uid), now=1.0)
    assert isinstance(told, Bind)
    assert told.annotations == {}
    engine.handle(events.BindDone(pod.uid), now=1.0)
    see(engine, bound(pod.name, pod.request.amount(GPU), asked.node, name))
    return asked.node


def refused(engine: Engine, pod: Pod) -> str:
    see(engine, pod)
    (told,) = decide(engine)
    assert isinstance(told, AnnounceFailure), told
    return told.message


def test_devices_of_a_class_stand_in_for_gpus() -> None:
    engine = engine_with(MAPPED, a_slice("n2", "gpu-0", "gpu-1", "gpu-2"))
    pod = gpu_pod(gpus=2)
    see(engine, pod)

    asked, step = step_of(decide(engine))

    (write,) = step.writes
    assert asked.node == "n2"
    (request,) = write.claim.requests
    assert (request.name, request.exactly and request.exactly.count) == ("container-0-request-2", 2)
    assert [device.device for device in write.allocation.devices] == ["gpu-0", "gpu-1"]
    assert write.mappings == (("main", GPU, "container-0-request-2"),)
    assert (write.claim.owner, write.claim.for_extended_resources) == (pod.uid, True)


def test_devices_are_held_once_from_the_decision_on() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0", "gpu-1"))
    assert bind(engine, gpu_pod("a"), "made-a") == "n1"
    assert bind(engine, gpu_pod("b"), "made-b") == "n1"
    usage = engine.cluster.claims.usage
    assert sorted(usage.whole.values()) == [1, 1]
    told = refused(engine, gpu_pod("c"))
    assert told.startswith("0/2 nodes are available: 2 cannot allocate all claims. still not")
    assert not wrong_nodes(engine.cluster, ["n1", "n2"])


def test_a_claim_that_is_gone_frees_its_devices() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"))
    bind(engine, gpu_pod("a"), "made-a")
    refused(engine, gpu_pod("b"))
    claim = engine.cluster.claims.claims["default/made-a"]
    engine.handle(events.PodGone(bound("a", 1, "n1", "made-a")), now=2.0)
    assert decide(engine, now=2.0) == []
    engine.handle(events.ClaimObjectGone(claim), now=2.0)
    asked, _ = step_of(decide(engine, now=20.0))
    assert asked.pod.name == "b"


def test_nodes_with_a_device_plugin_serve_without_a_claim() -> None:
    nodes = (a_node("plugin", gpus=1), a_node("dra", gpus=0))
    engine = engine_with(MAPPED, a_slice("dra", "gpu-0"), nodes=nodes)
    see(engine, first := gpu_pod("a", nodeSelector={}))
    made = decide(engine)
    node_of_first = made[0].node
    if node_of_first == "plugin":
        assert isinstance(made[0], Bind)
        engine.handle(events.BindDone(first.uid), now=1.0)
    see(engine, gpu_pod("b"))
    see(engine, gpu_pod("c"))
    others = decide(engine)
    kinds = {type(each).__name__ for each in (*made, *others)}
    assert kinds == {"Bind", "Prepare", "AnnounceFailure"}
    (told,) = (each for each in others if isinstance(each, AnnounceFailure))
    assert "1 Insufficient nvidia.com/gpu" in told.message
    assert "1 cannot allocate all claims" in told.message


def test_a_class_that_comes_later_is_used() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"))
    assert "2 Insufficient nvidia.com/gpu" in refused(engine, gpu_pod())
    show(engine, MAPPED, now=1.0)
    asked, _ = step_of(decide(engine, now=1.0))
    assert asked.node == "n1"


def test_a_class_that_goes_is_not_used_any_more() -> None:
    engine = engine_with(MAPPED)
    assert "2 cannot allocate all claims" in refused(engine, gpu_pod())
    engine.handle(events.ClaimObjectGone(MAPPED), now=1.0)
    (told,) = decide(engine, now=20.0)
    assert "2 Insufficient nvidia.com/gpu" in told.message


def test_every_class_has_a_resource_of_its_own_name() -> None:
    resource = "deviceclass.resource.kubernetes.io/gpu"
    engine = engine_with(GPU_CLASS, a_slice("n1", "gpu-0"))
    see(engine, gpu_pod(resource=resource))
    _, step = step_of(decide(engine))
    assert step.writes[0].mappings == (("main", resource, "container-0-request-1"),)


def test_of_two_classes_the_newer_counts() -> None:
    old = DeviceClass("a", ("false",), extended_resource=GPU, created="2026-01-01T00:00:00Z")
    new = replace(MAPPED, name="z", created="2026-01-02T00:00:00Z")
    engine = engine_with(old, new, a_slice("n1", "gpu-0"))
    see(engine, gpu_pod())
    _, step = step_of(decide(engine))
    assert step.writes[0].claim.requests[0].exactly.class_name == "z"


def test_a_claim_of_an_earlier_attempt_is_deleted_first() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"))
    pod = gpu_pod()
    left = ResourceClaim(
        "default", "left", "u-left", "5", owner=pod.uid, for_extended_resources=True
    )
    show(engine, left)
    see(engine, pod)
    told, frees = decide(engine)
    assert told.message == (
        "0/2 nodes are available: 2 cannot schedule extended resource claim. "
        "deletion of ResourceClaim completed, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    assert frees == FreeClaim(frees.pod, left)
    assert frees.pod.uid == pod.uid
    engine.handle(events.ClaimObjectGone(left), now=1.0)
    asked, _ = step_of(decide(engine, now=20.0))
    assert asked.node == "n1"


def test_a_claim_for_another_pod_is_not_taken_for_its_own() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"))
    pod = gpu_pod()
    other = ResourceClaim(
        "other", "left", "u-left", "5", owner=pod.uid, for_extended_resources=True
    )
    show(engine, other)
    see(engine, pod)
    assert step_of(decide(engine))[0].node == "n1"


def test_a_failed_attempt_frees_what_it_held() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"))
    pod = gpu_pod()
    see(engine, pod)
    decide(engine)
    engine.handle(events.PrepareFailed(pod.uid, "no"), now=1.0)
    assert not engine.cluster.claims.held
    asked, _ = step_of(decide(engine, now=20.0))
    assert asked.pod.uid == pod.uid


def test_a_pod_that_was_bound_before_counts_by_its_claim_alone() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0", "gpu-1"))
    see(engine, bound("old", 1, "n1", "made-old"))
    held = engine.cluster.holdings["u-old"]
    assert (dict(held.amounts).get(GPU, 0), held.grant) == (0, None)
    see(engine, gpu_pod("new", 2))
    assert step_of(decide(engine))[0].node == "n1"  # the claim is not shown: nothing is held


def test_a_later_status_changes_nothing_about_a_bound_pod() -> None:
    engine = engine_with(MAPPED, nodes=(a_node("n1", gpus=1),))
    see(engine, bound("old", 1, "n1"))
    see(engine, bound("old", 1, "n1", "made"))
    assert dict(engine.cluster.holdings["u-old"].amounts)[GPU] == 1
    assert "1 Insufficient nvidia.com/gpu" in refused(engine, gpu_pod())


def test_a_status_that_the_kubelet_writes_is_no_change_of_the_request() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"))
    node = bind(engine, gpu_pod(), "made")
    for _ in range(2):
        assert engine.handle(events.PodSeen(bound("p", 1, node, "made")), now=2.0) == []


def test_gpus_of_pods_without_claims_are_not_given_to_a_class() -> None:
    """The device plugin was removed while its pods run."""
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"), nodes=(a_node("n1", gpus=8),))
    see(engine, bound("old", 1, "n1"))
    engine.handle(events.NodeSeen(a_node("n1", gpus=0)), now=1.0)
    assert "GPUs in use by pods without claims" in refused(engine, gpu_pod())


def test_the_driver_is_not_asked_about() -> None:
    other = replace(MAPPED, selectors=("device.driver == 'gpu.example.com'",))
    part = a_slice("n1", "gpu-0", driver="gpu.example.com")
    engine = engine_with(other, part)
    see(engine, gpu_pod())
    _, step = step_of(decide(engine))
    assert step.writes[0].allocation.devices[0].driver == "gpu.example.com" != DRIVER
