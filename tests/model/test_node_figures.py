"""Which figure a node has, by rules, labels and price sheets."""

import pytest

from builders import a_node
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, Inventory
from fairlead.model.node_figures import (
    CAPACITY,
    LABEL,
    NAME,
    PROVIDER_ID,
    Figure,
    FigureIndex,
    FigureList,
    FigureRule,
    SeenFigures,
)
from fairlead.model.nodes import Node

ZONE = f"{LABEL}topology.kubernetes.io/zone"


def a_machine(name: str = "n", gpus: int = 4, **labels: str) -> Node:
    known = {"spot": ("karpenter.sh/capacity-type", "spot")}
    known |= {"zone": ("topology.kubernetes.io/zone", labels.get("zone", ""))}
    found = {known[key][0]: known[key][1] for key in labels if key in known}
    found |= {key.replace("_", "/"): value for key, value in labels.items() if key not in known}
    return a_node(name, gpus=gpus, labels=found)


def figure(node: Node, *rules: FigureRule, gpus: int = 4) -> float | None:
    return FigureIndex.of(FigureList("test", rules)).figure(node, gpus)


def test_the_first_rule_that_matches_counts() -> None:
    rules = (
        FigureRule(((CAPACITY, "spot"), (ZONE, "a")), 1.0),
        FigureRule(((CAPACITY, "spot"),), 2.0),
        FigureRule((), 9.0),
    )
    assert figure(a_machine(spot="", zone="A"), *rules) == 1.0
    assert figure(a_machine(spot="", zone="b"), *rules) == 2.0
    assert figure(a_machine(), *rules) == 9.0
    assert figure(a_machine(spot="", zone="A"), *reversed(rules)) == 9.0


def test_node_and_gpus_add_up_as_in_a_price_sheet() -> None:
    rules = FigureRule(((NAME, "n"),), 1.5), FigureRule((), 2.0, per_gpu=True)
    assert figure(a_machine("n"), *rules) == 9.5
    assert figure(a_machine("other"), *rules) == 8.0
    assert figure(a_machine("other", gpus=0), *rules, gpus=0) is None


def test_a_model_is_found_in_the_inventory_or_the_label() -> None:
    rule = FigureRule((), 3.0, per_gpu=True, model="h100")
    listed = Inventory((Gpu("GPU-1", 0, "NVIDIA H100 80GB HBM3", 80 << 10),))
    by_label = a_machine(**{"nvidia.com_gpu.product": "NVIDIA-H100-PCIe"})
    assert figure(Node("n", inventory=listed), rule, gpus=1) == 3.0
    assert figure(by_label, rule) == 12.0
    assert figure(a_machine(), rule) is None


@pytest.mark.parametrize(
    ("provider_id", "said"), [("aws:///eu-1a/i-07", "i-07"), ("azure:///VM/1", "azure:///vm/1")]
)
def test_machines_are_named_as_price_sheets_name_them(provider_id: str, said: str) -> None:
    rule = FigureRule(((PROVIDER_ID, said),), 1.0)
    assert figure(Node("n", provider_id=provider_id), rule) == 1.0


@pytest.mark.parametrize(
    ("text", "found"), [("3.25", 3.25), ("-1", None), ("nan", None), ("1e9", None), ("x", None)]
)
def test_a_label_has_the_figure_itself(text: str, found: float | None) -> None:
    index = FigureIndex.of(FigureList("label", label="example.com/price"))
    assert index.figure(a_node("n", labels={"example.com/price": text}), 0) == found
    assert index.figure(a_node("n"), 0) is None


# -- columns --------------------------------------------------------------------------------------


def by_name(**prices: float) -> SeenFigures:
    rules = tuple(FigureRule(((NAME, name),), price) for name, price in prices.items())
    return SeenFigures(Figure.PRICE, (FigureList("names", rules),))


def prices(cluster: Cluster) -> list[float]:
    return cluster.nodes.figure(Figure.PRICE).tolist()


def test_a_node_without_a_figure_has_the_median_of_the_others() -> None:
    cluster = Cluster()
    for name in "abcd":
        cluster.put_node(a_node(name))
    assert prices(cluster) == [0.0] * 4
    cluster.put_figures(by_name(a=1.0, b=2.0, c=30.0))
    assert prices(cluster) == [1.0, 2.0, 30.0, 2.0]
    cluster.put_figures(by_name())
    assert prices(cluster) == [0.0] * 4, "where nothing is known, no node is preferred"


def test_figures_follow_nodes_that_come_and_change() -> None:
    cluster = Cluster()
    spot = SeenFigures(Figure.PRICE, (
        FigureList("table", (FigureRule(((CAPACITY, "spot"),), 1.0), FigureRule((), 4.0))),
    ))  # fmt: skip
    cluster.put_figures(spot)
    cluster.put_node(a_machine("a"))
    assert prices(cluster) == [4.0]
    cluster.put_node(a_machine("a", spot=""))
    assert prices(cluster) == [1.0]
    for number in range(100):
        cluster.put_node(a_machine(f"n{number}"))
    assert prices(cluster) == [1.0, *[4.0] * 100]


def test_the_first_source_that_knows_a_node_counts() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("a"))
    lists = FigureList("first", ()), FigureList("second", (FigureRule((), 2.0),))
    cluster.put_figures(SeenFigures(Figure.PRICE, lists))
    assert prices(cluster) == [2.0]
    assert cluster.columns.figures.source_of(Figure.PRICE, cluster.node_at(0)) == "second"
