"""Where the objects of a case live in the API, and in which order they are written."""

from dataclasses import dataclass

from oracle.case import NAMESPACES, Object


@dataclass(frozen=True)
class Kind:
    name: str
    group: str
    plural: str
    namespaced: bool = False
    #: Its status is not taken at create, and has to be written afterwards.
    status_apart: bool = False

    def paths(self) -> list[str]:
        """Of the collections that hold all of them."""
        places = [f"namespaces/{name}/" for name in NAMESPACES] if self.namespaced else [""]
        return [f"{self.group}/{place}{self.plural}" for place in places]

    def path(self, thing: Object) -> str:
        """Of the collection that holds this one."""
        place = f"namespaces/{thing['metadata']['namespace']}/" if self.namespaced else ""
        return f"{self.group}/{place}{self.plural}"


_STORAGE = "/apis/storage.k8s.io/v1"
_RESOURCE = "/apis/resource.k8s.io/v1"

#: Nodes come last: once a scheduler has seen them, it has had time to see the rest.
KINDS = (
    Kind("StorageClass", _STORAGE, "storageclasses"),
    Kind("CSIDriver", _STORAGE, "csidrivers"),
    Kind("CSINode", _STORAGE, "csinodes"),
    Kind("CSIStorageCapacity", _STORAGE, "csistoragecapacities", namespaced=True),
    Kind("VolumeAttachment", _STORAGE, "volumeattachments"),
    Kind("PersistentVolume", "/api/v1", "persistentvolumes", status_apart=True),
    Kind("PersistentVolumeClaim", "/api/v1", "persistentvolumeclaims", True, status_apart=True),
    Kind("Service", "/api/v1", "services", namespaced=True),
    Kind("ReplicationController", "/api/v1", "replicationcontrollers", namespaced=True),
    Kind("ReplicaSet", "/apis/apps/v1", "replicasets", namespaced=True),
    Kind("StatefulSet", "/apis/apps/v1", "statefulsets", namespaced=True),
    Kind("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets", True, status_apart=True),
    Kind("DeviceClass", _RESOURCE, "deviceclasses"),
    Kind("ResourceSlice", _RESOURCE, "resourceslices"),
    Kind("DeviceTaintRule", _RESOURCE, "devicetaintrules"),
    Kind("ResourceClaimTemplate", _RESOURCE, "resourceclaimtemplates", namespaced=True),
    Kind("ResourceClaim", _RESOURCE, "resourceclaims", namespaced=True, status_apart=True),
    Kind("Pod", "/api/v1", "pods", namespaced=True, status_apart=True),
    Kind("Node", "/api/v1", "nodes"),
)
BY_NAME = {kind.name: kind for kind in KINDS}
