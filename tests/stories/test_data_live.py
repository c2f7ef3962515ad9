"""A pod waits for a node that has its data, as Fluid and KServe say it on a real API server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gang_crds
from fairlead.kube.data_objects import DATASET, MODEL_CACHE, MODEL_NODE
from fairlead.kube.gangs.api import GangKind
from fairlead.model.data_sets import DATA
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

MERGE = "application/merge-patch+json"
WAITING = "WaitingForBetterPlace"
CONFIG = """
apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
goals:
  bandwidth: [{kind: table, rows: [{perNode: 1000}]}]
profiles:
  - schedulerName: gpu-scheduler
    goals: {order: [{sum: [FetchTime], atMost: 5, patience: 10h}]}
"""


@pytest.fixture
def kinds(control_plane: ControlPlane) -> Iterator[None]:
    scopes = {DATASET: "Namespaced", MODEL_CACHE: "Cluster", MODEL_NODE: "Cluster"}
    for kind, scope in scopes.items():
        gang_crds.install_kind(control_plane, kind, scope)
    yield
    for kind in scopes:
        gang_crds.uninstall_kind(control_plane, kind)


def write_status(
    plane: ControlPlane, kind: GangKind, name: str, namespace: str = "", **status: Any
) -> None:
    """Of an object that is created first, if it is not there."""
    path = kind.path(kind.versions[0])
    if namespace:
        path = path.replace(f"/{kind.plural}", f"/namespaces/{namespace}/{kind.plural}")
    body = {
        "apiVersion": f"{kind.group}/{kind.versions[0]}", "kind": kind.kind,
        "metadata": {"name": name}, "spec": {"modelSize": "140Gi"},
    }  # fmt: skip
    assert plane.api("POST", path, body)[0] in (201, 409)
    patch = plane.api("PATCH", f"{path}/{name}/status", {"status": status}, content_type=MERGE)
    assert patch[0] == 200, patch


@pytest.mark.real
@pytest.mark.usefixtures("kinds")
def test_pods_wait_for_a_node_with_their_data(
    control_plane: ControlPlane, pods: Pods, create_nodes: Callable[..., None], tmp_path: Path
) -> None:
    create_nodes(["data-far", "data-near"])
    write_status(control_plane, MODEL_CACHE, "llama")
    cached = {"ufsTotal": "150GiB", "cacheStates": {"cached": "150GiB"}}
    write_status(control_plane, DATASET, "imagenet", pods.namespace, **cached)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    kubeconfig = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(config), kubeconfig=kubeconfig):
        for name, data in (("model", "model/llama"), ("dataset", "dataset/imagenet")):
            pods.create(name, metadata={"annotations": {DATA: data}})
            eventually(lambda name=name: pods.condition(name).get("reason") == WAITING)
        write_status(
            control_plane, MODEL_NODE, "data-near", modelStatus={"llama": "ModelDownloaded"}
        )
        assert pods.wait_bound("model") == {"model": "data-near"}
        labels = {f"fluid.io/s-{pods.namespace}-imagenet": "true"}
        path = "/api/v1/nodes/data-near"
        answer = control_plane.api(
            "PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE
        )
        assert answer[0] == 200
        assert pods.wait_bound("dataset") == {"dataset": "data-near"}
