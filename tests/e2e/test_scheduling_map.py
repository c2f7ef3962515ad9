"""Scheduling maps on a real API server, with the real controllers and KWOK's kubelets."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead
from yaml_texts import yaml_of

pytestmark = pytest.mark.server

MERGE = "application/merge-patch+json"
CONTROLLERS = (
    "statefulset-controller", "replicaset-controller", "deployment-controller", "job-controller",
)  # fmt: skip
CHECKER = Path(__file__).parents[2] / "examples" / "06-scheduling-map" / "checker.yaml"
#: The nodes that the map means, and the GPUs, by index.
WANTED = {
    0: ("gpu-a", "0,1"),
    1: ("gpu-b", "2"),
    2: ("gpu-c", "0,1,2"),
    3: ("gpu-d", "3"),
    4: ("gpu-d", "3"),
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def plane(
    assets: Path, kwok_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Four nodes that only their labels call node1 to node4; the last counts its GPUs."""
    folder = tmp_path_factory.mktemp("map")
    with (
        ControlPlane.start(assets, folder) as started,
        started.start_controller_manager(CONTROLLERS),
        started.start_kwok(),
    ):
        for number, letter in enumerate("abcd", start=1):
            gpus = {"nvidia.com/gpu": "4"} if letter == "d" else {}
            labels = {"gpu-node-name": f"node{number}"}
            started.create_nodes([f"gpu-{letter}"], labels=labels, allocatable=gpus)
        yield started


@pytest.fixture
def pods(plane: ControlPlane) -> Iterator[Pods]:
    name = f"map-{next(_numbers)}"
    assert plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    yield Pods(plane, name)
    plane.delete_namespace(name)


def apply(pods: Pods, body: dict[str, Any], kinds: str, group: str = "apps/v1") -> str:
    path = f"/apis/{group}/namespaces/{pods.namespace}/{kinds}"
    status, answer = pods.plane.api("POST", path, body)
    assert status == 201, answer
    return f"{path}/{body['metadata']['name']}"


def placed(pods: Pods) -> dict[str, tuple[str, str]]:
    """Live pods by uid and name, where they are, and which GPUs they were told."""
    _, found = pods.plane.api("GET", pods.path)
    return {
        f"{pod['metadata']['uid']}/{pod['metadata']['name']}": (
            pod["spec"].get("nodeName", ""),
            pod["metadata"]["annotations"].get("fairlead.dev/gpus", "unsaid"),
        )
        for pod in found["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


def by_index(pods: Pods) -> dict[int, tuple[str, str]]:
    return {int(key.rpartition("-")[2]): place for key, place in placed(pods).items()}


def settled(pods: Pods, replicas: int) -> None:
    """As many pods as wanted, each where its index belongs."""
    wanted = {index: WANTED[index] for index in range(replicas)}
    eventually(lambda: by_index(pods) == wanted, what=f"{replicas} pods in their places")


def logged(pod: dict[str, Any]) -> str:
    """The first line that the pod's own program prints with the environment of its kubelet."""
    container, meta = pod["spec"]["containers"][0], pod["metadata"]
    fields = {"spec.nodeName": pod["spec"]["nodeName"]}
    fields |= {f"metadata.annotations['{key}']": v for key, v in meta["annotations"].items()}
    env = {each["name"]: each["value"] if "value" in each else
           fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
           for each in container["env"]}  # fmt: skip
    with subprocess.Popen(
        container["command"], env={"PATH": os.environ["PATH"], **env}, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        try:
            return program.stdout.readline().strip()
        finally:
            os.killpg(program.pid, 9)


def test_the_checker_is_where_its_map_says_whatever_happens(pods: Pods) -> None:
    plane = pods.plane
    with fairlead(plane):
        path = apply(pods, yaml_of(CHECKER), "statefulsets")
        settled(pods, 5)
        for index, (node, gpus) in WANTED.items():
            line = logged(pods.get(f"checker-{index}"))
            assert line == f"Node: {node}, CUDA_VISIBLE_DEVICES: {gpus}"
        for index in (0, 3, 4):
            pods.delete(f"checker-{index}")
        settled(pods, 5)
        scale(pods, path, 2)
        settled(pods, 2)
    scale(pods, path, 5)
    pods.delete("checker-1")
    eventually(lambda: len(placed(pods)) == 5, what="five pods, three without a node")
    before = placed(pods)
    with fairlead(plane):
        settled(pods, 5)
        assert placed(pods).keys() >= {key for key, place in before.items() if place[0]}
        pods.delete("checker-4")
        settled(pods, 5)
        assert plane.api("DELETE", path)[0] == 200


def scale(pods: Pods, path: str, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    assert pods.plane.api("PATCH", path, body, content_type=MERGE)[0] == 200


def create(pods: Pods, name: str, text: str, **more: Any) -> None:
    pods.create(name, metadata={"annotations": {"gpu-scheduling-map": text}}, **more)


def remap(pods: Pods, name: str, text: str) -> None:
    body = {"metadata": {"annotations": {"gpu-scheduling-map": text}}}
    assert pods.plane.api("PATCH", f"{pods.path}/{name}", body, content_type=MERGE)[0] == 200


#: Of these, no node could help.
INVALID = ("line-0", "absent-1", "nobody")
FAILURES = {
    "line-0": ("0 node1 0", "line 1, '0 node1 0', is ignored: write <index>=<node>:<GPUs>"),
    "absent-1": ("0=node1:0", "gpu-scheduling-map has no line for index 1; add 1=<node>:<GPUs>"),
    "nobody": ("0=node1:0", "no index in it; give it a name that ends in a number, like web-0"),
    "lost-0": ("0=node9:0", "4 node(s) were not node9, which the scheduling map names for index 0"),
    "gpu-0": ("0=node4:4", "could not assign GPU 4 to index 0 of the scheduling map, there are 4"),
    "taken-0": (
        "0=node4:2",
        "it is assigned to another pod, index 0 of another map; choose another",
    ),
}


def test_every_failure_says_what_to_change_and_is_retried_when_that_is_done(pods: Pods) -> None:
    with fairlead(pods.plane):
        create(pods, "first-0", "0=node4:2\n1=node4:2")
        pods.wait_bound("first-0")
        for name, (text, told) in FAILURES.items():
            create(pods, name, text)
            condition = pods.wait_refused(name)
            assert condition["reason"] == ("InvalidPod" if name in INVALID else "Unschedulable")
            assert told in condition["message"]
            (event,) = eventually(lambda name=name: pods.events(name, "FailedScheduling"))
            assert told in event["note"]
        create(pods, "first-1", "0=node4:2\n1=node4:2")
        pods.wait_bound("first-1")  # shares it on purpose
        for gpu, name in enumerate(("line-0", "absent-1", "gpu-0")):
            remap(pods, name, f"0=node1:{gpu}\n1=node1:{gpu}\n")
        pods.wait_bound("line-0", "gpu-0", "absent-1")
        extra = {"gpu-node-name": "node9"}
        try:
            pods.plane.create_nodes(["gpu-e"], labels=extra)
            pods.wait_bound("lost-0")
        finally:
            pods.plane.api("DELETE", "/api/v1/nodes/gpu-e")
        for name in ("first-0", "first-1"):
            assert not pods.node("taken-0")
            pods.delete(name)
        assert pods.wait_bound("taken-0") == {"taken-0": "gpu-d"}


def test_sharing_that_the_map_does_not_declare_is_refused(pods: Pods) -> None:
    checker = yaml_of(CHECKER)
    with fairlead(pods.plane):
        path = apply(pods, checker, "statefulsets")
        settled(pods, 5)
        # Pods with the new map are made one after another, the last index first.
        annotations = checker["spec"]["template"]["metadata"]["annotations"]
        text = annotations["gpu-scheduling-map"]
        text = text.replace("2=node3:0,1,2", "2=node3:0,1").replace("4=node4:3", "4=node3:2")
        body = {"spec": {"template": {"metadata": {"annotations": {"gpu-scheduling-map": text}}}}}
        assert pods.plane.api("PATCH", path, body, content_type=MERGE)[0] == 200
        told = "index 2 has it and sharing is not declared; give it to both in the map"
        eventually(lambda: told in pods.condition("checker-4").get("message", ""), what=told)
        remap(pods, "checker-4", text + "2=node3:0,1,2")
        assert pods.wait_bound("checker-4") == {"checker-4": "gpu-c"}
        assert pods.plane.api("DELETE", path)[0] == 200


def template(text: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "x"}, "annotations": {"gpu-scheduling-map": text}},
        "spec": {"schedulerName": "gpu-scheduler", "terminationGracePeriodSeconds": 1,
                 "containers": [{"name": "main", "image": "x"}], **spec},
    }  # fmt: skip


def indices(pods: Pods) -> dict[str, str]:
    _, found = pods.plane.api("GET", pods.path)
    return {
        pod["metadata"]["name"]: pod["metadata"]["annotations"].get("fairlead.dev/map-index", "")
        for pod in found["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


def test_pods_of_a_deployment_keep_the_first_index_that_was_free(pods: Pods) -> None:
    text = "0=node1:0\n1=node2:1\n2=node3:2\n"
    deployment = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}},
                 "template": template(text)},
    }  # fmt: skip

    def complete() -> dict[str, str] | None:
        found = indices(pods)
        return found if sorted(found.values()) == ["0", "1", "2"] else None

    with fairlead(pods.plane):
        path = apply(pods, deployment, "deployments")
        first = eventually(complete, what="three pods with three indices")
        places = {("gpu-a", "0"), ("gpu-b", "1"), ("gpu-c", "2")}
        assert set(placed(pods).values()) == places
    (gone,) = (name for name, index in first.items() if index == "1")
    pods.delete(gone)
    with fairlead(pods.plane):
        again = eventually(complete, what="the index that was left is taken again")
        stayed = {name: index for name, index in first.items() if name != gone}
        assert stayed.items() <= again.items()
        assert set(placed(pods).values()) == places
        assert pods.plane.api("DELETE", path)[0] == 200


def test_pods_of_an_indexed_job_follow_their_completion_index(pods: Pods) -> None:
    job = {
        "metadata": {"name": "job"},
        "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed",
                 "template": template("0=node2:0\n1=node3:", restartPolicy="Never")},
    }  # fmt: skip
    with fairlead(pods.plane):
        apply(pods, job, "jobs", "batch/v1")
        wanted = {("gpu-b", "0"), ("gpu-c", "")}
        eventually(lambda: set(placed(pods).values()) == wanted, what="both pods in their places")
