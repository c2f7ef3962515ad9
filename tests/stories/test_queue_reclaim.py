"""Reclaim between queues on the real API server."""

from pathlib import Path

import queue_crds
from dra_objects import DraObjects, claim_spec, device, exactly, uses
from fairlead.model.device_gpus import NVIDIA
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

GPU, QUEUE = "nvidia.com/gpu", "fairlead.dev/queue"


def test_a_queue_gets_its_share_back_and_no_more(
    control_plane: ControlPlane, create_nodes, pods: Pods
) -> None:
    create_nodes(["reclaim"], allocatable={GPU: "4"})
    with queue_crds.installed(control_plane):
        for name in ("red", "blue"):
            assert queue_crds.create(control_plane, name)[0] == 201
        with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()):
            red = [f"red-{number}" for number in range(4)]
            for name in red:
                pods.create(name, 1, metadata={"labels": {QUEUE: "red"}})
            pods.wait_bound(*red)
            blue = [f"blue-{number}" for number in range(3)]
            for name in blue:
                pods.create(name, 1, metadata={"labels": {QUEUE: "blue"}})

            def leaving() -> list[str]:
                found = {name: pods.get(name) for name in red}
                return [n for n, pod in found.items() if pod["metadata"].get("deletionTimestamp")]

            eventually(lambda: len(leaving()) == 2, what="two of red make room")
            for name in leaving():
                pods.delete(name)
            eventually(lambda: sum(bool(pods.node(name)) for name in blue) == 2)
            waiting = next(name for name in blue if not pods.node(name))
            eventually(lambda: "does not help" in pods.condition(waiting).get("message", ""))
            assert sum(bool(pods.get(name)) for name in red) == 2


def test_a_queue_gets_devices_of_claims_back_for_a_gang(
    control_plane: ControlPlane, create_nodes, pods: Pods, dra: DraObjects, tmp_path: Path
) -> None:
    (node,) = create_nodes(["reclaims-devices"])
    asking = uses("gpu", template=True)
    gpus = [device(f"gpu-{at}", attributes={"type": {"string": "gpu"}, "uuid": {
        "string": f"GPU-{at}-of-{node}"}}) for at in range(4)]  # fmt: skip
    config = tmp_path / "fairlead.yaml"
    config.write_text("profiles: [{schedulerName: gpu-scheduler, claims: {preempts: true}}]")
    with queue_crds.installed(control_plane):
        dra.a_slice(node, gpus, driver=NVIDIA)
        dra.a_class(dra.namespace, f"device.driver == '{NVIDIA}'")
        dra.a_template("gpu", claim_spec(exactly(dra.namespace)))
        for name in ("red", "blue"):
            assert queue_crds.create(control_plane, name)[0] == 201
        access = control_plane.kubeconfig_for()
        with fairlead(control_plane, "--config", str(config), kubeconfig=access):
            red = [f"red-{at}" for at in range(4)]
            for name in red:
                pods.create(name, metadata={"labels": {QUEUE: "red"}}, resourceClaims=asking)
            pods.wait_bound(*red)
            blue = [f"blue-{at}" for at in range(2)]
            said = {"fairlead.dev/gang": "blue", "fairlead.dev/gang-min": "2"}
            meta = {"labels": {QUEUE: "blue"}, "annotations": said}
            for name in blue:
                pods.create(name, metadata=meta, resourceClaims=asking)
            eventually(lambda: len(leaving(pods, red)) == 2, what="two of red make room")
            for name in leaving(pods, red):
                pods.delete(name)
            assert pods.wait_bound(*blue) == dict.fromkeys(blue, node)
            assert sum(bool(pods.get(name)) for name in red) == 2, "red keeps its share"


def test_victims_that_end_slowly_are_evicted_once_and_their_room_is_held(
    control_plane: ControlPlane, create_nodes, pods: Pods
) -> None:
    """Another scheduler evicts more while the first victims end, or gives their room to a third."""
    create_nodes(["slow"], allocatable={GPU: "8"})
    with queue_crds.installed(control_plane):
        for name in ("red", "blue"):
            queue_crds.create(control_plane, name, guaranteed={GPU: 4})
        queue_crds.create(control_plane, "green", preemption={"reclaim": "Never"})
        access = control_plane.kubeconfig_for()
        with fairlead(control_plane, kubeconfig=access):
            red = [name for gang in ("low-a", "low-b") for name in members(pods, gang, "red")]
            pods.wait_bound(*red)
            blue = members(pods, "high", "blue")
            eventually(lambda: len(leaving(pods, red)) == 4, what="one gang leaves")
            victims = leaving(pods, red)
            assert len({name.rpartition("-")[0] for name in victims}) == 1, "a whole gang"
            eventually(lambda: all(nominated(pods, name) for name in blue), what="room is held")
            eventually(lambda: all(pods.events(name, "Preempted") for name in victims))
        with fairlead(control_plane, kubeconfig=access):  # it begins again in the middle
            pods.create("third", 1, metadata={"labels": {QUEUE: "green"}})
            pods.wait_refused("third")
            for name in victims[:-1]:
                pods.delete(name)
            late = members(pods, "late", "blue", count=1)
            pods.wait_refused(late[0])  # blue has no more than the room that is held for its gang
            assert leaving(pods, red) == victims[-1:], "nothing else is evicted meanwhile"
            assert not pods.node("third")
            assert not any(pods.node(name) for name in blue), "whole, or not at all"
            pods.delete(victims[-1])
            pods.wait_bound(*blue)
            assert not pods.node("third")
            left = [name for name in red if name not in victims]
            assert all(pods.node(name) for name in left)
            assert not leaving(pods, left)
            counts = [len(pods.events(name, "Preempted")) for name in (*victims, *left)]
            assert counts == [1] * 4 + [0] * 4


def members(pods: Pods, gang: str, queue: str, count: int = 4) -> list[str]:
    """Created by name, one GPU each."""
    names = [f"{gang}-{number}" for number in range(count)]
    words = {"fairlead.dev/gang": gang, "fairlead.dev/gang-min": str(count)}
    for name in names:
        pods.create(name, 1, metadata={"annotations": words, "labels": {QUEUE: queue}})
    return names


def leaving(pods: Pods, names: list[str]) -> list[str]:
    found = {name: pods.get(name) for name in names}
    return [n for n, pod in found.items() if pod.get("metadata", {}).get("deletionTimestamp")]


def nominated(pods: Pods, name: str) -> str:
    return str(pods.get(name)["status"].get("nominatedNodeName", ""))
