"""A pod placed within some nodes is placed as in a cluster that has only those."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_pod, drawn, pod_term
from drawn_worlds import World, worlds
from examples import examples
from fairlead.apps.config.profiles import NAMES, built_in
from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.placement.views import REFUSED


def rows_of(cluster: Cluster, names: set[str]) -> NodeMask:
    mask = np.zeros(cluster.columns.size, dtype=np.bool_)
    mask[[cluster.row_of[name] for name in names]] = True
    return mask


def unscored(verdict: Verdict) -> Verdict:
    """A relative score that applies because of nodes outside adds the same to all inside."""
    return replace(verdict, score=0.0) if isinstance(verdict, Placed) else verdict


@pytest.mark.parametrize("profile", NAMES)
def test_it_is_as_if_there_were_no_other_nodes(profile: str) -> None:
    @examples(15)
    @given(worlds(affine=False), st.sets(st.integers(0, 5)))
    def as_if(world: World, chosen: set[int]) -> None:
        nodes = tuple(node for n, node in enumerate(world.nodes) if n in chosen)
        alone = Placement(built_in(profile), replace(world, nodes=nodes).cluster())
        cluster = world.cluster()
        placement = Placement(built_in(profile), cluster)
        within = rows_of(cluster, {node.name for node in nodes})
        for pod in world.pending:
            ask = pod.request.gpu_request
            if not (ask and ask.map_slot):  # a map names its node: the message says if it is there
                assert unscored(placement.place(pod, within)) == unscored(alone.place(pod))

    as_if()


@examples(50)
@given(worlds(), st.sampled_from(NAMES), st.sets(st.integers(0, 5)))
def test_rules_about_the_cluster_still_see_all_of_it(
    world: World, profile: str, chosen: set[int]
) -> None:
    cluster = world.cluster()
    placement = Placement(built_in(profile), cluster)
    names = {node.name for n, node in enumerate(world.nodes) if n in chosen}
    within = rows_of(cluster, names)
    for pod in world.pending:
        fits = placement.view(pod).left & within
        verdict = placement.place(pod, within)
        if isinstance(verdict, Placed):
            assert fits[cluster.row_of[verdict.node]]
        else:
            left = (placement.totals(pod)[within] > REFUSED).any()
            assert verdict.pre_filter_message or not left
            assert verdict.nodes == len(names)
            assert verdict.eviction is None or verdict.eviction.node in names


def test_everywhere_and_within_all_nodes_are_the_same_view() -> None:
    cluster = drawn("n1 ####", "n2 ##..", "n3 ....")
    placement = Placement(built_in(SCHEDULER), cluster)
    pod = a_pod(gpus=3)
    everywhere = placement.place(pod)
    before = cluster.work.rows
    assert placement.place(pod, rows_of(cluster, {"n1", "n2", "n3"})) == everywhere
    assert placement.place(pod, rows_of(cluster, {"n3"})) == everywhere
    refused = placement.place(pod, rows_of(cluster, {"n1", "n2"}))
    assert isinstance(refused, Refused)
    assert refused.message.startswith("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    assert placement.place(pod) == everywhere
    assert cluster.work.rows - before < 30 * len(cluster), "a mask made a view of its own"


def test_affinity_to_a_pod_outside_is_seen() -> None:
    cluster = drawn("n1 ....", "n2 ....")
    cluster.confirm(a_pod(uid="u", node="n1", labels={"app": "x"}))
    placement = Placement(built_in(SCHEDULER), cluster)
    pod = a_pod(required_affinity=(pod_term("kubernetes.io/hostname", app="x"),))
    assert isinstance(placement.place(pod, rows_of(cluster, {"n2"})), Refused)
