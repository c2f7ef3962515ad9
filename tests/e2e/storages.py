"""Storage objects on a real API server, in as few words as a test needs."""

from typing import Any

from fairlead.sim.controlplane import ControlPlane

STORAGE = "/apis/storage.k8s.io/v1"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
WAITING = "waiting"
Object = dict[str, Any]


class Storage:
    """Makes objects, and removes those that belong to no namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._made: list[str] = []

    def make(self, path: str, body: Object) -> Object:
        status, answer = self.plane.api("POST", path, body)
        assert status == 201, answer
        self._made.append(f"{path}/{answer['metadata']['name']}")
        return answer

    def remove_all(self) -> None:
        for path in reversed(self._made):
            self.plane.api(
                "PATCH", path, {"metadata": {"finalizers": None}},
                content_type="application/merge-patch+json",
            )  # fmt: skip
            self.plane.api("DELETE", path)

    def a_class(self, name: str = WAITING, provisioner: str = "", **more: Any) -> Object:
        """WaitForFirstConsumer, without a provisioner unless one is named."""
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner or "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
            **more,
        }
        return self.make(f"{STORAGE}/storageclasses", body)

    def a_claim(
        self, name: str, storage_class: str = WAITING, size: str = "1Gi", **more: Any
    ) -> Object:
        """`meta` goes into the metadata, `status` is written after it was made."""
        meta, status = more.pop("meta", {}), more.pop("status", None)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **more,
        }
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        made = self.make(path, {"metadata": {"name": name, **meta}, "spec": spec})
        return self._with_status(f"{path}/{name}", status) if status else made

    def a_volume(
        self, name: str, storage_class: str = WAITING, size: str = "1Gi", **more: Any
    ) -> Object:
        """Available; on one node if `node` says so."""
        meta, node = more.pop("meta", {}), more.pop("node", "")
        phase = more.pop("phase", "Available")
        affinity = {"nodeAffinity": reaches("kubernetes.io/hostname", node)} if node else {}
        source = {} if "csi" in more else {"local": {"path": "/disk"}}
        if "local" in source and not (node or "nodeAffinity" in more):
            source = {"nfs": {"server": "127.0.0.1", "path": "/disk"}}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "capacity": {"storage": size},
            **source,
            **affinity,
            **more,
        }
        path = "/api/v1/persistentvolumes"
        self.make(path, {"metadata": {"name": name, **meta}, "spec": spec})
        return self._with_status(f"{path}/{name}", {"phase": phase})

    def bound(self, name: str, volume: str = "", **of_volume: Any) -> None:
        """A claim and its volume, bound to each other as the PV controller would leave them."""
        volume = volume or f"{self.namespace}-{name}"
        meta = {"annotations": {BIND_COMPLETED: "yes"}}
        modes = {key: of_volume[key] for key in ("accessModes",) if key in of_volume}
        claim = self.a_claim(name, volumeName=volume, meta=meta, status={"phase": "Bound"}, **modes)
        reference = {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": self.namespace,
            "name": name, "uid": claim["metadata"]["uid"],
        }  # fmt: skip
        self.a_volume(volume, claimRef=reference, phase="Bound", **of_volume)

    def claim(self, name: str) -> Object:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}"
        return self.plane.api("GET", path)[1]

    def volume(self, name: str) -> Object:
        return self.plane.api("GET", f"/api/v1/persistentvolumes/{name}")[1]

    def _with_status(self, path: str, status: Object) -> Object:
        code, answer = self.plane.api(
            "PATCH", f"{path}/status", {"status": status},
            content_type="application/merge-patch+json",
        )  # fmt: skip
        assert code == 200, answer
        return answer


def reaches(key: str, *values: str) -> Object:
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def uses(*claims: str) -> list[Object]:
    """The volumes of a pod that uses these claims."""
    return [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
