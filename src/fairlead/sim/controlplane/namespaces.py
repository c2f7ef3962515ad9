"""Empties and removes a namespace at once, as kube-controller-manager would in its own time."""

from collections.abc import Iterator
from typing import Any

from fairlead.sim.controlplane.client import MERGE_PATCH, SyncClient
from fairlead.sim.controlplane.process import ControlPlaneError

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


def delete_namespace(client: SyncClient, name: str) -> None:
    """Delete the namespace and everything in it; returns when it is gone. Absent is fine."""
    # Marked first, so that nothing new can be created in it.
    status, namespace = client.api("DELETE", f"/api/v1/namespaces/{name}")
    if status == 404:
        return
    for collection in _collections(client, name):
        _empty(client, collection)
    namespace["spec"] = {"finalizers": []}
    status, answer = client.api("PUT", f"/api/v1/namespaces/{name}/finalize", namespace)
    if status not in (200, 404):
        raise ControlPlaneError(f"Namespace {name} stays: {answer.get('message')}")


def _collections(client: SyncClient, namespace: str) -> Iterator[str]:
    """The path of every kind of thing that can be in a namespace, custom resources included."""
    for root in ("/api", "/apis"):
        _, discovered = client.api("GET", root, accept=_DISCOVERY)
        for group in discovered["items"]:
            name = group["metadata"].get("name", "")
            # The preferred version comes first; every version shows the same things.
            version = group["versions"][0]
            prefix = f"{root}/{name}/{version['version']}" if name else f"{root}/v1"
            for kind in version["resources"]:
                if kind["scope"] == "Namespaced" and "deletecollection" in kind["verbs"]:
                    yield f"{prefix}/namespaces/{namespace}/{kind['resource']}"


def _empty(client: SyncClient, collection: str) -> None:
    try:
        client.api("DELETE", collection, _AT_ONCE)
        # Most are empty, and a list of nothing is cheap. What is left waits for its finalizers.
        _, left = client.api("GET", collection)
    except ControlPlaneError:  # in plain text: the definition of the kind was removed meanwhile
        return
    for item in left.get("items", []):
        _release(client, f"{collection}/{item['metadata']['name']}", item)


def _release(client: SyncClient, path: str, item: dict[str, Any]) -> None:
    if item["metadata"].get("finalizers"):
        no_finalizers = {"metadata": {"finalizers": None}}
        client.api("PATCH", path, no_finalizers, content_type=MERGE_PATCH)
    client.api("DELETE", path, _AT_ONCE)
