import random
from typing import ClassVar

import numpy as np
import pytest

from builders import a_node, a_pod, drawn
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.aspects import EVERYTHING
from fairlead.cluster.cluster import Cluster
from fairlead.model.behaviour import KUBERNETES_1_37
from fairlead.model.errors import PluginFault
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Refused
from fairlead.placement.views import View
from fairlead.testing.drawn import random_node, random_pod

PROFILE = built_in("gpu-scheduler")


def place(cluster: Cluster, pod, profile: Profile = PROFILE):
    return Placement(profile, cluster).place(pod)


def test_the_best_node_wins() -> None:
    cluster = drawn("a ........", "b ###.", "c ####")
    assert place(cluster, a_pod(gpus=1)) == Placed("b", 100.0)


def test_equal_nodes_go_to_the_first() -> None:
    assert place(drawn("a ..", "b ..", "c .."), a_pod(gpus=1)).node == "a"


def test_a_refusal_speaks_kube_schedulers_words() -> None:
    cluster = drawn("a ####", "b ##..")
    cluster.put_node(a_node("c", gpus=8, unschedulable=True))
    refused = place(cluster, a_pod(gpus=3))
    assert isinstance(refused, Refused)
    assert refused.message == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )
    assert refused.refusers == ("NodeUnschedulable", "NodeResourcesFit")


def test_a_refusal_speaks_the_words_of_the_version() -> None:
    cluster = drawn("a ####")
    cluster.behaviour = KUBERNETES_1_37
    assert place(cluster, a_pod(gpus=3)).message == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_cluster_without_nodes_says_so() -> None:
    assert place(Cluster(), a_pod()).message == "no nodes available to schedule pods"


def test_a_removed_node_is_neither_chosen_nor_counted() -> None:
    cluster = drawn("a ..", "b ####")
    placement = Placement(PROFILE, cluster)
    assert placement.place(a_pod(gpus=2)).node == "a"
    cluster.remove_node("a")
    assert placement.place(a_pod(gpus=2)).nodes == 1


def test_nothing_is_said_about_eviction_where_somebody_is_evicted() -> None:
    cluster = drawn("a ####")
    important = place(cluster, a_pod(gpus=1, priority=10))
    assert important.message == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


class LastNode:
    name: ClassVar[str] = "LastNode"

    def pick(self, request, nodes, scores):
        return len(nodes) - 1


class Never:
    name: ClassVar[str] = "Never"

    def pick(self, request, nodes, scores):
        return -1


def with_picker(picker) -> Profile:
    return Profile("picky", PROFILE.filters, PROFILE.scores, picker)


def test_a_picker_has_the_last_word_among_nodes_that_fit() -> None:
    cluster = drawn("a ..", "b ..", "c ##")
    assert place(cluster, a_pod(gpus=1), with_picker(LastNode())).node == "b"


def test_a_picker_may_take_none_and_that_is_explained() -> None:
    refused = place(drawn("a ..", "b ##"), a_pod(gpus=1), with_picker(Never()))
    assert refused.reasons == (
        ("Insufficient nvidia.com/gpu", 1),
        ("node(s) were not selected by Never", 1),
    )
    assert refused.woken_by == EVERYTHING


class Constant:
    name: ClassVar[str] = "Constant"
    reads: ClassVar = PROFILE.filters[0].reads

    def __init__(self, answer) -> None:
        self.answer = answer

    def rate(self, request, nodes):
        return self.answer if np.isscalar(self.answer) else np.full(len(nodes), self.answer[0])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (5.0, "Constant must return one answer for each of 1 nodes"),
        ([np.nan], "returned no number"),
    ],
)
def test_an_answer_that_cannot_be_used_is_the_plugins_fault(answer, says: str) -> None:
    profile = Profile("bad", PROFILE.filters, ((Constant(answer), 1.0),))
    with pytest.raises(PluginFault, match=says):
        place(drawn("a .."), a_pod(gpus=1), profile)


class ReadsPodKey:
    name: ClassVar[str] = "ReadsPodKey"
    reads: ClassVar = PROFILE.filters[0].reads
    pod_keys: ClassVar = ("want",)

    def rate(self, request, nodes):
        wanted = request.pod_value("want")
        return np.array([100.0 * (n is not None and n.name == wanted) for n in nodes.objects()])


def test_declared_labels_and_annotations_reach_the_plugin() -> None:
    profile = Profile("pod keys", PROFILE.filters, ((ReadsPodKey(), 1.0),))
    placement = Placement(profile, drawn("a ..", "b ..", "c .."))
    assert placement.place(a_pod(annotations={"want": "c"})).node == "c"
    assert placement.place(a_pod(labels={"want": "b"})).node == "b"
    assert placement.place(a_pod()).node == "a"


def test_a_view_kept_up_to_date_equals_a_fresh_one() -> None:
    """Whatever happens to the cluster, answers by difference are the answers."""
    for seed in range(25):
        dice = random.Random(seed)
        cluster = Cluster()
        pods = [random_pod(dice, number) for number in range(12)]
        kept = {pod.uid: View(PROFILE, pod.request, cluster) for pod in pods}
        for step in range(60):
            _something_happens(cluster, dice, step)
            pod = dice.choice(pods)
            view, fresh = kept[pod.uid], View(PROFILE, pod.request, cluster)
            view.refresh()
            fresh.refresh()
            assert np.array_equal(view.total, fresh.total)
            assert np.array_equal(
                view.allowed[:, present(cluster)], fresh.allowed[:, present(cluster)]
            )


def present(cluster: Cluster) -> np.ndarray:
    return np.flatnonzero(cluster.nodes.present())


def _something_happens(cluster: Cluster, dice: random.Random, step: int) -> None:
    name = f"n{dice.randint(0, 11)}"
    match dice.randint(0, 6):
        case 0 | 1:
            cluster.put_node(random_node(dice, name))
        case 2:
            cluster.remove_node(name)
        case 3 | 4:
            cluster.confirm(random_pod(dice, step % 20))
        case 5:
            cluster.remove(f"fixed-{dice.randint(0, 20)}")
        case _:
            cluster.distrust(name, "x") if dice.random() < 0.5 else cluster.trust("x")
