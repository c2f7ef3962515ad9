"""Extended resources that devices of a class stand in for, as in kube-scheduler."""

import json
from dataclasses import replace
from typing import Any

import pytest

from builders import a_node, an_engine, decide, see
from claim_objects import DRIVER, GPU_CLASS, a_claim, a_claim_user, a_slice, an_allocation
from fairlead.cluster.checking import wrong_nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, FreeClaim, Prepare
from fairlead.kube.codec import decode_pod
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.devices import (
    CounterSet,
    Device,
    DeviceClass,
    DeviceForm,
    ResourceSlice,
)
from fairlead.model.extended import IMPLICIT
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


@pytest.mark.parametrize("node_first", [True, False])
def test_the_status_of_a_failed_attempt_does_not_free_gpus_of_a_plugin(node_first: bool) -> None:
    """After a restart: the pod went to a node with a device plugin in the end."""
    engine = an_engine(a_node("n2", gpus=0))
    show(engine, MAPPED)
    seen = [events.NodeSeen(a_node("n1", gpus=1)), events.PodSeen(bound("old", 1, "n1", "made"))]
    for event in seen if node_first else reversed(seen):
        engine.handle(event, now=0.0)
    engine.handle(events.PodSeen(bound("old", 1, "n1", "made")), now=1.0)
    assert dict(engine.cluster.holdings["u-old"].amounts)[GPU] == 1
    assert "1 Insufficient nvidia.com/gpu" in refused(engine, gpu_pod())
    assert not wrong_nodes(engine.cluster, ["n1", "n2"])
    engine.handle(events.PodGone(bound("old", 1, "n1", "made")), now=2.0)
    assert not wrong_nodes(engine.cluster, ["n1", "n2"])


def test_pods_of_nodes_that_never_come_are_forgotten() -> None:
    engine = engine_with(MAPPED)
    for _ in range(2):
        see(engine, bound("old", 1, "n9", "made"))
    engine.handle(events.PodGone(bound("old", 1, "n9", "made")), now=2.0)
    engine.handle(events.NodeSeen(a_node("n9", gpus=1)), now=3.0)
    assert "u-old" not in engine.cluster.holdings


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


def turns_of(engine: Engine) -> tuple[int, list[object]]:
    """How many turns the next unit takes until something is decided, and what it is."""
    turns = 0
    while (attempt := engine.decide(now=0.0)) is not None:
        turns += 1
        if attempt.instructions:
            return turns, [*attempt.instructions]
    return turns, []


NIC = "example.com/nic"


def many_nodes(count: int, plugin: int = 0) -> tuple[Node, ...]:
    """The first ones have a device plugin for another resource."""
    nodes = [a_node(f"n{number}", gpus=0) for number in range(count)]
    offering = (replace(node, allocatable=(*node.allocatable, (NIC, 1))) for node in nodes[:plugin])
    return (*offering, *nodes[plugin:])


def divided(node: str) -> tuple[ResourceSlice, ResourceSlice]:
    """Devices that share counters: such a node is asked on its own."""
    consumes = (CounterSet("set", (("slots", 1),)),)
    devices = tuple(
        Device(DeviceForm(f"part-{at}", consumes=consumes), (("type", "part"),)) for at in range(64)
    )
    sets = (CounterSet("set", (("slots", 2),)),)
    part = replace(a_slice(node), devices=devices, slice_count=2)
    return part, replace(a_slice(node), name=f"{node}-c", counter_sets=sets, slice_count=2)


def asking_one_by_one(count: int) -> Engine:
    nodes = many_nodes(count)
    slices = (part for node in nodes for part in divided(node.name))
    engine = engine_with(replace(MAPPED, selectors=()), *slices, nodes=nodes)
    see(engine, gpu_pod(gpus=2))
    return engine


def test_nodes_are_looked_at_over_several_turns_before_the_first_claim_is_made() -> None:
    engine = asking_one_by_one(400)
    assert not engine.cluster.claims.claims
    turns, made = turns_of(engine)
    assert step_of(made)[0].node == "n0"
    assert turns > 2


def test_nodes_that_offer_many_different_things_are_looked_at_once() -> None:
    """More parts of a look than answers are kept."""
    names = [f"{IMPLICIT}c{number}" for number in range(7)]
    nodes = []
    for number in range(128):
        node = a_node(f"n{number}", gpus=0)
        offers = tuple((name, 1) for at, name in enumerate(names) if number >> at & 1)
        nodes.append(replace(node, allocatable=(*node.allocatable, *offers)))
    slices = (part for node in nodes for part in divided(node.name))
    classes = (DeviceClass(f"c{number}", ()) for number in range(7))
    engine = engine_with(*classes, *slices, nodes=tuple(nodes))
    requests = {"requests": dict.fromkeys(names, "1")}
    see(engine, gpu_pod(containers=[{"name": "main", "resources": requests}]))

    turns, made = turns_of(engine)

    number = int(step_of(made)[0].node.removeprefix("n"))
    assert number.bit_count() >= 5, "counters are enough for two devices"
    assert turns < 20


def test_pods_are_looked_at_over_several_turns_when_a_class_comes_or_goes() -> None:
    engine = engine_with()
    for number in range(5000):
        see(engine, gpu_pod(f"p{number}"))

    def served() -> int:
        return sum(bool(entry.unit.pod.request.claims) for entry in engine.queue.entries())

    show(engine, MAPPED)
    assert 0 < served() < 2500, "not all in one turn"
    assert engine.wake_at_s() == 0.0
    while engine.wake_at_s() == 0.0:
        before = served()
        engine.decide(now=0.0)
        assert served() - before < 2500
    assert served() == 5000
    engine.handle(events.ClaimObjectGone(MAPPED), now=1.0)
    while engine.wake_at_s() == 0.0:
        engine.decide(now=1.0)
    assert not served()


def test_a_class_that_goes_while_its_claim_is_written_is_not_used_in_the_next_attempt() -> None:
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0"))
    see(engine, pod := gpu_pod())
    step_of(decide(engine))
    engine.handle(events.ClaimObjectGone(MAPPED), now=1.0)
    engine.handle(events.PrepareFailed(pod.uid, "no"), now=2.0)
    (told,) = decide(engine, now=30.0)
    assert "2 Insufficient nvidia.com/gpu" in told.message
    assert not engine.cluster.claims.held


def test_a_claim_that_is_given_to_a_pod_later_holds_its_devices_once() -> None:
    """Its annotation and its owner were edited while the claim of the pod is being made."""
    engine = engine_with(MAPPED, a_slice("n1", "gpu-0", "gpu-1"))
    taken = a_claim("c", version="1", allocation=an_allocation("n1", "gpu-0"))
    show(engine, taken)
    see(engine, pod := gpu_pod())
    step_of(decide(engine))
    edited = replace(taken, version="2", owner=pod.uid, for_extended_resources=True)
    show(engine, edited)
    engine.handle(events.PrepareFailed(pod.uid, "no"), now=1.0)
    engine.handle(events.ClaimObjectGone(edited), now=2.0)
    assert not engine.cluster.claims.usage.whole
    assert not engine.cluster.claims.held


def test_a_part_of_the_nodes_that_is_done_is_not_looked_at_again() -> None:
    """Other nodes, which offer other resources themselves, need more turns."""
    nic = DeviceClass("nic", (), extended_resource=NIC)
    nodes = many_nodes(400, plugin=150)
    slices = (part for node in nodes for part in divided(node.name))
    engine = engine_with(replace(MAPPED, selectors=()), nic, *slices, nodes=nodes)
    requests = {GPU: "2", NIC: "1"}
    container = {"name": "main", "resources": {"requests": requests}}
    see(engine, gpu_pod("first", gpus=3))
    turns_of(engine)
    allocator = engine.cluster.claims.allocator
    before = allocator.work
    see(engine, gpu_pod(containers=[container]))
    turns, _ = turns_of(engine)
    assert turns > 2
    assert allocator.work - before < 55_000, "each node is asked once"
