"""Pods with resource claims in the engine: which devices they get, and when these are free."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, decide_once, see
from claim_objects import (
    DRIVER,
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_device,
    a_gpu_device,
    a_slice,
    an_allocation,
    on_node,
)
from examples import so_many
from fairlead.claims import shared_slices
from fairlead.cluster import claiming
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceScheduled,
    Bind,
    FreeClaim,
    Prepare,
    ReleaseClaims,
)
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import (
    ALL_DEVICES,
    ClaimObject,
    DeviceConstraint,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import (
    CounterSet,
    Device,
    DeviceClass,
    DeviceForm,
    DeviceNodes,
    DeviceTaint,
    DeviceTaintRule,
    ResourceSlice,
)
from fairlead.model.pods import Pod
from fairlead.placement.explain import explain
from fairlead.plugins.claim_step import ClaimStep
from fairlead.queue.entries import Pool


def show(engine: Engine, *objects: ClaimObject, now: float = 0.0) -> None:
    for each in objects:
        engine.handle(events.ClaimObjectSeen(each), now=now)


def engine_with(*objects: ClaimObject, nodes: tuple[str, ...] = ("n1", "n2")) -> Engine:
    engine = an_engine(*(a_node(name, gpus=0) for name in nodes))
    show(engine, GPU_CLASS, *objects)
    return engine


def prepared(made: list[object]) -> tuple[Prepare, ClaimStep]:
    (asked,) = made
    assert isinstance(asked, Prepare), made
    (step,) = asked.steps
    assert isinstance(step, ClaimStep)
    return asked, step


def devices_of(step: ClaimStep) -> list[list[str]]:
    return [
        [device.device for device in write.allocation.devices] if write.allocation else []
        for write in step.writes
    ]


def written(step: ClaimStep, pod: Pod, version: str = "10") -> list[ResourceClaim]:
    """The claims as they are after the step."""
    return [
        replace(
            write.claim,
            allocation=write.allocation or write.claim.allocation,
            reserved_for=(*write.claim.reserved_for, a_claim_user(pod)),
            version=version,
        )
        for write in step.writes
    ]


def carry_out(engine: Engine, asked: Prepare, step: ClaimStep, now: float = 1.0) -> list[object]:
    show(engine, *written(step, asked.pod), now=now)
    return [*engine.handle(events.Prepared(asked.pod.uid), now=now)]


def bind(engine: Engine, pod: Pod, now: float = 1.0) -> str:
    """Places the pod, writes its claims and its bind, and returns its node."""
    see(engine, pod, now=now)
    asked, step = prepared(decide(engine, now=now))
    (told,) = carry_out(engine, asked, step, now=now)
    assert isinstance(told, Bind)
    (done,) = engine.handle(events.BindDone(pod.uid), now=now)
    assert isinstance(done, AnnounceScheduled)
    see(engine, replace(pod, node=told.node), now=now)
    return told.node


def test_a_claim_is_allocated_before_its_pod_is_bound() -> None:
    engine = engine_with(a_slice("n2", "gpu-0", "gpu-1"), a_claim())
    pod = a_claiming_pod("p", "c")
    see(engine, pod)

    asked, step = prepared(decide(engine))

    assert (asked.pod, asked.node) == (pod, "n2")
    (write,) = step.writes
    assert write.claim == a_claim()
    assert write.allocation == an_allocation("n2", "gpu-0")
    assert carry_out(engine, asked, step) == [Bind(pod, "n2")]


def test_a_device_in_flight_goes_to_no_other_claim() -> None:
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), a_claim("a"), a_claim("b"), a_claim("c"))
    pods = [a_claiming_pod(name, name) for name in ("a", "b", "c")]
    see(engine, *pods)

    first, second, third = decide(engine)

    assert devices_of(prepared([first])[1]) == [["gpu-0"]]
    assert devices_of(prepared([second])[1]) == [["gpu-1"]]
    assert isinstance(third, AnnounceFailure)
    assert third.message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")


def test_devices_are_free_when_the_claim_is_deallocated() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim("a"), a_claim("b"))
    first, second = a_claiming_pod("first", "a"), a_claiming_pod("second", "b")
    bind(engine, first)
    see(engine, second)
    (refused,) = decide(engine, now=2.0)
    assert isinstance(refused, AnnounceFailure)

    engine.handle(events.PodGone(first), now=3.0)
    assert decide(engine, now=3.0) == [], "the claim holds the device, not the pod"
    show(engine, a_claim("a", version="11"), now=4.0)

    _, step = prepared(decide(engine, now=30.0))
    assert devices_of(step) == [["gpu-0"]]


def test_a_claim_that_is_gone_holds_nothing() -> None:
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"))
    engine = engine_with(a_slice("n1", "gpu-0"), held, a_claim("b"))
    pod = a_claiming_pod("p", "b")
    see(engine, pod)
    (refused,) = decide(engine)
    assert isinstance(refused, AnnounceFailure)

    engine.handle(events.ClaimObjectGone(held), now=1.0)

    prepared(decide(engine, now=30.0))


def test_a_second_pod_follows_the_claim_to_its_node() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_slice("n2", "gpu-0"), a_claim())
    node = bind(engine, a_claiming_pod("first", "c"))
    other = a_claiming_pod("second", "c")
    see(engine, other, now=2.0)

    asked, step = prepared(decide(engine, now=2.0))

    assert asked.node == node
    (write,) = step.writes
    assert write.allocation is None, "it is allocated already"


def test_a_claim_in_flight_keeps_other_pods_waiting() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim())
    first, second = a_claiming_pod("first", "c"), a_claiming_pod("second", "c")
    see(engine, first, second)

    asked, refused = decide(engine)

    assert isinstance(refused, AnnounceFailure)
    expected = "resource claim default/c is in the process of being allocated"
    assert refused.message.startswith(f"0/2 nodes are available: {expected}.")
    carry_out(engine, *prepared([asked]))
    (again,) = decide(engine, now=30.0)
    assert isinstance(again, Prepare)
    assert again.pod == second


def test_a_failed_step_frees_what_it_had_in_flight() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim("a"), a_claim("b"))
    pod, other = a_claiming_pod("p", "a"), a_claiming_pod("other", "b")
    see(engine, pod)
    decide(engine)
    see(engine, other, now=1.0)
    (refused,) = decide(engine, now=1.0)
    assert isinstance(refused, AnnounceFailure)

    engine.handle(events.PrepareFailed(pod.uid, "no"), now=2.0)

    made = decide(engine, now=30.0)
    assert [each.pod.name for each in made if isinstance(each, Prepare)] == ["other"]


def test_a_pod_whose_claim_is_missing_is_gated_in_silence() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"))
    pod = a_claiming_pod("p", "c")

    assert see(engine, pod) == []
    assert decide(engine) == []
    assert engine.queue.counts()[Pool.GATED] == 1

    show(engine, a_claim(), now=1.0)
    prepared(decide(engine, now=1.0))


def test_a_claim_that_is_deleted_gates_its_pod_again() -> None:
    engine = engine_with(a_claim())
    pod = a_claiming_pod("p", "c")
    see(engine, pod)
    show(engine, a_claim(deleting=True), now=1.0)

    assert decide(engine, now=1.0) == []
    assert engine.queue.counts()[Pool.GATED] == 1


def test_a_class_that_does_not_exist_is_named() -> None:
    engine = an_engine(a_node("n1"))
    show(engine, a_claim())
    see(engine, a_claiming_pod("p", "c"))

    (refused,) = decide(engine)

    assert isinstance(refused, AnnounceFailure)
    expected = "0/1 nodes are available: request r: device class gpu does not exist."
    assert refused.message.startswith(expected)
    show(engine, GPU_CLASS, a_slice("n1", "gpu-0"), now=1.0)
    prepared(decide(engine, now=30.0))


def test_an_allocation_for_other_nodes_is_named() -> None:
    gone = replace(an_allocation("n9", "gpu-0"), node_terms=on_node("n9"))
    engine = engine_with(a_claim(allocation=gone))
    see(engine, a_claiming_pod("p", "c"))

    made = decide(engine)

    failure = made[0]
    assert isinstance(failure, AnnounceFailure)
    assert "2 resourceclaim not available on the node" in failure.message


def test_an_older_version_of_a_claim_is_passed_over() -> None:
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"), version="10")
    engine = engine_with(a_slice("n1", "gpu-0"), held, a_claim("b"))
    show(engine, a_claim("a", version="9"))
    see(engine, a_claiming_pod("p", "b"))

    (refused,) = decide(engine)

    assert isinstance(refused, AnnounceFailure)


def test_a_late_answer_about_an_earlier_claim_of_the_name_is_passed_over() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim(version="5"))
    engine.handle(events.ClaimObjectGone(a_claim(version="6")), now=0.0)
    show(engine, a_claim(uid="another", version="8"))

    show(engine, a_claim(version="6", allocation=an_allocation("n1", "gpu-0")))

    assert engine.cluster.claims.claims["default/c"].uid == "another"
    assert not engine.cluster.claims.held


def test_a_claim_that_is_made_later_leaves_no_trace_of_its_pod() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim(owner="uid-p-0"))
    use = ClaimUse("c", "", "default/p", "uid-p-0")
    pod = a_pod("p", claims=(use,))
    see(engine, pod)
    made = replace(pod, request=replace(pod.request, claims=(replace(use, key="default/c"),)))
    see(engine, made)
    assert engine._parts.claim_gates._keys

    engine.handle(events.PodGone(made), now=1.0)

    assert not engine._parts.claim_gates._keys
    assert not engine._parts.claim_gates._users.groups


def test_a_claim_that_is_of_no_use_where_it_is_is_freed() -> None:
    gone = a_claim(allocation=an_allocation("n9", "gpu-0"))
    engine = engine_with(gone, a_slice("n1", "gpu-0"))
    pod = a_claiming_pod("p", "c")
    see(engine, pod)

    failure, freed = decide(engine)

    assert freed == FreeClaim(pod, gone)
    assert isinstance(failure, AnnounceFailure)
    assert failure.message == (
        "0/2 nodes are available: 2 resourceclaim not available on the node. "
        "deallocation of ResourceClaim completed, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    show(engine, a_claim(version="2"), now=1.0)
    prepared(decide(engine, now=30.0))


def test_a_claim_of_another_pod_is_not_freed() -> None:
    other = a_claiming_pod("other", "c")
    used = a_claim(allocation=an_allocation("n9", "gpu-0"), reserved_for=(a_claim_user(other),))
    engine = engine_with(used)
    pod = a_claiming_pod("p", "c")
    see(engine, pod)

    (failure,) = decide(engine)

    assert isinstance(failure, AnnounceFailure)
    assert "still not schedulable, preemption: " in failure.message
    show(engine, replace(used, reserved_for=()), now=1.0)
    assert any(isinstance(made, FreeClaim) for made in decide(engine, now=30.0)), "unused now"


def test_the_words_of_a_pre_filter_about_claims() -> None:
    engine = an_engine(a_node("n1"))
    show(engine, a_claim())
    see(engine, a_claiming_pod("p", "c"))

    (refused,) = decide(engine)

    assert isinstance(refused, AnnounceFailure)
    assert refused.message == (
        "0/1 nodes are available: request r: device class gpu does not exist. "
        "no new claims to deallocate, preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


def test_an_error_on_one_node_stops_the_attempt_on_all() -> None:
    selector = "device.attributes['gpu.nvidia.com'].colour == 'red'"
    named = a_device("gpu-0", colour="red")
    engine = engine_with(a_slice("n1", named), a_slice("n2", "gpu-0"))
    need = DeviceNeed("gpu", (selector,))
    show(engine, a_claim(requests=(DeviceRequest("r", need),)))
    see(engine, a_claiming_pod("p", "c"))

    (told,) = decide(engine)

    assert isinstance(told, AnnounceFailure)
    assert told.reason == "SchedulerError"
    assert told.message.startswith('running "DynamicResources" filter plugin: claim default/c')
    assert "no such key: colour" in told.message
    assert engine.queue.counts()[Pool.BACKOFF] == 1


def test_a_node_that_another_filter_refuses_is_not_asked() -> None:
    selector = "device.attributes['gpu.nvidia.com'].colour == 'red'"
    named = a_device("gpu-0", colour="red")
    engine = engine_with(a_slice("n1", named), a_slice("n2", "gpu-0"))
    engine.handle(events.NodeSeen(a_node("n2", gpus=0, unschedulable=True)), now=0.0)
    show(engine, a_claim(requests=(DeviceRequest("r", DeviceNeed("gpu", (selector,))),)))
    see(engine, a_claiming_pod("p", "c"))

    asked, _ = prepared(decide(engine))

    assert asked.node == "n1"


def test_a_node_with_an_earlier_alternative_is_better() -> None:
    colour = "device.attributes['gpu.nvidia.com'].colour"
    red, blue = (DeviceClass(name, (f"{colour} == '{name}'",)) for name in ("red", "blue"))
    engine = an_engine(*(a_node(name) for name in ("n1", "n2")), profile="default-scheduler")
    show(engine, red, blue, a_slice("n1", a_device("d", colour="blue")))
    show(engine, a_slice("n2", a_device("d", colour="red")))
    needs = (DeviceNeed("red", name="a"), DeviceNeed("blue", name="b"))
    show(engine, a_claim(requests=(DeviceRequest("r", first_available=needs),)))
    see(engine, a_claiming_pod("p", "c"))

    asked, step = prepared(decide(engine))

    assert asked.node == "n2"
    (write,) = step.writes
    assert write.allocation is not None
    assert [device.request for device in write.allocation.devices] == ["r/a"]


def test_many_nodes_are_decided_in_one_pass() -> None:
    """Only the chosen node is searched, and nothing when all devices are held."""
    names = tuple(f"n{number:02}" for number in range(40))
    slices = [a_slice(name, a_device("gpu-0")) for name in names]
    claims = [a_claim(f"c{number}") for number in range(41)]
    engine = engine_with(*slices, *claims, nodes=names)
    steps: list[int] = []
    places: set[str] = set()
    for number in range(40):
        before = engine.cluster.claims.allocator.steps
        places.add(bind(engine, a_claiming_pod(f"p{number}", f"c{number}")))
        steps.append(engine.cluster.claims.allocator.steps - before)
    assert places == set(names)
    assert max(steps) < 20
    see(engine, a_claiming_pod("last", "c40"))
    (told,) = decide(engine)
    assert isinstance(told, AnnounceFailure)
    assert "0/40 nodes are available: 40 cannot allocate all claims." in told.message


def test_each_device_says_why_it_is_of_no_use() -> None:
    tainted = a_device("gpu-9", type="gpu")
    form = replace(tainted.form, taints=(DeviceTaint("broken", effect="NoSchedule"),))
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"))
    published = a_slice("n1", "gpu-0", "gpu-1", replace(tainted, form=form), a_device("nic"))
    engine = engine_with(published, held, nodes=("n1",))
    selector = "'type' in device.attributes['gpu.nvidia.com']"
    need = DeviceNeed("gpu", (selector,), count=2)
    show(engine, a_claim(requests=(DeviceRequest("r", need),)))
    pod = a_claiming_pod("p", "c")
    placement = engine.placement("gpu-scheduler")
    assert placement is not None

    (answer,) = explain(placement, engine.cluster, pod).nodes

    assert answer.reasons == ("cannot allocate all claims",)
    assert answer.detail == (
        "request r: 2 of class gpu; devices there: 1 free, 1 in use, 1 not selected, 1 tainted"
    )


def test_a_device_whose_counters_are_used_is_not_called_free() -> None:
    total = CounterSet("s", (("slots", 2),))
    part = (CounterSet("s", (("slots", 1),)),)
    whole = Device(DeviceForm("whole", consumes=(total,)))
    divided = a_slice("n1", whole, Device(DeviceForm("half", consumes=part)), slice_count=2)
    counted = a_slice("n1", name="n1-sets", slice_count=2, counter_sets=(total,))
    held = a_claim("a", allocation=an_allocation("n1", "half"))
    engine = engine_with(divided, counted, held, nodes=("n1",))
    show(engine, a_claim())
    placement = engine.placement("gpu-scheduler")
    assert placement is not None

    (answer,) = explain(placement, engine.cluster, a_claiming_pod("p", "c")).nodes

    assert answer.detail == (
        "request r: 1 of class gpu; devices there: 1 in use, 1 without enough shared counters left"
    )


def test_devices_of_one_gpu_are_told_apart_on_many_nodes_too() -> None:
    """Each node has one GPU, published under two names; and one node has two GPUs."""
    names = tuple(f"n{number:02}" for number in range(20))
    slices = [
        a_slice(name, a_gpu_device("gpu-0", f"GPU-{name}"), a_gpu_device("vfio-0", f"GPU-{name}"))
        for name in names[:-1]
    ]
    last = a_slice(names[-1], "gpu-0", "gpu-1")
    engine = engine_with(*slices, last, a_claim("a", 2), a_claim("b", 2), nodes=names)
    assert bind(engine, a_claiming_pod("first", "a")) == names[-1]
    see(engine, a_claiming_pod("second", "b"))
    (told,) = decide(engine)
    assert isinstance(told, AnnounceFailure)
    assert "20 cannot allocate all claims" in told.message


def test_a_device_with_counters_that_is_taken_concerns_its_node_alone() -> None:
    """Counter slices concern all nodes, but not what claims hold of the pool."""
    half = (CounterSet("s", (("slots", 1),)),)
    names = tuple(f"n{number:02}" for number in range(8))
    slices = [
        part
        for name in names
        for part in (
            a_slice(
                name,
                *(Device(DeviceForm(f"d{index}", consumes=half)) for index in range(4)),
                slice_count=2,
            ),
            a_slice(
                name,
                name=f"{name}-counters",
                slice_count=2,
                counter_sets=(CounterSet("s", (("slots", 2),)),),
            ),
        )
    ]
    claims = [a_claim(f"c{number}") for number in range(17)]
    engine = engine_with(*slices, *claims, nodes=names)
    bind(engine, a_claiming_pod("first", "c0"))
    before = engine.cluster.claims.allocator.steps
    for number in range(1, 16):
        bind(engine, a_claiming_pod(f"p{number}", f"c{number}"))
    assert engine.cluster.claims.allocator.steps - before < 15 * 2 * 8
    see(engine, a_claiming_pod("last", "c16"))
    (told,) = decide(engine)
    assert isinstance(told, AnnounceFailure)
    assert "8 cannot allocate all claims" in told.message


def pairs_that_do_not_exist() -> ResourceClaim:
    """Each constraint alone can be met; the search finds out last that both cannot."""
    needs = (DeviceRequest(f"r{number}", DeviceNeed(GPU_CLASS.name)) for number in range(6))
    both = (
        DeviceConstraint(("r4", "r5"), match_attribute=f"{DRIVER}/{name}") for name in ("x", "y")
    )
    return a_claim(requests=tuple(needs), constraints=tuple(both))


def squares(node: str) -> ResourceSlice:
    devices = (
        a_gpu_device(f"gpu-{at}", f"GPU-{node}-{at}", x=at % 4, y=at // 4) for at in range(16)
    )
    return a_slice(node, *devices)


def test_a_search_that_takes_long_is_given_up_on_all_nodes() -> None:
    names = tuple(f"n{number}" for number in range(40))
    engine = engine_with(*map(squares, names), pairs_that_do_not_exist(), nodes=names)
    see(engine, a_claiming_pod("p", "c"))

    (told,) = decide(engine)

    assert isinstance(told, AnnounceFailure)
    assert told.message.endswith("node n0: timed out trying to allocate devices")
    assert engine.cluster.claims.allocator.steps <= 100_000  # of 40 * 20_000


def test_selectors_that_read_each_device_are_given_up() -> None:
    names = tuple(f"n{number}" for number in range(200))
    needs = (
        DeviceNeed(GPU_CLASS.name, (f'device.attributes["{DRIVER}"].uuid != "{number}"',))
        for number in range(32)
    )
    requests = tuple(DeviceRequest(f"r{at}", need) for at, need in enumerate(needs))
    gpus = [f"gpu-{number}" for number in range(32)]
    slices = (a_slice(name, *gpus) for name in names)
    engine = engine_with(*slices, a_claim(requests=requests), nodes=names)
    see(engine, a_claiming_pod("p", "c"))
    answers, longest, before = engine.cluster.claims.inventory.answers, 0, 0

    while not (told := decide_once(engine)):
        longest, before = max(longest, answers.work - before), answers.work

    assert isinstance(told[0], AnnounceFailure)
    assert told[0].message.endswith("node n0: timed out trying to allocate devices")
    assert longest < 2500, "in one turn"
    assert answers.work < 180_000  # of 32 * 6_400


def test_selectors_that_take_long_to_compile_are_refused() -> None:
    long = " || ".join(["true", *(f'device.driver == "{at}"' for at in range(400))])
    needs = (DeviceNeed(GPU_CLASS.name, (f"{long} || {at} == 0",)) for at in range(5))
    requests = tuple(DeviceRequest(f"r{at}", need) for at, need in enumerate(needs))
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim(requests=requests))
    see(engine, a_claiming_pod("p", "c"))

    (told,) = decide(engine)

    assert isinstance(told, AnnounceFailure)
    assert "selectors of the resource claims are too long for Fairlead" in told.message
    assert not engine.cluster.claims.inventory.answers.work


def test_no_pod_is_bound_whose_claim_is_not_reserved_for_it() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim())
    pod = a_claiming_pod("p", "c")
    see(engine, pod)
    asked, step = prepared(decide(engine))
    (claim,) = written(step, pod)
    show(engine, claim, replace(claim, reserved_for=(), version="11"))

    made = engine.handle(events.Prepared(asked.pod.uid), now=1.0)

    assert ReleaseClaims(pod) in made
    assert not any(isinstance(each, Bind) for each in made)


def test_a_rule_about_taints_changes_only_what_it_concerns() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_slice("n2", "gpu-0"), a_claim())
    inventory = engine.cluster.claims.inventory
    inventory.changed = {}
    taint = DeviceTaint("k", "v", "NoSchedule")
    rule = DeviceTaintRule("r", taint, has_selector=True, driver=DRIVER, pool="n1")

    show(engine, rule)
    engine.cluster.claims.settle_taints()
    assert [*inventory.changed] == [(DRIVER, "n1")]
    show(engine, replace(rule, pool="n2"))
    engine.cluster.claims.settle_taints()
    assert [*inventory.changed] == [(DRIVER, "n1"), (DRIVER, "n2")]

    see(engine, a_claiming_pod("p", "c"))
    asked, _ = prepared(decide(engine))
    assert asked.node == "n1", "the taint was moved to the other node"


def test_a_taint_that_comes_while_a_claim_is_written_is_for_later_claims() -> None:
    """The controller evicts the pod then, unless it tolerates the taint."""
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim("a"), a_claim("b"))
    see(engine, a_claiming_pod("p", "a"))
    asked, step = prepared(decide(engine))
    taint = DeviceTaint("k", "v", "NoExecute")

    show(engine, DeviceTaintRule("r", taint, has_selector=True, driver=DRIVER, pool="n1"))
    (told,) = carry_out(engine, asked, step)

    assert isinstance(told, Bind)
    show(engine, replace(a_claim("a"), version="20"), now=2.0)  # its pod was evicted
    see(engine, a_claiming_pod("q", "b"), now=2.0)
    (made,) = decide(engine, now=2.0)
    assert isinstance(made, AnnounceFailure), "the device is free, and tainted"


def test_many_requests_are_given_up_where_every_node_has_to_be_asked() -> None:
    names = tuple(f"n{number}" for number in range(40))
    needs = tuple(DeviceNeed(GPU_CLASS.name, name=f"s{at}") for at in range(8))
    many = tuple(DeviceRequest(f"r{at}", None, needs) for at in range(32))
    every = DeviceNeed(GPU_CLASS.name, mode=ALL_DEVICES, count=0)
    claims = [a_claim(f"c{at}", requests=many) for at in range(10)]
    last = a_claim("all", requests=(DeviceRequest("r", every),))
    slices = (a_slice(name, "gpu-0") for name in names)
    engine = engine_with(*slices, *claims, last, nodes=names)
    see(engine, a_claiming_pod("p", *(claim.name for claim in claims), "all"))

    (told,) = decide(engine)

    assert isinstance(told, AnnounceFailure)
    assert told.message.endswith("timed out trying to allocate devices")
    assert engine.cluster.claims.allocator.work < 100_000  # of 40 * 7 * 2_560


def divided(node: str) -> ResourceSlice:
    """Devices that share counters: nodes with them are asked one by one for two devices."""
    uses = CounterSet("set", (("slots", 1),))
    devices = (Device(DeviceForm(f"part-{at}", consumes=(uses,))) for at in range(64))
    return replace(a_slice(node), devices=tuple(devices), slice_count=2)


def counters(node: str) -> ResourceSlice:
    sets = (CounterSet("set", (("slots", 2),)),)
    return replace(a_slice(node), name=f"{node}-counters", counter_sets=sets, slice_count=2)


#: So many that a look at them takes several turns.
MANY = so_many(400, few=300)


def asking_nodes_one_by_one(count: int, pod: Pod | None = None) -> Engine:
    names = tuple(f"n{at}" for at in range(count))
    two = a_claim(requests=(DeviceRequest("r", DeviceNeed(GPU_CLASS.name, count=2)),))
    slices = (part for name in names for part in (divided(name), counters(name)))
    engine = engine_with(DeviceClass(GPU_CLASS.name, ()), *slices, two, nodes=names)
    see(engine, pod or a_claiming_pod("p", "c"))
    return engine


def test_nodes_are_asked_over_several_turns_and_every_one_once() -> None:
    engine = asking_nodes_one_by_one(MANY)
    inventory, longest, before, turns = engine.cluster.claims.inventory, 0, 0, 0

    while not (made := decide_once(engine)):
        longest, before = max(longest, inventory.gathered - before), inventory.gathered
        turns += 1

    asked, _ = prepared([*made])
    assert asked.node == "n0"
    assert turns > 2
    assert longest < 10_000, "devices in one turn"
    assert inventory.gathered <= MANY * 65, "devices and slices"


def test_what_changes_between_the_turns_of_a_look_is_looked_at_again() -> None:
    engine = asking_nodes_one_by_one(MANY)
    assert not decide_once(engine), "it is not done yet"
    held = a_claim("held", allocation=an_allocation("n0", "part-0"))
    show(engine, held)

    while not (made := decide_once(engine)):
        continue

    asked, _ = prepared([*made])
    assert asked.node == "n1", "n0 has one slot left"


def test_others_are_tried_while_a_look_takes_many_turns() -> None:
    engine = asking_nodes_one_by_one(so_many(1500, few=500))
    show(engine, a_claim("easy"))
    see(engine, a_pod("plain", gpus=0), a_claiming_pod("easy", "easy"))
    bound: list[str] = []
    turns = 0

    while "p" not in bound:
        turns += 1
        bound += [made.pod.name for made in decide_once(engine)
                  if isinstance(made, Prepare | Bind)]  # fmt: skip

    assert turns > so_many(20, few=5)
    assert bound[0] == "plain", "though it came later"


def test_a_look_is_not_forgotten_for_the_answers_of_others() -> None:
    engine = asking_nodes_one_by_one(MANY)
    assert not decide_once(engine), "it is not done yet"
    inventory, answers = engine.cluster.claims.inventory, engine.cluster.claims.answers
    for number in range(200):
        answers.of((ClaimUse("", f"default/{number}"),), MANY)

    while not decide_once(engine):
        continue

    assert inventory.gathered <= MANY * 65, "every node was asked once"


def test_a_pod_that_goes_during_a_look_is_not_tried() -> None:
    pod = a_claiming_pod("p", "c")
    engine = asking_nodes_one_by_one(MANY, pod)
    assert not decide_once(engine)
    assert engine.queue.counts()[Pool.ACTIVE] == 1

    engine.handle(events.PodGone(pod), now=0.0)

    assert engine.decide(now=0.0) is None


def test_many_pods_that_use_one_claim_are_looked_at_over_several_turns() -> None:
    engine = engine_with()
    for number in range(5000):
        see(engine, a_claiming_pod(f"p{number}", "c"))
    queue = engine.queue
    assert queue.counts()[Pool.GATED] == 5000

    show(engine, a_claim())
    left = queue.counts()[Pool.GATED]
    assert 2500 < left < 5000, "not all in one turn"
    assert engine.wake_at_s() == 0.0
    while engine.wake_at_s() == 0.0:
        before, tried = queue.counts()[Pool.GATED], engine.decide(now=0.0)
        assert before - queue.counts()[Pool.GATED] < 2500
        assert tried is not None

    assert not queue.counts()[Pool.GATED]
    engine.handle(events.ClaimObjectGone(a_claim()), now=1.0)
    while engine.wake_at_s() == 0.0:
        engine.decide(now=1.0)
    assert queue.counts()[Pool.GATED] == 5000


def test_a_rule_about_all_taints_is_carried_out_over_several_turns() -> None:
    names = tuple(f"n{number}" for number in range(1500))
    engine = engine_with(*(a_slice(name, "gpu-0") for name in names), a_claim(), nodes=names)
    see(engine, a_claiming_pod("p", "c"))
    taint = DeviceTaint("k", "v", "NoSchedule")
    show(engine, DeviceTaintRule("r", taint, has_selector=True, driver=DRIVER))
    changed, turns = engine.cluster.claims.inventory.changed, 0
    assert changed is None, "nothing is published before it is asked for"

    while not (told := decide_once(engine)):
        turns += 1

    assert turns > 1
    assert isinstance(told[0], AnnounceFailure)
    assert "1500 cannot allocate all claims" in told[0].message


def for_all_nodes(name: str, count: int, **more: object) -> ResourceSlice:
    part = a_slice("n1", *(f"gpu-{number}" for number in range(count)), name=name, **more)
    return replace(part, nodes=DeviceNodes(all_nodes=True))


def test_slices_of_no_single_node_list_a_limited_number_of_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claiming, "MOST_SHARED", 4)
    four, more = for_all_nodes("four", 4, pool="all"), for_all_nodes("more", 1, pool="more")
    engine = engine_with(four, more, a_slice("n2", "gpu-0"))
    pools = engine.cluster.claims.inventory
    assert {pool.key[1]: len(pool.devices) for pool in pools.on("n2", {}).pools} == {
        "": 0, "all": 4, "n2": 1
    }  # fmt: skip
    show(engine, replace(four, version="2", devices=four.devices[:3]), more, now=3.0)
    assert {pool.key[1] for pool in pools.on("n2", {}).pools} == {"all", "more", "n2"}
    for part in (four, more):
        engine.handle(events.ClaimObjectGone(part), now=4.0)
    assert pools.shared_devices == 0


def test_what_nodes_look_at_in_pools_that_cannot_be_used_counts() -> None:
    """All devices have their names twice."""
    both = (for_all_nodes(name, 64, pool="all", slice_count=2) for name in ("one", "two"))
    inventory = engine_with(*both).cluster.claims.inventory
    before = inventory.gathered
    (pool,) = inventory.on("n1", {}).pools
    assert pool.invalid
    assert inventory.gathered - before >= 128 // 8


def test_which_devices_are_for_a_node_is_not_looked_up_device_by_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = for_all_nodes("each", 64, pool="all")
    named = tuple(
        replace(device, form=replace(device.form, nodes=DeviceNodes(f"n{at}")))
        for at, device in enumerate(part.devices)
    )
    part = replace(part, nodes=DeviceNodes(), per_device=True, devices=named)
    inventory = engine_with(part).cluster.claims.inventory
    looked: list[object] = []
    monkeypatch.setattr(shared_slices, "serves", lambda nodes, *_: looked.append(nodes))
    assert inventory.on("n63", {}).pools
    assert not inventory.on("n64", {}).pools
    assert not looked


def test_a_node_that_lists_too_many_devices_stops_claims_on_itself_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claiming, "MOST_DEVICES", 4)
    four = a_slice("n1", *(f"gpu-{number}" for number in range(4)), slice_count=2)
    more = a_slice("n1", "gpu-9", name="more", slice_count=2)
    forged = a_slice("n1", "gpu-0", name="forged", pool="n2", generation=2**60)
    engine = engine_with(four, more, a_slice("n2", "gpu-0"), forged, a_claim(), a_claim("d"))
    assert bind(engine, a_claiming_pod("p", "c")) == "n2"
    see(engine, a_claiming_pod("q", "d"))
    (told,) = decide(engine, now=2.0)
    assert isinstance(told, AnnounceFailure)

    show(engine, replace(four, devices=four.devices[:3]), more, now=3.0)

    asked, _ = prepared(decide(engine, now=40.0))
    assert asked.node == "n1"
