"""One ledger: claims, pods of a device plugin, shares and processes never have the same GPU.

The numbers are those of the cases that are known to allocate a device twice elsewhere.
"""

from dataclasses import replace
from typing import Any

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from claim_objects import (
    GPU_CLASS,
    a_claim,
    a_claiming_pod,
    a_gpu_device,
    a_slice,
    an_allocation,
)
from fairlead.cluster.checking import wrong_nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, Prepare
from fairlead.model.claims import (
    ALL_DEVICES,
    AllocatedDevice,
    Allocation,
    ClaimObject,
    DeviceNeed,
    DeviceRequest,
)
from fairlead.model.devices import CounterSet, Device, DeviceForm
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep

EIGHT = [f"gpu-{n}" for n in range(8)]


def show(engine: Engine, *objects: ClaimObject, now: float = 0.0) -> None:
    for each in objects:
        engine.handle(events.ClaimObjectSeen(each), now=now)


def on(node: Node, *objects: ClaimObject) -> Engine:
    engine = an_engine(node)
    show(engine, GPU_CLASS, *objects)
    return engine


def a_listed_node(gpus: int = 8, healthy: int | None = None, **more: Any) -> Node:
    """A node whose agent lists its GPUs."""
    good = gpus if healthy is None else healthy
    listed = tuple(Gpu(f"GPU-n1-{n}", n, "H100", 81_559, healthy=n < good) for n in range(gpus))
    inventory = Inventory(listed, dialects=frozenset({"fairlead"}))
    return a_node("n1", gpus=more.pop("offered", 0), inventory=inventory, **more)


def plugin_pod(name: str, **more: Any) -> Pod:
    return a_pod(name, gpus=1, gpu_request=GpuRequest(1), **more)


def devices_of(made: object) -> list[str]:
    assert isinstance(made, Prepare), made
    (step,) = made.steps
    assert isinstance(step, ClaimStep)
    return [device.device for write in step.writes if write.allocation
            for device in write.allocation.devices]  # fmt: skip


def chosen(engine: Engine, claim: str = "c", now: float = 0.0) -> list[str]:
    """The devices that a new pod gets for its claim; nothing if it is refused."""
    see(engine, a_claiming_pod(f"pod-of-{claim}", claim), now=now)
    (made,) = decide(engine, now=now)
    return [] if isinstance(made, AnnounceFailure) else devices_of(made)


def refusal(engine: Engine, pod: Pod) -> str:
    see(engine, pod)
    (made,) = decide(engine)
    assert isinstance(made, AnnounceFailure), made
    return made.message


def check(engine: Engine) -> None:
    assert wrong_nodes(engine.cluster, ["n1"]) == []


def test_1_a_claim_gets_no_gpu_that_a_device_plugin_may_have_assigned() -> None:
    engine = on(a_node("n1", gpus=8), a_slice("n1", *EIGHT), a_claim())
    see(engine, *(plugin_pod(f"p{n}", node="n1") for n in range(8)))

    message = refusal(engine, a_claiming_pod("p", "c"))

    assert "1 cannot allocate all claims" in message
    assert "1 node(s) had GPUs in use by pods without claims" in message


def test_2_a_pod_of_a_device_plugin_gets_no_gpu_of_a_claim() -> None:
    claims = [a_claim(f"c{n}", allocation=an_allocation("n1", f"gpu-{n}")) for n in range(8)]
    engine = on(a_node("n1", gpus=8), a_slice("n1", *EIGHT), *claims)

    assert "1 Insufficient nvidia.com/gpu" in refusal(engine, plugin_pod("p"))
    check(engine)

    show(engine, a_claim("c3"), now=1.0)
    (made,) = decide(engine, now=30.0)
    assert isinstance(made, Bind)
    check(engine)


def test_3_pods_of_a_device_plugin_keep_their_gpus_when_it_is_removed() -> None:
    engine = on(a_node("n1", gpus=8), a_slice("n1", *EIGHT), a_claim())
    see(engine, plugin_pod("p0", node="n1"))
    engine.handle(events.NodeSeen(a_node("n1", gpus=0)), now=0.0)

    assert chosen(engine) == []


def test_4_a_gpu_with_shares_goes_to_no_claim() -> None:
    engine = on(a_listed_node(), a_slice("n1", *EIGHT), a_claim())
    share = Grant((GpuUse("GPU-n1-0", whole=False, milli=500),), dialect="fairlead")
    ask = GpuRequest(1, whole=False, milli=500, dialect="fairlead")
    see(engine, a_pod("share", node="n1", grant=share, gpu_request=ask))

    assert chosen(engine) == ["gpu-1"], "the first device that is free"


def test_4_a_gpu_of_a_claim_gets_no_shares() -> None:
    held = a_claim("c0", allocation=an_allocation("n1", "gpu-0"))
    engine = on(a_listed_node(gpus=1), a_slice("n1", "gpu-0"), held)
    ask = GpuRequest(1, whole=False, milli=100, dialect="fairlead")

    assert refusal(engine, a_pod("share", gpu_request=ask))
    check(engine)
    show(engine, a_claim("c0"), now=1.0)
    (made,) = decide(engine, now=30.0)
    assert isinstance(made, Bind)
    assert made.grant is not None
    assert made.grant.uses[0].uuid == "GPU-n1-0"


def test_5_two_devices_of_one_gpu_are_not_both_held() -> None:
    both = (a_gpu_device("gpu-0", "GPU-x"), a_gpu_device("gpu-vfio-0", "GPU-x", type="vfio"))
    engine = on(a_node("n1", gpus=0), a_slice("n1", *both), a_claim("a"), a_claim("b"))
    assert chosen(engine, "a") == ["gpu-0"]

    assert chosen(engine, "b") == []

    engine = on(a_node("n1", gpus=0), a_slice("n1", *both), a_claim("a", count=2))
    assert chosen(engine, "a") == [], "nor by one claim"


def test_5_a_pci_address_tells_which_gpu_another_driver_publishes() -> None:
    bus = "resource.kubernetes.io/pciBusID"
    ours = a_gpu_device("gpu-0", "GPU-x", **{bus: "0000:1B:00.0"})
    theirs = Device(DeviceForm("dev-0"), (("other.example/pciAddress", "0000:1b:00.0"),))
    other = a_slice("n1", theirs, name="other", driver="vfio.example")
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"))
    need = DeviceRequest("r", DeviceNeed("any"))
    engine = on(a_node("n1", gpus=0), a_slice("n1", ours), other, held)
    show(engine, replace(GPU_CLASS, name="any", selectors=()), a_claim("b", requests=(need,)))

    assert chosen(engine, "b") == []


def test_a_claim_that_is_shown_before_its_slice_holds_the_gpu() -> None:
    ours = a_gpu_device("gpu-0", "GPU-n1-0", pciBusID="0000:1b:00.0")
    theirs = Device(DeviceForm("dev-0"), (("other.example/pciAddress", "0000:1b:00.0"),))
    result = AllocatedDevice("r", "vfio.example", "pool-1", "dev-0")
    engine = on(a_listed_node(1), a_claim("a", allocation=Allocation((result,))))
    show(engine, a_slice("n1", theirs, name="other", driver="vfio.example", pool="pool-1"))
    show(engine, a_slice("n1", ours))

    assert "n1" in engine.cluster.claim_gpus.charged
    check(engine)
    show(engine, a_claim("b"))
    assert chosen(engine, "b") == []

    engine.handle(events.ClaimObjectGone(a_claim("a")), now=1.0)

    assert not engine.cluster.claim_gpus.charged


def partitions() -> tuple[Any, ...]:
    """One GPU with two memory slices, as NVIDIA's driver publishes it for dynamic MIG."""
    total = (("memory-slice-0", 1), ("memory-slice-1", 1))
    counters = a_slice("n1", name="a", slice_count=2, counter_sets=(CounterSet("set", total),))
    whole = Device(DeviceForm("gpu-0", consumes=(CounterSet("set", total),)),
                   (("type", "gpu"), ("uuid", "GPU-n1-0")))  # fmt: skip
    parts = tuple(
        Device(
            DeviceForm(f"gpu-0-mig-{n}", consumes=(CounterSet("set", (total[n],)),)),
            (("parentUUID", "GPU-n1-0"), ("type", "mig")),
        )
        for n in range(2)
    )
    return counters, a_slice("n1", whole, *parts, name="b", slice_count=2)


def test_6_slices_of_a_gpu_are_kept_apart_by_counters() -> None:
    claims = [a_claim(name) for name in ("a", "b", "c")]
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0-mig-0"))
    engine = on(a_node("n1", gpus=0), *partitions(), *claims, held)

    assert chosen(engine, "b") == ["gpu-0-mig-1"]
    assert chosen(engine, "c") == []


def test_6_a_slice_takes_its_gpu_from_pods_without_claims() -> None:
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0-mig-0"))
    engine = on(a_listed_node(gpus=1), *partitions(), held)

    assert refusal(engine, a_pod("share", gpu_request=GpuRequest(
        1, whole=False, milli=100, dialect="fairlead")))  # fmt: skip


def test_12_a_claim_that_is_allocated_anew_between_two_looks_holds_the_new_devices() -> None:
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"), version="1")
    engine = on(a_node("n1", gpus=0), a_slice("n1", "gpu-0", "gpu-1"), held, a_claim("b"))

    show(engine, replace(held, allocation=an_allocation("n1", "gpu-1"), version="2"))

    assert chosen(engine, "b") == ["gpu-0"]


def test_13_a_claim_of_the_same_name_adopts_nothing() -> None:
    engine = on(a_node("n1", gpus=0), a_slice("n1", "gpu-0", "gpu-1"), a_claim("a"))
    assert chosen(engine, "a") == ["gpu-0"]
    pod = next(uid for uid, _ in engine.in_flight)

    engine.handle(events.ClaimObjectGone(a_claim("a")), now=1.0)
    show(engine, a_claim("a", uid="u-new"), a_claim("b"), now=1.0)
    assert chosen(engine, "b", now=1.0) == ["gpu-1"], "the write may still succeed"

    engine.handle(events.PrepareFailed(pod, "gone"), now=2.0)
    assert engine.cluster.claims.held.keys() == {"u-b"}


def test_15_a_claim_that_two_pods_use_is_counted_once() -> None:
    held = a_claim(allocation=an_allocation("n1", "gpu-0"))
    engine = on(a_node("n1", gpus=2), a_slice("n1", "gpu-0", "gpu-1"), held)
    see(engine, *(a_claiming_pod(f"p{n}", "c", node="n1") for n in range(2)))

    see(engine, plugin_pod("p"), a_pod("q"))
    assert [type(made) for made in decide(engine)] == [Bind, Bind]
    check(engine)


def test_16_a_gpu_that_the_agent_withholds_goes_to_no_claim() -> None:
    engine = on(a_listed_node(gpus=2, healthy=1), a_slice("n1", "gpu-1", "gpu-0"), a_claim())

    assert chosen(engine) == ["gpu-0"]


def test_17_a_pool_that_is_half_published_gives_nothing() -> None:
    old = a_slice("n1", "gpu-0", "gpu-1")
    half = a_slice("n1", "gpu-0", name="new", generation=2, slice_count=2)
    engine = on(a_node("n1", gpus=0), old, half, a_claim("a"))

    assert chosen(engine, "a") == []

    show(engine, a_slice("n1", "gpu-1", name="newer", generation=2, slice_count=2), now=1.0)
    (made,) = decide(engine, now=30.0)
    assert devices_of(made) == ["gpu-0"]


@pytest.mark.parametrize("after", ["gone", "renamed", "without a UUID"])
def test_18_a_device_that_vanishes_is_still_held(after: str) -> None:
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"))
    published = a_slice("n1", "gpu-0")
    engine = on(a_node("n1", gpus=1), published, held, a_claim("b"))
    if after == "gone":
        engine.handle(events.ClaimObjectGone(published), now=0.0)
    elif after == "renamed":
        show(engine, a_slice("n1", a_gpu_device("gpu-7", "GPU-n1-0"), generation=2))
    else:
        show(engine, a_slice("n1", Device(DeviceForm("gpu-0")), generation=2))

    assert chosen(engine, "b") == []
    assert "Insufficient nvidia.com/gpu" in refusal(engine, plugin_pod("p"))
    check(engine)


def test_21_all_devices_are_not_all_while_one_is_held_otherwise() -> None:
    need = DeviceNeed("gpu", mode=ALL_DEVICES, count=0)
    every = a_claim(requests=(DeviceRequest("r", need),))
    engine = on(a_listed_node(), a_slice("n1", *EIGHT), every)
    see(engine, plugin_pod("p", node="n1", grant=Grant((GpuUse("GPU-n1-3"),))))

    assert chosen(engine) == []


def test_the_ledger_follows_its_node_and_its_inventory() -> None:
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"))
    engine = an_engine()
    show(engine, GPU_CLASS, held, a_slice("n1", "gpu-0"))
    for node in (a_node("n1", gpus=1), a_listed_node(gpus=1), a_listed_node(gpus=2, offered=2)):
        engine.handle(events.NodeSeen(node), now=0.0)
        check(engine)
    engine.handle(events.NodeGone("n1"), now=0.0)
    engine.handle(events.NodeSeen(a_node("n1", gpus=1)), now=0.0)
    check(engine)

    assert "Insufficient nvidia.com/gpu" in refusal(engine, plugin_pod("p"))


def test_19_nothing_is_placed_on_nodes_that_publish_the_same_gpu() -> None:
    forged = a_slice("n2", a_gpu_device("gpu-0", "GPU-n1-0"))
    engine = on(a_node("n1", gpus=0), a_slice("n1", "gpu-0"), forged, a_claim())
    engine.handle(events.NodeSeen(a_node("n2", gpus=0)), now=0.0)

    message = refusal(engine, a_claiming_pod("p", "c"))

    assert "2 node(s) had an object that could not be read" in message
    engine.handle(events.ClaimObjectGone(forged), now=1.0)
    (made,) = decide(engine, now=30.0)
    assert isinstance(made, Prepare)
    assert made.node == "n1"


def test_19_each_node_that_publishes_the_gpu_of_others_is_judged() -> None:
    """Only nodes whose state changes are looked at: thousands could publish one GPU."""
    names = ("n1", "n2", "n3")
    slices = {name: a_slice(name, a_gpu_device("gpu-0", "GPU-x")) for name in names}
    engine = an_engine(*(a_node(name, gpus=0) for name in names))

    def distrusted() -> set[str]:
        rows = engine.cluster.row_of
        return {name for name in names if engine.cluster.columns.distrusted[rows[name]]}

    show(engine, slices["n1"])
    assert distrusted() == set()
    show(engine, slices["n2"])
    assert distrusted() == {"n1", "n2"}
    show(engine, slices["n3"])
    assert distrusted() == set(names)
    engine.handle(events.ClaimObjectGone(slices["n1"]), now=1.0)
    assert distrusted() == {"n2", "n3"}
    engine.handle(events.ClaimObjectGone(slices["n3"]), now=1.0)
    assert distrusted() == set()
    show(engine, slices["n1"], slices["n3"])
    assert distrusted() == set(names)
