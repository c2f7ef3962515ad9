"""Nodes for whole gangs by ProvisioningRequest; the tests are the autoscaler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import definitions
import provisioning_requests
from autoscaler_rules import History
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from provisioning_requests import Requests

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CONFIG = """
gangs:
  nodeRequests:
    parameters: {ValidUntilSeconds: "600"}
    retryAfter: 1s
"""


@pytest.fixture(scope="module", autouse=True)
def kind(control_plane: ControlPlane) -> Iterator[None]:
    with definitions.installed(control_plane, provisioning_requests.KIND):
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("requests") / "scheduler.yaml"
    file.write_text(CONFIG)
    return file


@contextmanager
def scheduler(plane: ControlPlane, config: Path) -> Iterator[Running]:
    admin = plane.kubeconfig_for()
    with fairlead(plane, "--config", str(config), kubeconfig=admin) as running:
        ready(running)
        yield running


def ready(running: Running) -> None:
    def is_on() -> bool:
        return any(each["event"] == "nodes are requested for gangs" for each in running.records)

    eventually(is_on, what="requests are served")


@pytest.fixture
def requests(control_plane: ControlPlane, namespace: str) -> Requests:
    return Requests(control_plane, namespace)


def create_gang(pods: Pods, pool: str, count: int = 3, secret: str = "") -> list[str]:
    said = {"fairlead.dev/gang": "job", "fairlead.dev/gang-min": str(count)}
    environment = {"env": [{"name": "TOKEN", "value": secret}]} if secret else {}
    names = [f"m{n}" for n in range(count)]
    for name in names:
        pods.create(
            name,
            metadata={"annotations": said, "labels": {"app": "job"}},
            nodeSelector={"pool": pool},
            container={"resources": {"limits": {GPU: "8"}}, **environment},
        )
    return names


def wait_until_said(pods: Pods, names: list[str], words: str) -> None:
    for name in names:
        eventually(
            lambda n=name: words in pods.condition(n).get("message", ""), what=f"{name}: {words}"
        )


@pytest.mark.real  # a request may not change
def test_a_gang_gets_its_nodes_by_one_request_also_across_a_restart(
    control_plane: ControlPlane,
    pods: Pods,
    requests: Requests,
    config: Path,
    create_nodes: Callable[..., list[str]],
    namespace: str,
) -> None:
    history = History(control_plane, namespace)
    with scheduler(control_plane, config):
        names = create_gang(pods, namespace, secret="do not copy")
        request = requests.wait_for_one()
        check(request, requests.templates(), pods.get("m0"), namespace)
        wait_until_said(pods, names, "is not accepted yet")
    requests.say(request, "Accepted")
    requests.say(request, "Provisioned", "False", "Capacity is not found.")
    with scheduler(control_plane, config):
        wait_until_said(pods, names, "is accepted: Capacity is not found.")
        requests.say(request, "Provisioned")
        wait_until_said(pods, names, "is provisioned")
        assert requests.wait_for_one()["metadata"]["uid"] == request["metadata"]["uid"]
        on = [f"{namespace}-{n}" for n in range(3)]
        create_nodes(on, allocatable={GPU: "8"}, labels={"pool": namespace})
        assert set(pods.wait_bound(*names).values()) == set(on)
        eventually(lambda: not requests.all() and not requests.templates(), what="none is left")
    assert history.buyers() == []
    # The first may have waited for the others.
    for reasons in history.reasons().values():
        assert reasons in (["WaitingForNodes"], ["WaitingForGang", "WaitingForNodes"])


def check(request: Json, templates: dict[str, Json], pod: Json, pool: str) -> None:
    """The request is for three pods, and has of them what says where they can run."""
    assert request["spec"]["provisioningClassName"] == CLASS
    assert request["spec"]["parameters"] == {"ValidUntilSeconds": "600"}
    [pod_set] = request["spec"]["podSets"]
    assert pod_set["count"] == 3
    template = templates[pod_set["podTemplateRef"]["name"]]
    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": pool}
    assert spec["containers"][0]["resources"]["limits"] == {GPU: "8"}
    assert template["template"]["metadata"]["labels"] == {"app": "job"}
    assert "do not copy" not in str(template)
    for made in (request, template):
        owners = [each["uid"] for each in made["metadata"]["ownerReferences"]]
        assert owners == [pod["metadata"]["uid"]]


def test_a_request_that_failed_is_written_again_and_those_of_others_are_left_alone(
    control_plane: ControlPlane, pods: Pods, requests: Requests, config: Path, namespace: str
) -> None:
    # Its author says that it is for a gang in another namespace.
    theirs = requests.create("fairlead-theirs", "fairlead/elsewhere/job")["metadata"]["uid"]
    with scheduler(control_plane, config):
        pods.create("single", 8, nodeSelector={"pool": namespace})
        assert pods.wait_refused("single")["reason"] == "Unschedulable"
        names = create_gang(pods, namespace)
        first = requests.wait_for_one(other_than=[theirs])
        requests.say(first, "Accepted")
        requests.say(first, "Failed", message="Out of stock.")
        second = requests.wait_for_one(other_than=[theirs, first["metadata"]["uid"]])
        assert second["spec"] == first["spec"]
        wait_until_said(pods, names, "is not accepted yet")
        for name in names:
            pods.delete(name)
        eventually(lambda: not requests.templates(), what="the templates are gone")
        assert requests.wait_for_one()["metadata"]["uid"] == theirs
        create_shares(pods, namespace)
        check_shares(requests.wait_for_one(other_than=[theirs]), requests)


def create_shares(pods: Pods, pool: str) -> None:
    said = {"fairlead.dev/gang": "shares", "fairlead.dev/gang-min": "3"}
    for n in range(3):
        pods.create(
            f"s{n}",
            metadata={"annotations": {**said, "fairlead.dev/gpu-share": "0.5"}},
            nodeSelector={"pool": pool},
            requests={"cpu": "2"},
        )


def check_shares(request: Json, requests: Requests) -> None:
    """Three halves are two GPUs, and each of the two pods has what two of the three need."""
    [pod_set] = request["spec"]["podSets"]
    assert pod_set["count"] == 2
    spec = requests.templates()[pod_set["podTemplateRef"]["name"]]["template"]["spec"]
    first, second = (each["resources"] for each in spec["containers"])
    assert first["limits"] == {GPU: "1"}
    assert first["requests"]["cpu"] == second["requests"]["cpu"] == "2"
