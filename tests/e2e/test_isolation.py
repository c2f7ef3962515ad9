"""Shares that MPS isolates, on the real API server: admission, placement, and what is written."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead
from webhooks import configured, environment, free_port, injects, pod, webhook

ISOLATION, INVENTORY = "fairlead.dev/gpu-isolation", "fairlead.dev/inventory"
QUARTER = {"fairlead.dev/gpu-share": "0.25"}
MERGE = "application/merge-patch+json"
BY_DEFAULT = """
profiles:
  - schedulerName: gpu-scheduler
    isolation: mps
  - schedulerName: toyscheduler
"""

Nodes = Callable[..., list[str]]


def gpus(node: str, clients: int, count: int = 1) -> dict[str, str]:
    offer = {"mps": clients} if clients else {}
    listed = [
        {"uuid": f"GPU-{node}-{n}", "index": n, "model": "H200", "memoryMib": 16_000, **offer}
        for n in range(count)
    ]
    return {INVENTORY: json.dumps({"version": 2, "gpus": listed})}


def offer(plane: ControlPlane, node: str, clients: int) -> None:
    """What the agent of the node publishes from now on."""
    body = {"metadata": {"annotations": gpus(node, clients)}}
    status, answer = plane.api("PATCH", f"/api/v1/nodes/{node}", body, content_type=MERGE)
    assert status == 200, answer


def annotations(pods: Pods, name: str) -> dict[str, str]:
    found: dict[str, str] = pods.get(name)["metadata"]["annotations"]
    return found


def refused(pods: Pods, name: str, sentence: str) -> None:
    eventually(
        lambda: sentence in pods.condition(name).get("message", ""), what=f"{name}: {sentence}"
    )


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("isolation") / "config.yaml"
    path.write_text(BY_DEFAULT)
    return str(path)


@pytest.fixture(scope="module")
def admitting(real_plane: ControlPlane, config: str) -> Iterator[ControlPlane]:
    """A webhook that reads the scheduler's configuration."""
    port = free_port()
    with configured(real_plane, port), webhook(real_plane, port, "--config", config):
        eventually(lambda: injects(real_plane, "default"), what="injection")
        yield real_plane


@pytest.mark.usefixtures("admitting")
def test_a_share_gets_limits_a_pipe_and_one_of_the_clients(
    control_plane: ControlPlane, create_nodes: Nodes, pods: Pods, config: str
) -> None:
    create_nodes(["mps-1"], annotations=gpus("mps-1", 2))
    forged = [{"name": "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "value": "100"}]
    with fairlead(control_plane, "--config", config):
        pods.create("first", metadata={"annotations": QUARTER}, container={"env": forged})
        pods.create("second", metadata={"annotations": QUARTER})
        pods.wait_bound("first", "second")
        pods.create("third", metadata={"annotations": QUARTER})
        refused(pods, "third", "node(s) had no GPU with a free MPS client")

        said = annotations(pods, "first")
        assert said[ISOLATION] == "mps"
        assert said["fairlead.dev/gpus"] == "GPU-mps-1-0"
        assert said["fairlead.dev/mps-threads"] == "25"
        assert said["fairlead.dev/mps-memory"] == "0=4000M"
        assert json.loads(said["fairlead.dev/assignment"])["iso"] == "mps"
        spec = pods.get("first")["spec"]
        variables = {one["name"]: one for one in environment({"spec": spec})[0]}
        threads = variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]["valueFrom"]["fieldRef"]
        assert threads["fieldPath"] == "metadata.annotations['fairlead.dev/mps-threads']"
        assert [v for v in spec["volumes"] if v["name"] == "fairlead-mps"]

    # Another scheduler knows from the assignments who is a client.
    with fairlead(control_plane, "--config", config):
        pods.create("fourth", metadata={"annotations": QUARTER})
        refused(pods, "fourth", "node(s) had no GPU with a free MPS client")
        # An unhealthy daemon gets nothing new, and what runs stays.
        offer(control_plane, "mps-1", 0)
        numbers = itertools.count()

        def is_seen() -> bool:
            """Before that, another pod would get the place of the second one."""
            pods.create(name := f"asks-{next(numbers)}", metadata={"annotations": QUARTER})
            return "healthy MPS daemon" in pods.wait_refused(name)["message"]

        eventually(is_seen, what="the scheduler knows of the daemon")
        pods.delete("second")
        pods.create("fifth", metadata={"annotations": QUARTER})
        refused(pods, "fifth", "node(s) had no GPU with a healthy MPS daemon")
        assert [name for name, node in pods.nodes().items() if node] == ["first"]
        offer(control_plane, "mps-1", 2)
        eventually(lambda: sum(map(bool, pods.nodes().values())) == 2, what="a client again")


@pytest.mark.usefixtures("admitting")
def test_other_pods_are_kept_off_and_told_why(
    control_plane: ControlPlane, create_nodes: Nodes, pods: Pods, config: str
) -> None:
    create_nodes(["mps-2"], annotations=gpus("mps-2", 9))
    with fairlead(control_plane, "--config", config):
        advisory = {"annotations": {**QUARTER, ISOLATION: "advisory"}}
        pods.create("advisory", metadata=advisory)
        refused(pods, "advisory", "node(s) serve shares with MPS only")
        # A profile without a default changes nothing.
        pods.create("plain", scheduler="toyscheduler", metadata={"annotations": QUARTER})
        refused(pods, "plain", "node(s) serve shares with MPS only")
        assert ISOLATION not in annotations(pods, "plain")


@pytest.mark.usefixtures("admitting")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({**QUARTER, ISOLATION: "mpz"}, "is 'mpz'; write advisory, mps or mig"),
        ({"fairlead.dev/gpu-memory": "4Gi"}, "its compute is not limited; add fairlead.dev/gpu-s"),
        ({**QUARTER, "fairlead.dev/gpu-count": "2"}, "requests 2 GPUs with MPS"),
    ],
)
def test_what_mps_cannot_serve_is_refused_at_once(
    control_plane: ControlPlane, words: dict[str, str], sentence: str
) -> None:
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    status, answer = control_plane.api("POST", path, pod("odd", annotations=words))
    assert status == 422
    assert sentence in answer["message"]


@pytest.mark.usefixtures("admitting")
@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_pod_security_refuses_the_pipe_and_names_it(
    control_plane: ControlPlane, namespace: str, level: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    path = f"/api/v1/namespaces/{namespace}"
    control_plane.api("PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE)

    def answer() -> tuple[int, dict[str, Any]]:
        return control_plane.api("POST", f"{path}/pods?dryRun=All", pod("p", annotations=QUARTER))

    status, said = eventually(lambda: found if (found := answer())[0] != 201 else None)
    assert status == 403
    assert f'violates PodSecurity "{level}:latest"' in said["message"]
    assert 'volume "fairlead-mps"' in said["message"]
