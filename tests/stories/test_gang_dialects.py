"""Gangs of other APIs on a real API server, placed by a real scheduler."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import gang_crds
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from manifests import kubectl
from sessions import ROOT

PLUGINS = "scheduler-plugins"
LABEL = "scheduling.x-k8s.io/pod-group"
GPU = "nvidia.com/gpu"


@pytest.fixture
def nodes(create_nodes: Any) -> list[str]:
    return create_nodes(2, allocatable={GPU: "4"})


@pytest.fixture
def plugins(control_plane: ControlPlane) -> Iterator[None]:
    gang_crds.install(control_plane, PLUGINS)
    yield
    gang_crds.uninstall(control_plane, PLUGINS)


def members(pods: Pods, count: int, name: str = "m", **more: Any) -> list[str]:
    names = [f"{name}-{number}" for number in range(count)]
    for each in names:
        pods.create(each, gpus=1, **more)
    return names


def labelled(group: str) -> dict[str, Any]:
    return {"metadata": {"labels": {LABEL: group}}}


def why(pods: Pods, name: str) -> tuple[str, str]:
    """Reason and message of its condition."""
    found = pods.get(name)["status"].get("conditions", ())
    said = next((each for each in found if each["type"] == "PodScheduled"), {})
    return said.get("reason", ""), said.get("message", "")


def bound(pods: Pods, names: list[str]) -> int:
    return sum(bool(pods.get(name)["spec"].get("nodeName")) for name in names)


def test_pods_wait_for_the_kind_and_for_the_object_and_say_so(
    control_plane: ControlPlane, namespace: str, pods: Pods, nodes: list[str], running: Running
) -> None:
    names = members(pods, 3, **labelled("train"))
    eventually(lambda: "install the CustomResourceDefinitions" in why(pods, "m-0")[1])
    assert "podgroups.scheduling.x-k8s.io" in why(pods, "m-0")[1]

    gang_crds.install(control_plane, PLUGINS)
    eventually(lambda: f"the object of gang {namespace}/train" in why(pods, "m-0")[1])
    assert bound(pods, names) == 0
    gang_crds.create(control_plane, PLUGINS, namespace, "train", {"minMember": 3})
    eventually(lambda: bound(pods, names) == 3)

    gang_crds.uninstall(control_plane, PLUGINS)
    # Of the pods and of the kind the scheduler hears separately: one of another gang shows when
    # it knows that the kind is gone.
    members(pods, 1, "other", **labelled("other"))
    eventually(lambda: "install the CustomResourceDefinitions" in why(pods, "other-0")[1])
    late = members(pods, 1, "late", **labelled("train"))
    eventually(lambda: "install the CustomResourceDefinitions" in why(pods, "late-0")[1])
    assert bound(pods, late) == 0
    assert bound(pods, names) == 3, "what runs goes on"


def test_an_object_that_makes_no_sense_is_explained_on_its_pods(
    control_plane: ControlPlane,
    namespace: str,
    pods: Pods,
    nodes: list[str],
    plugins: None,
    running: Running,
) -> None:
    gang_crds.create(control_plane, PLUGINS, namespace, "odd", {"minMember": -1})
    names = members(pods, 2, **labelled("odd"))
    said = "spec.minMember is -1; write 1 or more"
    eventually(lambda: said in why(pods, "m-1")[1])
    assert bound(pods, names) == 0

    both = {LABEL: "odd", "pod-group.scheduling.sigs.k8s.io": "odd"}
    pods.create("both", metadata={"labels": both})
    eventually(lambda: "it belongs to two gangs" in why(pods, "both")[1])


def test_members_of_other_schedulers_count_when_they_have_a_node(
    control_plane: ControlPlane,
    namespace: str,
    pods: Pods,
    nodes: list[str],
    plugins: None,
    running: Running,
) -> None:
    gang_crds.create(control_plane, PLUGINS, namespace, "train", {"minMember": 3})
    other = pods.create("other", scheduler="another", **labelled("train"))
    names = members(pods, 2, **labelled("train"))
    eventually(lambda: "3 are needed" in why(pods, "m-0")[1])
    assert bound(pods, names) == 0

    binding = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": nodes[0]}}
    path = f"{pods.path}/{other['metadata']['name']}/binding"
    assert control_plane.api("POST", path, binding)[0] == 201
    eventually(lambda: bound(pods, names) == 2)


@pytest.mark.usefixtures("assets")
def test_the_manifests_of_scheduler_plugins_work_unchanged(
    control_plane: ControlPlane, namespace: str, pods: Pods, nodes: list[str], plugins: None
) -> None:
    folder = ROOT / "examples" / "migrate" / "scheduler-plugins"
    options = ("--config", str(folder / "fairlead.yaml"))
    with fairlead(control_plane, *options, kubeconfig=control_plane.kubeconfig_for()):
        kubectl(control_plane, f"apply -n {namespace} -f {folder / 'before.yaml'}")
        eventually(lambda: bound(pods, ["train-0", "train-1"]) == 2)


def test_gangs_without_objects(
    pods: Pods, namespace: str, nodes: list[str], running: Running
) -> None:
    words = {f"gang.scheduling.koordinator.sh/{key}": value
             for key, value in (("name", "g"), ("min-available", "3"))}  # fmt: skip
    names = members(pods, 2, "koord", metadata={"annotations": words})
    eventually(lambda: "3 are needed" in why(pods, names[0])[1])
    names.append("koord-late")
    pods.create("koord-late", gpus=1, metadata={"annotations": words})
    eventually(lambda: bound(pods, names) == 3)

    tasks = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]
    app = {"yunikorn.apache.org/app-id": "app"}
    prefix = "yunikorn.apache.org/"
    worker = {"labels": app, "annotations": {f"{prefix}task-group-name": "b"}}
    names = members(pods, 2, "task", metadata=worker)
    eventually(lambda: why(pods, names[0])[0])
    assert bound(pods, names) == 0
    said = {f"{prefix}task-group-name": "a", f"{prefix}task-groups": json.dumps(tasks)}
    pods.create("first", gpus=1, metadata={"labels": app, "annotations": said})
    eventually(lambda: bound(pods, [*names, "first"]) == 3)


def test_where_pod_groups_are_off_the_server_drops_their_name_and_the_log_says_so(
    control_plane: ControlPlane, nodes: list[str], pods: Pods
) -> None:
    pods.create("one", gpus=1, schedulingGroup={"podGroupName": "nowhere"})
    assert "schedulingGroup" not in pods.get("one")["spec"]
    with fairlead(control_plane) as running:
        pods.wait_bound("one")
        said = "gangs of Kubernetes are off", "podgroups.scheduling.k8s.io"

        def found() -> list[str]:
            records = (
                each for each in running.records if (each["event"], each.get("kind")) == said
            )
            return [each["to_use_them"] for each in records]

        assert "GenericWorkload" in eventually(found)[0]
