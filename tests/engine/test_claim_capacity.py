"""Queues of a cluster whose GPUs only a DRA driver publishes."""

from dataclasses import replace

from test_extended_resources import MAPPED, bind, engine_with, gpu_pod, show

from builders import a_node, decide, see
from claim_objects import a_device, a_gpu_device, a_slice
from fairlead.cluster.capacity import capacity, held
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.model.devices import ResourceSlice
from fairlead.model.queues import GPUS, GPUS_OF_MODEL, QueueSpec

H100 = GPUS_OF_MODEL + "H100"


def published(node: str, *numbers: int, **more: object) -> ResourceSlice:
    product = {"productName": "NVIDIA H100 80GB HBM3"}
    gpus = (a_gpu_device(f"gpu-{n}", f"GPU-{node}-{n}", **product) for n in numbers)
    return a_slice(node, *gpus, **more)


def gpus_of(engine: Engine) -> dict[str, int]:
    return capacity(engine.cluster, (GPUS, H100))


def test_gpus_that_only_a_driver_publishes_are_capacity() -> None:
    engine = engine_with(published("n1", 0, 1), published("n2", 0))
    assert gpus_of(engine) == {GPUS: 3000, H100: 3000}
    show(engine, published("n1", 0, generation=2))
    assert gpus_of(engine) == {GPUS: 2000, H100: 2000}
    engine.handle(events.ClaimObjectGone(published("n1", 0, generation=2)), now=1.0)
    engine.handle(events.NodeGone("n2"), now=1.0)
    assert gpus_of(engine) == {}


def test_each_gpu_is_counted_once() -> None:
    """A device plugin offers it, too, or it is published whole and in parts."""
    parts = (a_device(f"gpu-0-mig-{n}", parentUUID="GPU-dra-0") for n in range(7))
    part = published("dra", 0)
    part = replace(part, devices=(*part.devices, *parts))
    nodes = (a_node("plugin", gpus=2), a_node("dra", gpus=0))
    engine = engine_with(published("plugin", 0, 1), part, nodes=nodes)
    assert gpus_of(engine)[GPUS] == 3000


def test_what_claims_hold_is_held_once() -> None:
    engine = engine_with(MAPPED, published("n1", 0, 1, 2))
    bind(engine, gpu_pod("a", 2), "made-a")
    assert held(engine.cluster, (GPUS,)) == {GPUS: 2000}


def test_queues_share_gpus_that_only_a_driver_publishes() -> None:
    engine = engine_with(MAPPED, published("n1", 0, 1, 2, 3))
    engine.handle(events.QueueKindSeen("fairlead", is_served=True), now=0.0)
    for name in ("a", "b"):
        engine.handle(events.QueueSeen(QueueSpec(f"fairlead/{name}")), now=0.0)
    mine = replace(gpu_pod("x", 2), queue="fairlead/a")
    bind(engine, mine, "made")
    see(engine, replace(gpu_pod("y", 2), queue="fairlead/b"), now=5.0)
    decide(engine, now=5.0)
    assert engine.queues.order.shares.totals[GPUS] == 4000
