"""Pods with a scheduling map, from the JSON of the API server to the bind."""

import json
from functools import partial
from typing import Any

import pytest

import builders
from builders import SCHEDULER, a_node, a_pod, a_taint, decide, see
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, NodeGone, NodeSeen, PodGone
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict
from fairlead.kube.admission.literals import literal_for
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod

an_engine = partial(builders.an_engine, encode=DialectEncoder(lambda: 0))
CHECKER = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3"
WORDS = {0: "0,1", 1: "2", 2: "0,1,2", 3: "3", 4: "3"}
OWNERS = {
    "StatefulSet": "checker", "ReplicaSet": "web-6b7f", "Job": "job", "DaemonSet": "agent",
}  # fmt: skip


def pod_json(name: str, text: str = CHECKER, kind: str = "StatefulSet", **more: Any) -> Any:
    owner = more.pop("owner", OWNERS.get(kind, ""))
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": True}]
    annotations = {"gpu-scheduling-map": text, **more.pop("annotations", {})}
    meta = {
        "name": name, "namespace": more.pop("namespace", "ns"), "uid": more.pop("uid", name),
        "labels": more.pop("labels", {}), "annotations": annotations,
        "ownerReferences": owners if kind else [],
    }  # fmt: skip
    limits = more.pop("limits", {})
    container = {"name": "main", "resources": {"requests": limits}}
    spec = {"schedulerName": SCHEDULER, "containers": [container], **more}
    return {"metadata": meta, "spec": spec}


def mapped(name: str, text: str = CHECKER, kind: str = "StatefulSet", **more: Any) -> Pod:
    return decode_pod(json.dumps(pod_json(name, text, kind, **more)).encode())


def four() -> list[Node]:
    """As on the laptop of system 5: nodes without any GPU, known by their label."""
    return [a_node(f"real-{n}", gpus=0, labels={"gpu-node-name": f"node{n}"}) for n in range(1, 5)]


def listed(name: str, count: int = 4, **more: Any) -> Node:
    gpus = tuple(Gpu(f"GPU-{name}-{n}", n, "H100", 80_000, **more) for n in range(count))
    found = Inventory(gpus, dialects=frozenset({"fairlead"}))
    return a_node(name, gpus=0, inventory=found)


def binds(engine: Engine, now: float = 1.0) -> dict[str, tuple[str, str]]:
    """Pods, where they go, and what they are told."""
    return {bind.pod.name: (bind.node, bind.annotations["fairlead.dev/gpus"])
            for bind in all_binds(engine, now)}  # fmt: skip


def all_binds(engine: Engine, now: float = 1.0) -> list[Bind]:
    return [step for step in decide(engine, now=now) if isinstance(step, Bind)]


def confirm(engine: Engine, bind: Bind, source: Any) -> Pod:
    """The API server shows the pod as it was bound."""
    source = json.loads(json.dumps(source))
    source["metadata"]["annotations"] |= bind.annotations
    source["spec"]["nodeName"] = bind.node
    pod = decode_pod(json.dumps(source).encode())
    see(engine, pod)
    engine.handle(BindDone(pod.uid), now=1.0)
    return pod


def failure(engine: Engine, pod: Pod, now: float = 1.0) -> str:
    see(engine, pod, now=now)
    (failed,) = [made for made in decide(engine, now=now) if isinstance(made, AnnounceFailure)]
    return failed.message


# -- where pods go -------------------------------------------------------------------------------


def test_every_pod_goes_where_its_map_says() -> None:
    engine = an_engine(*four())
    see(engine, *(mapped(f"checker-{n}") for n in range(5)))
    made = binds(engine)
    assert made == {f"checker-{n}": (f"real-{min(n + 1, 4)}", WORDS[n]) for n in range(5)}
    for name, (_, value) in made.items():  # admission says the same
        assert literal_for(mapped(name)) == value


def test_a_real_name_will_do_unless_a_label_says_otherwise() -> None:
    engine = an_engine(a_node("node1", gpus=0), a_node("b", gpus=0))
    see(engine, mapped("x-0", "0=node1:7", kind=""))
    assert binds(engine) == {"x-0": ("node1", "7")}
    engine.handle(NodeSeen(a_node("b", gpus=0, labels={"gpu-node-name": "node1"})), now=1.0)
    see(engine, mapped("y-0", "0=node1:6", kind=""))
    assert binds(engine) == {"y-0": ("b", "6")}


def test_an_empty_value_hides_all_gpus_and_takes_none() -> None:
    engine = an_engine(listed("n1", 1))
    see(engine, mapped("x-0", "0=n1:", kind=""), a_pod("whole", gpu_request=GpuRequest(1)))
    assert binds(engine)["x-0"] == ("n1", "")
    held = engine.cluster.holdings["x-0"].grant
    assert held is not None
    assert held.uses == ()


def test_the_gpus_of_a_map_are_taken_for_all_others() -> None:
    engine = an_engine(listed("n1", 2))
    see(engine, mapped("x-0", "0=n1:1", kind=""), a_pod("one", gpu_request=GpuRequest(1)))
    made = {bind.pod.name: bind for bind in all_binds(engine)}
    grant = made["one"].grant
    assert grant is not None
    assert [use.uuid for use in grant.uses] == ["GPU-n1-0"]
    message = failure(engine, a_pod("two", gpu_request=GpuRequest(1)))
    assert "node(s) had too few free GPUs" in message


def test_a_gpu_that_two_indices_share_is_taken_once() -> None:
    engine = an_engine(listed("node4"))
    see(engine, mapped("checker-3"), mapped("checker-4"))
    assert len(all_binds(engine)) == 2
    devices = engine.cluster.columns.devices
    assert devices.users[0, 3] == 2
    assert (devices.wholes[0, 3], devices.milli_free[0, 3]) == (1, 0)
    for name, wholes in (("checker-3", 1), ("checker-4", 0)):
        engine.handle(PodGone(mapped(name)), now=2.0)
        assert devices.wholes[0, 3] == wholes
    assert devices.milli_free[0, 3] == 1000
    assert devices.unused[0, 3]


def test_a_shared_gpu_stays_shared_when_the_list_of_gpus_changes() -> None:
    engine = an_engine(listed("node4"))
    see(engine, mapped("checker-3"), mapped("checker-4"))
    decide(engine)
    engine.handle(NodeSeen(listed("node4", 5)), now=1.0)
    devices = engine.cluster.columns.devices
    assert (devices.users[0, 3], devices.wholes[0, 3], devices.milli_free[0, 3]) == (2, 1, 0)


def test_a_map_may_name_gpus_by_uuid_and_its_beginning() -> None:
    engine = an_engine(listed("n1", 3))
    text = "0=n1:GPU-n1-2,GPU-n1-1\n1=n1:GPU-n"
    see(engine, mapped("x-0", text, kind=""))
    assert binds(engine) == {"x-0": ("n1", "GPU-n1-2,GPU-n1-1")}
    message = failure(engine, mapped("x-1", text, kind=""))
    assert "could not assign GPU GPU-n to index 1" in message


def test_all_means_every_gpu() -> None:
    engine = an_engine(listed("n1", 3))
    see(engine, mapped("x-0", "0=n1:all\n1=n1:2", kind=""))
    (bind,) = all_binds(engine)
    assert bind.grant is not None
    assert len(bind.grant.uses) == 3
    assert bind.annotations["fairlead.dev/gpus"] == "all"
    assert "assigned to another pod" in failure(engine, mapped("y-0", "0=n1:2", kind=""))


def test_a_pod_that_asks_for_gpus_as_well_holds_as_many() -> None:
    engine = an_engine(a_node("n1", gpus=4))
    text = "0=n1:0"
    source = pod_json("x-0", text, kind="", limits={"nvidia.com/gpu": "2"})
    see(engine, decode_pod(json.dumps(source).encode()))
    (bind,) = all_binds(engine)
    assert bind.grant is not None
    assert [use.uuid for use in bind.grant.uses] == ["0", ""]
    before = engine.cluster.holdings["x-0"].grant
    confirm(engine, bind, source)
    assert engine.cluster.holdings["x-0"].grant == before


# -- what is in the way --------------------------------------------------------------------------


def in_the_way(told: str, *nodes: Node, pod: Pod, there: tuple[Pod, ...] = ()) -> Engine:
    engine = an_engine(*nodes)
    see(engine, *there)
    message = failure(engine, pod)
    assert told in message, message
    return engine


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zero=a:0", "line 1, 'zero=a:0', ends the map: write <index>=<node>:<GPUs>"),
        ("0 a:0", "line 1, '0 a:0', is ignored: write <index>=<node>:<GPUs>"),
        ("1=a:0", "gpu-scheduling-map has no line for index 0; add 0=<node>:<GPUs>"),
    ],
)
def test_a_map_that_says_nothing_about_the_pod_is_retried_when_it_changes(
    text: str, told: str
) -> None:
    engine = an_engine(a_node("a", gpus=0))
    message = failure(engine, mapped("x-0", text, kind=""))
    assert message.startswith("the pod is invalid: ")
    assert told in message
    see(engine, mapped("x-0", "0=a:0", kind=""), now=30.0)
    assert binds(engine, 30.0) == {"x-0": ("a", "0")}


def test_a_pod_without_an_index_is_told_so() -> None:
    in_the_way("no index in it; give it a name", a_node(), pod=mapped("x", kind=""))


def test_an_unknown_node_is_waited_for() -> None:
    told = (
        "1 node(s) were not node1, which the scheduling map names for index 0; "
        "correct the map, or label one with gpu-node-name=node1"
    )
    engine = in_the_way(told, a_node("a", gpus=0), pod=mapped("checker-0"))
    engine.handle(NodeSeen(a_node("b", gpus=0)), now=20.0)
    assert binds(engine, 20.0) == {}
    engine.handle(NodeSeen(a_node("a", gpus=0, labels={"gpu-node-name": "node1"})), now=30.0)
    assert binds(engine, 30.0) == {"checker-0": ("a", "0,1")}


def test_a_node_that_comes_is_noticed() -> None:
    engine = in_the_way("were not node1", a_node("a", gpus=0), pod=mapped("checker-0"))
    engine.handle(NodeSeen(a_node("node1", gpus=0)), now=30.0)
    assert binds(engine, 30.0) == {"checker-0": ("node1", "0,1")}
    engine.handle(NodeGone("node1"), now=31.0)


def test_a_node_that_comes_before_it_is_ready_is_not_missed() -> None:
    engine = in_the_way("were not node1", a_node("a", gpus=0), pod=mapped("checker-0"))
    engine.handle(NodeSeen(a_node("node1", gpus=0, taints=(a_taint(),))), now=30.0)
    assert binds(engine, 30.0) == {}
    engine.handle(NodeSeen(a_node("node1", gpus=0)), now=40.0)
    assert binds(engine, 40.0) == {"checker-0": ("node1", "0,1")}


def test_other_rules_hold_as_well() -> None:
    nodes = [a_node("node1", gpus=0, unschedulable=True), a_node("b", gpus=0)]
    told = "1 node(s) were not the one that the scheduling map names, 1 node(s) were unschedulable"
    engine = in_the_way(told, *nodes, pod=mapped("checker-0"))
    engine.handle(NodeSeen(a_node("node1", gpus=0)), now=30.0)
    assert binds(engine, 30.0) == {"checker-0": ("node1", "0,1")}


@pytest.mark.parametrize("node", [a_node("node4", gpus=3), listed("node4", 3)], ids=str)
def test_a_gpu_that_is_not_there_is_waited_for(node: Node) -> None:
    told = (
        "node(s) could not assign GPU 3 to index 3 of the scheduling map, there are 3, 0 to 2; "
        "correct the map"
    )
    engine = in_the_way(told, node, pod=mapped("checker-3"))
    larger = listed("node4", 4) if node.inventory else a_node("node4", gpus=4)
    engine.handle(NodeSeen(larger), now=30.0)
    assert binds(engine, 30.0) == {"checker-3": ("node4", "3")}


def test_a_gpu_that_is_not_in_order_is_not_given() -> None:
    node = listed("node2", 3, healthy=False)
    in_the_way("it is unhealthy; repair it or choose another", node, pod=mapped("checker-1"))


@pytest.mark.parametrize("node", [a_node("n1", gpus=0), a_node("n1"), listed("n1")], ids=str)
def test_a_gpu_of_somebody_elses_map_is_waited_for(node: Node) -> None:
    there = mapped("other-0", "0=n1:2", owner="other", nodeName="n1")
    told = (
        "node(s) could not assign GPU 2 to index 0 of the scheduling map, it is assigned to "
        "another pod, index 0 of StatefulSet other; choose another or delete that pod"
    )
    pod = mapped("mine-0", "0=n1:1,2", owner="mine")
    engine = in_the_way(told, node, pod=pod, there=(there,))
    engine.handle(PodGone(there), now=30.0)
    assert binds(engine, 30.0) == {"mine-0": ("n1", "1,2")}


def test_pods_of_other_namespaces_are_not_named() -> None:
    there = mapped("other-0", "0=n1:2", namespace="theirs", nodeName="n1")
    told = "it is assigned to another pod; choose another"
    in_the_way(told, a_node("n1"), pod=mapped("mine-0", "0=n1:2"), there=(there,))


def test_a_gpu_of_a_pod_without_a_map_is_waited_for() -> None:
    there = a_pod("there", uid="t", node="n1", grant=Grant((GpuUse("GPU-n1-2", False, 100),)))
    pod = mapped("mine-0", "0=n1:2")
    told = "it is assigned to another pod; choose another"
    engine = in_the_way(told, listed("n1"), pod=pod, there=(there,))
    engine.handle(PodGone(there), now=30.0)
    assert binds(engine, 30.0) == {"mine-0": ("n1", "2")}


@pytest.mark.parametrize("node", [a_node("n1", gpus=2), listed("n1", 2)], ids=str)
def test_where_nobody_says_which_gpus_are_taken_enough_must_be_left(node: Node) -> None:
    there = a_pod("there", uid="t", node="n1", gpu_request=GpuRequest(1))
    one, two = mapped("x-0", "0=n1:0", kind=""), mapped("y-0", "0=n1:0,1", kind="")
    engine = an_engine(node)
    see(engine, there)
    assert "that cannot be identified" in failure(engine, two)
    see(engine, one)
    assert binds(engine) == {"x-0": ("n1", "0")}


def test_sharing_that_only_one_of_two_maps_declares_is_refused() -> None:
    """The StatefulSet's map was changed, and its pods follow one after another."""
    old = mapped("checker-3", "3=n1:0\n4=n1:1", nodeName="n1")
    told = (
        "node(s) could not assign GPU 0 to index 4 of the scheduling map, index 3 has it and "
        "sharing is not declared; give it to both in the map, or delete that pod"
    )
    new = mapped("checker-4", "3=n1:1\n4=n1:0")
    engine = in_the_way(told, a_node("n1"), pod=new, there=(old,))
    see(engine, mapped("checker-4", "3=n1:0\n4=n1:0"), now=30.0)
    assert binds(engine, 30.0) == {"checker-4": ("n1", "0")}


def test_a_pod_waits_for_the_one_whose_index_it_has() -> None:
    old = mapped("job-0-aaaaa", kind="Job", labels={INDEX: "0"}, nodeName="node1")
    new = mapped("job-0-bbbbb", kind="Job", labels={INDEX: "0"})
    told = "another pod with this index has it; wait until it ends, or delete it"
    engine = in_the_way(told, a_node("node1"), pod=new, there=(old,))
    engine.handle(PodGone(old), now=30.0)
    assert binds(engine, 30.0) == {"job-0-bbbbb": ("node1", "0,1")}


INDEX = "batch.kubernetes.io/job-completion-index"


def test_lesser_pods_make_room_on_the_node_of_the_map() -> None:
    engine = an_engine(a_node("node1", gpus=0), a_node("b", gpus=0))
    low = [a_pod(f"low-{name}", uid=name, cpu=60_000, node=name) for name in ("node1", "b")]
    see(engine, *low, mapped("checker-0", limits={"cpu": "10"}, priority=9))
    evictions = [made for made in decide(engine) if isinstance(made, Evict)]
    assert [(made.node, [v.uid for v in made.victims]) for made in evictions] == [
        ("node1", ["node1"])
    ]
    engine.handle(PodGone(low[0]), now=30.0)
    assert binds(engine, 30.0) == {"checker-0": ("node1", "0,1")}


# -- pods that are alike -------------------------------------------------------------------------


def test_pods_of_a_deployment_take_the_first_index_that_is_free() -> None:
    engine = an_engine(*four())
    sources = {f"web-{c}": pod_json(f"web-{c}", kind="ReplicaSet") for c in "abcdef"}
    pods = {name: decode_pod(json.dumps(source).encode()) for name, source in sources.items()}
    for name in ("web-a", "web-b", "web-c", "web-d", "web-e"):
        see(engine, pods[name])
    made = all_binds(engine)
    assert [bind.annotations["fairlead.dev/map-index"] for bind in made] == [
        "0",
        "1",
        "2",
        "3",
        "4",
    ]
    bound = [confirm(engine, bind, sources[bind.pod.name]) for bind in made]
    message = failure(engine, pods["web-f"])
    assert "4 node(s) had no index of the scheduling map left, all 5 are taken" in message

    anew = an_engine(*four())  # the scheduler starts again
    see(anew, *bound, pods["web-f"])
    assert all_binds(anew) == []
    for scheduler in (engine, anew):
        scheduler.handle(PodGone(bound[2]), now=30.0)
        assert binds(scheduler, 30.0) == {"web-f": ("real-3", "0,1,2")}


def test_an_update_of_a_deployment_hands_on_its_map_slots() -> None:
    engine = an_engine(a_node("n1"))

    def replica(name: str, template: str, **more: Any) -> Pod:
        hashed = {"pod-template-hash": template}
        owner = f"web-{template}"
        return mapped(name, "0=n1:0", kind="ReplicaSet", owner=owner, labels=hashed, **more)

    told_before = {"fairlead.dev/map-index": "0", "fairlead.dev/gpus": "0"}
    old = replica("web-1-x", "1", nodeName="n1", annotations=told_before)
    see(engine, old)
    assert "all 1 are taken" in failure(engine, replica("web-2-x", "2"))
    engine.handle(PodGone(old), now=30.0)
    assert binds(engine, 30.0) == {"web-2-x": ("n1", "0")}


# -- what is written, and read again -------------------------------------------------------------


def test_what_a_bound_pod_was_told_counts_whatever_its_map_says_now() -> None:
    engine = an_engine(listed("node4"))
    source = pod_json("checker-3")
    see(engine, mapped("checker-3"))
    (bind,) = all_binds(engine)
    assert bind.annotations["fairlead.dev/map-index"] == "3"
    source["metadata"]["annotations"]["gpu-scheduling-map"] = "3=node4:0"
    pod = confirm(engine, bind, source)
    assert pod.grant is not None
    assert [use.uuid for use in pod.grant.uses] == ["GPU-node4-3"]


def test_confirming_changes_nothing() -> None:
    engine = an_engine(listed("node4"), *four()[:3])
    sources = {f"checker-{n}": pod_json(f"checker-{n}") for n in range(5)}
    see(engine, *(mapped(name) for name in sources))
    made = all_binds(engine)
    assert len(made) == 5
    grants = {uid: held.grant for uid, held in engine.cluster.holdings.items()}
    for bind in made:
        confirm(engine, bind, sources[bind.pod.name])
    assert {uid: held.grant for uid, held in engine.cluster.holdings.items()} == grants


def test_a_pending_pod_cannot_choose_what_a_bound_one_was_told() -> None:
    engine = an_engine(*four())
    forged = {"fairlead.dev/map-index": "2", "fairlead.dev/gpus": "0,1,2,3"}
    see(engine, mapped("checker-1", annotations=forged))
    assert binds(engine) == {"checker-1": ("real-2", "2")}


def test_two_ways_of_asking_are_refused() -> None:
    pod = mapped("x-0", "0=a:0", kind="", annotations={"fairlead.dev/gpu-share": "0.5"})
    assert "several ways (fairlead and scheduling-map); keep one" in pod.problem
