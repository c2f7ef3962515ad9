"""Nodes that no kubelet serves: created Ready, with GPUs, and free of the not-ready taint."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from fairlead.sim.controlplane.client import MERGE_PATCH, Answer, SyncClient
from fairlead.sim.controlplane.process import ControlPlaneError

Taint: TypeAlias = Mapping[str, str]
Body: TypeAlias = dict[str, Any]

_NOT_READY = "node.kubernetes.io/not-ready"
_ROOMY = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)


def node_names(names: int | Sequence[str], prefix: str) -> list[str]:
    """The names given, or as many as asked for, of equal length so that they sort as they count."""
    if not isinstance(names, int):
        return list(names)
    return [f"{prefix}{number:05d}" for number in range(names)]


def node_body(
    name: str,
    allocatable: Mapping[str, str],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    taints: Iterable[Taint],
) -> Body:
    """A Ready node as its kubelet would register it; `allocatable` is added to a roomy default."""
    resources = {**_ROOMY, **allocatable}
    usual = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**usual, **labels}, "annotations": dict(annotations)},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": _conditions(),
            "addresses": [{"type": "Hostname", "address": name}],
            "phase": "Running",
        },
    }


def create(connect: Callable[[], SyncClient], bodies: Sequence[Body], threads: int) -> None:
    """Create these nodes, a few at a time; returns when all are Ready and untainted."""

    def create_share(share: Sequence[Body]) -> None:
        with connect() as client:
            for body in share:
                _create_one(client, body)

    shares = [bodies[start::threads] for start in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(create_share, [share for share in shares if share]))


def _create_one(client: SyncClient, body: Body) -> None:
    created = _expect(201, "POST", client.api("POST", "/api/v1/nodes", body))
    # The TaintNodesByCondition admission plugin taints every new node, ready or not.
    taints = created["spec"].get("taints", [])
    kept = [taint for taint in taints if taint["key"] != _NOT_READY]
    if kept != taints:
        path = f"/api/v1/nodes/{body['metadata']['name']}"
        patch = {"spec": {"taints": kept or None}}
        _expect(200, "PATCH", client.api("PATCH", path, patch, content_type=MERGE_PATCH))


def _expect(wanted: int, doing: str, answer: Answer) -> Body:
    status, body = answer
    if status != wanted:
        raise ControlPlaneError(f"{doing} of a node answered {status}: {body.get('message')}")
    return body


def _conditions() -> list[Body]:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason in _CONDITIONS
    ]
