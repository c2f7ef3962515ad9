"""Gangs of `fairlead.dev/gang` on the real API server: whole, or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually, fairlead


def words(name: str, minimum: int) -> dict[str, str]:
    return {"fairlead.dev/gang": name, "fairlead.dev/gang-min": str(minimum)}


def gang(pods: Pods, name: str, count: int, gpus: int, minimum: int | None = None) -> list[str]:
    names = [f"{name}-{number}" for number in range(count)]
    for each in names:
        pods.create(each, gpus, metadata={"annotations": words(name, minimum or count)})
    return names


@pytest.fixture
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    with control_plane.start_controller_manager(["job-controller", "statefulset-controller"]):
        yield


def test_an_impossible_gang_binds_nothing_and_a_possible_one_binds_whole(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["g1", "g2"], allocatable={"nvidia.com/gpu": "4"})
    large = gang(pods, "large", 5, 2)  # all of it before it is looked at
    with fairlead(control_plane):
        conditions = [pods.wait_refused(name) for name in large]
        assert {condition["reason"] for condition in conditions} == {"Unschedulable"}
        assert conditions[0]["message"].startswith(
            f"gang {pods.namespace}/large: 4 of 5 pods fit; large-4: "
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        )
        events = eventually(lambda: [e for name in large for e in pods.events(name)])
        assert [event["reason"] for event in events] == ["FailedScheduling"], "one for the gang"
        small = gang(pods, "small", 4, 2)
        pods.wait_bound(*small)
        assert not any(pods.node(name) for name in large)


def test_a_gang_that_lacks_pods_waits_for_a_reason_that_buys_no_nodes(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["w1"], allocatable={"nvidia.com/gpu": "4"})
    with fairlead(control_plane):
        names = gang(pods, "job", 2, 1, minimum=3)
        condition = pods.wait_refused(names[0])
        assert condition["reason"] == "WaitingForGang"
        pods.create("job-2", 1, metadata={"annotations": words("job", 3)})
        pods.wait_bound("job-0", "job-1", "job-2")


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
@pytest.mark.usefixtures("controllers")
def test_pods_of_a_controller_are_a_gang(control_plane, create_nodes, pods, kind: str) -> None:
    create_nodes(["c1", "c2"], allocatable={"nvidia.com/gpu": "4"})
    labels = {"app": "train", **words("train", 8)}
    container = {"name": "m", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container]},
    }
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"completions": 8, "parallelism": 8, "completionMode": "Indexed"}
        group = "batch"
    else:
        spec = {
            "replicas": 8,
            "selector": {"matchLabels": {"app": "train"}},
            "podManagementPolicy": "Parallel",
            "serviceName": "train",
        }
        group = "apps"
    body = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {**spec, "template": template},
    }
    path = f"/apis/{group}/v1/namespaces/{pods.namespace}/{kind.lower()}s"
    with fairlead(control_plane):
        status, answer = control_plane.api("POST", path, body)
        assert status == 201, answer
        nodes = eventually(lambda: (all_ := pods.nodes()) and all(all_.values()) and all_)
        assert len(nodes) == 8


def test_a_member_is_replaced_beside_those_that_have_succeeded(
    control_plane, create_nodes, pods
) -> None:
    """The watch does not show them: also after a restart they are looked for."""
    create_nodes(["f1"], allocatable={"nvidia.com/gpu": "4"})
    with fairlead(control_plane):
        pods.wait_bound(*gang(pods, "job", 3, 1))
    for name in ("job-0", "job-1"):
        status = {"status": {"phase": "Succeeded"}}
        path = f"{pods.path}/{name}/status"
        merge = "application/merge-patch+json"
        assert control_plane.api("PATCH", path, status, content_type=merge)[0] == 200
    pods.delete("job-2")
    with fairlead(control_plane):
        pods.create("job-2", 1, metadata={"annotations": words("job", 3)})
        pods.wait_bound("job-2")


@contextmanager
def no_bind_of(pods: Pods, name: str) -> Iterator[None]:
    """A policy of a third party denies the bind of one pod."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy = {
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "gang-member"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
            "validations": [
                {"expression": f"object.metadata.name != '{name}'", "message": "not this one"}
            ],
        },
    }
    scope = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "gang-member"},
        "spec": {"policyName": "gang-member", "validationActions": ["Deny"]},
    }

    def is_enforced() -> bool:
        body = {"metadata": {"name": name}, "target": {"name": "x"}}
        path = f"{pods.path}/{name}/binding?dryRun=All"
        return "not this one" in str(pods.plane.api("POST", path, body)[1].get("message", ""))

    with served.policy(pods.plane, (policy, scope), is_enforced):
        yield


@pytest.mark.real  # a policy denies it
def test_a_member_whose_bind_is_denied_is_placed_again_around_the_others(
    control_plane, create_nodes, pods
) -> None:
    create_nodes(["d1"], allocatable={"nvidia.com/gpu": "3"})
    names = gang(pods, "job", 3, 1)
    with no_bind_of(pods, "job-1"), fairlead(control_plane):
        pods.wait_bound("job-0", "job-2")
        condition = pods.wait_refused("job-1")
        assert condition["reason"] == "SchedulerError"
        assert "not this one" in condition["message"]
        pods.create("single", 1)
        pods.wait_refused("single")
        eventually(
            lambda: pods.get("job-1")["status"].get("nominatedNodeName") == "d1",
            what="its room is kept",
        )
    with fairlead(control_plane):
        pods.wait_bound(*names)
        assert not pods.node("single")


def test_an_elastic_gang_grows_into_gpus_that_become_idle(
    control_plane, create_nodes, pods
) -> None:
    """As torchrun with two to four nodes: it starts with two, and never has more than four."""
    create_nodes(["e1"], allocatable={"nvidia.com/gpu": "5"})
    with fairlead(control_plane):
        pods.create("other", 3)
        pods.wait_bound("other")
        said = {**words("elastic", 2), "fairlead.dev/gang-max": "4"}
        for number in range(5):
            pods.create(f"elastic-{number}", 1, metadata={"annotations": said})
        pods.wait_bound("elastic-0", "elastic-1")
        assert pods.wait_refused("elastic-2")["reason"] == "Unschedulable"
        pods.delete("other")
        pods.wait_bound("elastic-2", "elastic-3")
        pods.create("after", 1)
        pods.wait_bound("after")
        assert not pods.node("elastic-4")
