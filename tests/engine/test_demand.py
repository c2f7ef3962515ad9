"""The engine counts pods once, and follows the prices that it is told."""

from dataclasses import replace

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.cluster.demand import Demand
from fairlead.engine.events import BindDone, PricesComputed
from fairlead.engine.instructions import Bind
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.prices import PodShape
from fairlead.testing.drawn import PRICES


def test_a_pod_is_counted_once() -> None:
    engine = an_engine(a_node("n1"))
    pod = a_pod("p", gpus=1)
    see(engine, pod, pod)
    (bind,) = decide(engine)
    engine.handle(BindDone(pod.uid), now=0.0)
    see(engine, replace(pod, node=bind.node))
    see(engine, a_pod("there-before", gpus=2, node="n1", scheduler="theirs"))
    see(engine, a_pod("not-ours", cpu=100, node="n1", scheduler="theirs"))
    assert engine.demand.seen == 2
    assert sorted(shape.gpus for shape, _ in engine.basis().pods) == [1, 2]


def test_gpus_are_counted_by_model() -> None:
    listed = Inventory((Gpu("GPU-0", 0, "H100", 80_000), Gpu("GPU-1", 1, "H100", healthy=False)))
    engine = an_engine(a_node("n1", inventory=listed), a_node("n2", gpus=4))
    assert dict(engine.basis().gpus) == {"H100": 1, "": 4}


def test_memory_alone_is_a_share_of_a_gpu() -> None:
    demand = Demand()
    demand.add(a_pod(gpu_request=GpuRequest(1, False, 0, 20_000, dialect="fairlead")).request)
    assert demand.shapes(gpu_mib=80_000) == ((PodShape(0, 0, 1, 250), 1),)


def test_it_forgets_what_is_long_ago() -> None:
    demand = Demand()
    for _ in range(10):
        demand.add(a_pod(gpus=8).request)
    for number in range(5000):
        demand.add(a_pod(gpus=1, cpu=number + 1).request)
    counts = dict(demand.shapes(0))
    assert demand.seen == 5010
    assert sum(counts.values()) < 5000
    assert counts[PodShape(0, 0, 8, 1000)] == 5


def test_new_prices_are_heeded_by_the_next_decision() -> None:
    def listed(model: str) -> Inventory:
        return Inventory((Gpu(f"GPU-{model}", 0, model), Gpu(f"GPU-{model}-2", 1, model)))

    engine = an_engine(
        a_node("a", gpus=2, inventory=listed("H100")),
        a_node("b", gpus=2, inventory=listed("T4")),
    )
    ask = {"gpus": 1, "gpu_request": GpuRequest(1)}
    see(engine, a_pod("first", **ask))
    first = decide(engine)
    engine.handle(PricesComputed(PRICES), now=0.0)
    see(engine, a_pod("second", **ask))
    second = decide(engine)
    nodes = [made.node for made in (*first, *second) if isinstance(made, Bind)]
    assert nodes == ["a", "b"], "somebody insists on an H100"
