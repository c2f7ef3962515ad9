"""What Karpenter may buy on its KWOK provider, and what it has bought."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually
from peer_controllers import post

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
POOL = "example.com/pool"
TYPE = "node.kubernetes.io/instance-type"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_PATCH = "application/merge-patch+json"


def write_types(path: Path) -> Path:
    """Nodes with eight GPUs, with two, and without: a GPU costs least on large nodes."""
    path.write_text(
        json.dumps(
            [_type("cpu-8", 8, 0, 0.4), _type("gpu-2", 16, 2, 2.2), _type("gpu-8", 64, 8, 8)]
        )
    )
    return path


def _type(name: str, cpu: int, gpus: int, price: float) -> Json:
    amounts = {"cpu": str(cpu), "memory": f"{8 * cpu}Gi", "ephemeral-storage": "100Gi"}
    rules = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
    required = [{"key": key, "operator": "In", "values": [value]} for key, value in rules.items()]
    return {
        "name": name,
        "offerings": [{"Price": price, "Available": True, "Requirements": required}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": amounts | ({GPU: str(gpus)} if gpus else {}),
    }


class Purchases:
    """NodeClaims of a pool from now on, those that are gone among them."""

    def __init__(self, plane: ControlPlane, pool: str) -> None:
        self._plane, self._pool = plane, pool
        self._since = plane.api("GET", CLAIMS)[1]["metadata"]["resourceVersion"]

    def types(self) -> list[str]:
        """The instance type of each node with GPUs that was bought."""
        query = f"watch=1&resourceVersion={self._since}&timeoutSeconds=1"
        events = map(json.loads, self._plane.text(f"{CLAIMS}?{query}").splitlines())
        found = {e["object"]["metadata"]["name"]: e["object"] for e in events}
        mine = [each for each in found.values() if _pool_of(each) == self._pool]
        types = sorted(each["metadata"]["labels"].get(TYPE, "?") for each in mine)
        return [each for each in types if each != "cpu-8"]

    def live(self) -> dict[str, Json]:
        """By the name of their nodes."""
        found = self._plane.api("GET", CLAIMS)[1]["items"]
        mine = [each for each in found if _pool_of(each) == self._pool]
        return {each.get("status", {}).get("nodeName", ""): each for each in mine}


def _pool_of(claim: Json) -> str:
    return str(claim["metadata"]["labels"]["karpenter.sh/nodepool"])


@contextmanager
def pool(plane: ControlPlane, name: str, **template: Any) -> Iterator[Purchases]:
    """Nodes that pods select by the label of their pool; those of no use stay."""
    plane.api("POST", _CLASSES, {
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
    })  # fmt: skip
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    spec = {"requirements": [linux], "nodeClassRef": reference, "expireAfter": "Never", **template}
    body = {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {POOL: name}}, "spec": spec},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        },
    }  # fmt: skip
    purchases = Purchases(plane, name)
    post(plane, _POOLS, body)
    try:
        yield purchases
    finally:
        _remove(plane, purchases, name)


def consolidate(plane: ControlPlane, name: str) -> None:
    """From now on, nodes of the pool that are of no use are removed."""
    patch = {"spec": {"disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}}}
    status, said = plane.api("PATCH", f"{_POOLS}/{name}", patch, content_type=_PATCH)
    assert status == 200, said


def _remove(plane: ControlPlane, purchases: Purchases, name: str) -> None:
    plane.api("DELETE", f"{_POOLS}/{name}")
    eventually(partial(_is_empty, plane, purchases), what=f"the nodes of {name} are gone")


def _is_empty(plane: ControlPlane, purchases: Purchases) -> bool:
    """Karpenter waits for the pods of its nodes; these tests do not."""
    live = purchases.live()
    for node, claim in live.items():
        plane.api("DELETE", f"{CLAIMS}/{claim['metadata']['name']}")
        for path in (f"/api/v1/nodes/{node}", f"{CLAIMS}/{claim['metadata']['name']}"):
            plane.api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=_PATCH)
        plane.api("DELETE", f"/api/v1/nodes/{node}")
    return not live
