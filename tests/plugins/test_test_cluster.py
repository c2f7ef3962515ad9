"""What `fairlead.testing` offers authors of plugins."""

from dataclasses import dataclass
from random import Random
from typing import ClassVar

import numpy as np
import pytest

from fairlead.plugin import GPU, Aspect, PluginFault
from fairlead.testing import (
    Placed,
    Refused,
    TestCluster,
    a_gpu_node,
    a_node,
    a_pod,
    gpu_share,
)
from fairlead.testing.drawn import draw_cluster


@dataclass(frozen=True)
class KeepsSpares:
    name: ClassVar[str] = "KeepsSpares"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE
    refusal: ClassVar[str] = "node(s) would have no spare GPU"
    resolvable: ClassVar[bool] = True

    def allows(self, request, nodes):
        return nodes.free(GPU) > request.amount(GPU)


class Last:
    name: ClassVar[str] = "Last"

    def pick(self, request, nodes, scores):
        return len(nodes) - 1


class Fails:
    name: ClassVar[str] = "Fails"
    reads: ClassVar[Aspect] = Aspect.USAGE

    def rate(self, request, nodes):
        raise ValueError("on purpose")


class Emptiest:
    name: ClassVar[str] = "Emptiest"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE

    def rate(self, request, nodes):
        return np.clip(10.0 * nodes.free(GPU), 0, 100)


def test_a_pod_is_placed_and_stays() -> None:
    cluster = TestCluster(a_node("a", gpus=2))
    pod = a_pod(gpus=2)

    assert isinstance(cluster.place(pod), Placed)
    assert isinstance(cluster.place(a_pod("q", gpus=1)), Refused)
    cluster.remove(pod)
    assert isinstance(cluster.place(a_pod("r", gpus=1)), Placed)


def test_a_refusal_has_its_reasons_in_all_and_by_node() -> None:
    cluster = TestCluster(a_node("a", gpus=2), a_node("b", gpus=4), filters=[KeepsSpares()])
    pod = a_pod(gpus=2)

    assert cluster.reasons(pod) == {"a": ("node(s) would have no spare GPU",), "b": ()}
    cluster.add(a_node("b", gpus=1))
    verdict = cluster.place(pod)

    assert isinstance(verdict, Refused)
    assert "1 node(s) would have no spare GPU" in verdict.message
    assert ("Insufficient nvidia.com/gpu", 1) in verdict.reasons


def test_scores_and_pickers_under_test_decide() -> None:
    nodes = a_node("a", gpus=4), a_node("b", gpus=8)
    there = a_pod("there", gpus=1, node="a")

    assert TestCluster(*nodes, scores=[Emptiest()]).place(a_pod(gpus=1)).node == "b"
    scored = TestCluster(*nodes, pods=[there], scores=[Emptiest()])
    assert scored.totals(a_pod(gpus=1)) == {"a": 30.0, "b": 80.0}
    assert TestCluster(*nodes[::-1], picker=Last()).place(a_pod(gpus=1)).node == "a"


def test_shares_get_individual_gpus() -> None:
    cluster = TestCluster(a_gpu_node("a", gpus=2))
    uses = [cluster.place(a_pod(f"p{n}", gpu_request=gpu_share(600))).grant.uses for n in range(2)]

    assert {use.uuid for (use,) in uses} == {"GPU-a-0", "GPU-a-1"}
    assert cluster.reasons(a_pod(gpu_request=gpu_share(600))) == {
        "a": ("node(s) had no GPU with a large enough free share",)
    }


def test_a_plugin_that_fails_is_named_with_its_line() -> None:
    cluster = TestCluster(a_node("a"), scores=[Fails()])

    with pytest.raises(
        PluginFault, match=r"score Fails \(.*test_test_cluster.py:\d+\): ValueError"
    ):
        cluster.place(a_pod())


def test_a_drawn_cluster_is_the_same_for_the_same_seed() -> None:
    first, second = (TestCluster.drawn(5).nodes.free(GPU).tolist() for _ in range(2))
    assert first == second


def test_drawn_clusters_have_whole_gpus_and_shares_in_use_and_none_is_given_twice() -> None:
    whole = shared = unknown = 0
    for seed in range(12):
        cluster = draw_cluster(Random(seed)).build()
        gpus = cluster.nodes.gpus
        whole += int((gpus.wholes() > 0).sum())
        shared += int(((gpus.users() > 0) & (gpus.wholes() == 0)).sum())
        unknown += int(gpus.elsewhere().sum())
        assert gpus.wholes().max(initial=0) <= 1
        assert gpus.milli_free().min(initial=0) >= 0
    assert whole > 50
    assert shared > 50
    assert unknown > 0
