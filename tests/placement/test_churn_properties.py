"""A cluster that has seen much come and go answers as one that was made from what is left."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node, a_pod, a_taint, pod_term
from examples import examples
from fairlead.apps.config.profiles import KUBE, built_in
from fairlead.cluster import columns
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, Inventory, MigProfile
from fairlead.model.nodes import Node
from fairlead.model.pods import NodeTerm, Pod, Toleration
from fairlead.model.prices import PodShape, Prices
from fairlead.model.selectors import Requirement
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Verdict

RESOURCES = [f"example.com/r{n}" for n in range(8)]
_VALUES = st.sampled_from(["a", "b", "c", "1", "2", "3"])
_MODELS = ["NVIDIA A100-SXM4-40GB", "NVIDIA H200", "Tesla T4", "NVIDIA A30"]
_CUTS = [(), (MigProfile("1g.10gb", 1, (0, 1, 2)),), (MigProfile("2g.20gb", 2, (0, 2)),)]
_ASKS = [None, GpuRequest(1, models=frozenset({"H200"})), GpuRequest(1, profile="1g.10gb")]

_amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 3), max_size=3)
_labels = st.dictionaries(st.sampled_from(["zone", "rank"]), _VALUES, max_size=2)
_taints = st.sets(st.sampled_from("xyz"), max_size=2)


@st.composite
def inventories(draw: st.DrawFn, name: str) -> Inventory | None:
    if draw(st.booleans()):
        return None
    count = draw(st.integers(1, 2))
    model, cut = draw(st.sampled_from(_MODELS)), draw(st.sampled_from(_CUTS))
    gpus = (Gpu(f"GPU-{name}-{n}", n, model, 40_000, mig=cut) for n in range(count))
    links = draw(st.sampled_from([(), ((0, 25), (25, 0)), ((0, 600), (600, 0))]))
    return Inventory(tuple(gpus), links if count == 2 else (), dialects=frozenset({"fairlead"}))


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(["n0", "n1", "n2", "n3", "n4"]))
    taints = tuple(a_taint(key) for key in sorted(draw(_taints)))
    return a_node(
        name, gpus=2, resources=draw(_amounts), labels=draw(_labels), taints=taints,
        inventory=draw(inventories(name)),
    )  # fmt: skip


@st.composite
def pods(draw: st.DrawFn, *, bound: bool) -> Pod:
    node = draw(st.sampled_from(["n0", "n1", "n2", "n5"])) if bound else ""
    terms = st.sampled_from([
        None,
        (NodeTerm((Requirement("zone", "In", ("a", "b")),)),),
        (NodeTerm((Requirement("rank", "Gt", ("1",)),)),),
    ])  # fmt: skip
    # What a pod asks of GPUs never changes: the ledger keeps what was given for the first ask.
    number = draw(st.integers(0, 7))
    ask = _ASKS[number % len(_ASKS)]
    tolerations = tuple(Toleration(key, "Exists") for key in sorted(draw(_taints)))
    apart = (pod_term("zone", app="x"),) if draw(st.integers(0, 4)) == 0 else ()
    return a_pod(
        uid=f"u{number}" if bound else "probe", node=node,
        priority=draw(st.integers(0, 2)), resources=draw(_amounts), labels={"app": "x"},
        node_terms=draw(terms), tolerations=tolerations, anti_affinity=apart,
        gpu_request=ask,
    )  # fmt: skip


steps = st.one_of(
    nodes(), nodes(), pods(bound=True), pods(bound=True), pods(bound=False),
    st.sampled_from(["n0", "n1", "n2", "n3", "n4", *(f"u{n}" for n in range(8))]),
)  # fmt: skip


@dataclass
class World:
    """A cluster, and placements that have asked it many things."""

    cluster: Cluster = field(default_factory=Cluster)
    placements: list[Placement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster.put_prices(_PRICES)
        for profile in (SCHEDULER, KUBE, "utilsched"):
            self.placements.append(Placement(built_in(profile), self.cluster))

    def take(self, step: Node | Pod | str) -> None:
        match step:
            case Node():
                self.cluster.put_node(step)
            case Pod() if step.node:
                self.cluster.confirm(step)
            case Pod():
                self.verdicts([step])
            case str():
                self.cluster.remove_node(step)
                self.cluster.remove(step)

    def verdicts(self, asking: Iterable[Pod]) -> list[Verdict]:
        return [placement.place(pod) for pod in asking for placement in self.placements]

    def made_again(self) -> "World":
        """The same objects in the same order, and nothing else."""
        fresh = World()
        for node in self.cluster.columns.nodes:
            if node is not None:
                fresh.cluster.put_node(node)
        for held in self.cluster.holdings.values():
            fresh.cluster.confirm(held.pod)
        return fresh

    def amounts(self) -> dict[str, dict[str, tuple[int, int]]]:
        """What each node offers of each resource, and what is taken."""
        seen, rows = self.cluster.nodes, self.cluster.row_of.items()
        return {
            resource: {
                name: (int(seen.allocatable(resource)[row]), int(seen.requested(resource)[row]))
                for name, row in rows
            }
            for resource in (*RESOURCES, "cpu", "pods")
        }


_PRICES = Prices(
    pods=1000, values=tuple(np.linspace(0, 1000, 101)), blocks=((2, 0.5),),
    pressure=((_MODELS[1], 0.7),),
    typical=((PodShape(1000, 0, 1, 500), 0.5), (PodShape(4000, 0, 2), 0.5)),
    cpu_milli_per_gpu=8000.0, memory_bytes_per_gpu=1e10,
)  # fmt: skip


@pytest.mark.parametrize("most", [8, columns.MOST_RESOURCES])
def test_a_cluster_after_churn_answers_as_a_fresh_one(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MOST_RESOURCES", most)

    @examples(50)
    @given(st.lists(steps, min_size=10, max_size=50), st.lists(pods(bound=False), min_size=4))
    def churned(story: list[Node | Pod | str], probes: list[Pod]) -> None:
        world = World()
        for step in story:
            world.take(step)
        fresh = world.made_again()
        assert [told(v) for v in world.verdicts(probes)] == [
            told(v) for v in fresh.verdicts(probes)
        ]
        assert world.amounts() == fresh.amounts()
        assert len(world.cluster.columns.resource_index) <= most

    churned()


def told(verdict: Verdict) -> tuple[object, ...]:
    if isinstance(verdict, Placed):
        return verdict.node, verdict.score, verdict.grant
    return verdict.message, verdict.eviction
