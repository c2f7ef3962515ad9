"""The kinds that the embedded server knows, as discovery shows them."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from fairlead.model.lazy_dataclass import dataclass

FULL_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
CREATE_ONLY = ("create",)


@dataclass(frozen=True, slots=True)
class Kind:
    """One served resource in one version. `store` names the resource that keeps its objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = FULL_VERBS
    singular: str = ""
    list_kind: str = ""
    store: str = ""
    custom: dict[str, Any] | None = field(default=None, hash=False, compare=False)
    # Derived once: every request asks for them.
    api_version: str = field(init=False)
    group_resource: str = field(init=False)  # `deployments.apps`: how messages name the resource
    store_name: str = field(init=False)
    prefix: bytes = field(init=False)  # how every stored object begins; lists cut it off

    def __post_init__(self) -> None:
        version = f"{self.group}/{self.version}" if self.group else self.version
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        prefix = f'{{"kind":"{self.kind}","apiVersion":"{version}",'.encode()
        object.__setattr__(self, "api_version", version)
        object.__setattr__(self, "group_resource", resource)
        object.__setattr__(self, "store_name", self.store or resource)
        object.__setattr__(self, "prefix", prefix)

    @property
    def listed_as(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @property
    def one(self) -> str:
        return self.singular or self.kind.lower()


def _core() -> Iterator[Kind]:
    def core(kind: str, plural: str, *short: str, **more: Any) -> Kind:
        return Kind("", "v1", kind, plural, short=short, **more)

    every = ("all",)
    yield core("Binding", "bindings", verbs=CREATE_ONLY)
    yield core("ConfigMap", "configmaps", "cm")
    yield core("Endpoints", "endpoints", "ep", singular="endpoints")
    yield core("Event", "events", "ev")
    yield core("LimitRange", "limitranges", "limits")
    yield core("Namespace", "namespaces", "ns", namespaced=False,
               subresources=("finalize", "status"),
               verbs=("create", "delete", "get", "list", "patch", "update", "watch"))  # fmt: skip
    yield core("Node", "nodes", "no", namespaced=False, subresources=("status",))
    yield core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=("status",))
    yield core("PersistentVolume", "persistentvolumes", "pv", namespaced=False,
               subresources=("status",))  # fmt: skip
    yield core("Pod", "pods", "po", categories=every,
               subresources=("binding", "eviction", "log", "status"))  # fmt: skip
    yield core("PodTemplate", "podtemplates")
    yield core("ReplicationController", "replicationcontrollers", "rc", categories=every,
               subresources=("scale", "status"))  # fmt: skip
    yield core("ResourceQuota", "resourcequotas", "quota", subresources=("status",))
    yield core("Secret", "secrets")
    yield core("ServiceAccount", "serviceaccounts", "sa")
    yield core("Service", "services", "svc", categories=every, subresources=("status",))


def _workloads() -> Iterator[Kind]:
    both, every = ("scale", "status"), ("all",)
    for kind, plural, short, subresources in (
        ("ControllerRevision", "controllerrevisions", (), ()),
        ("DaemonSet", "daemonsets", ("ds",), ("status",)),
        ("Deployment", "deployments", ("deploy",), both),
        ("ReplicaSet", "replicasets", ("rs",), both),
        ("StatefulSet", "statefulsets", ("sts",), both),
    ):
        shown = () if kind == "ControllerRevision" else every
        yield Kind("apps", "v1", kind, plural, True, short, shown, subresources)
    yield Kind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), every, ("status",))
    yield Kind("batch", "v1", "Job", "jobs", True, (), every, ("status",))
    yield Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), (),
               ("status",))  # fmt: skip


def _cluster() -> Iterator[Kind]:
    def cluster(group: str, kind: str, plural: str, *short: str, **more: Any) -> Kind:
        return Kind(group, "v1", kind, plural, namespaced=False, short=short, **more)

    status = ("status",)
    yield cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses", "pc")
    yield cluster("node.k8s.io", "RuntimeClass", "runtimeclasses")
    yield cluster("storage.k8s.io", "StorageClass", "storageclasses", "sc")
    yield cluster("storage.k8s.io", "CSINode", "csinodes")
    yield cluster("storage.k8s.io", "CSIDriver", "csidrivers")
    yield cluster("storage.k8s.io", "VolumeAttachment", "volumeattachments", subresources=status)
    yield Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
    yield cluster("rbac.authorization.k8s.io", "ClusterRole", "clusterroles")
    yield cluster("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings")
    yield Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    yield Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
    registration = "admissionregistration.k8s.io"
    shown = ("api-extensions",)
    yield cluster(registration, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
                  categories=shown)  # fmt: skip
    yield cluster(registration, "ValidatingWebhookConfiguration",
                  "validatingwebhookconfigurations", categories=shown)  # fmt: skip
    for kind, status_of in (("ValidatingAdmissionPolicy", status), ("MutatingAdmissionPolicy", ())):
        plural = kind.lower().removesuffix("y") + "ies"
        yield cluster(registration, kind, plural, categories=shown, subresources=status_of)
        yield cluster(registration, f"{kind}Binding", f"{kind.lower()}bindings", categories=shown)
    yield cluster("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions",
                  "crd", "crds", categories=shown, subresources=status)  # fmt: skip
    yield cluster("resource.k8s.io", "DeviceClass", "deviceclasses")
    yield cluster("resource.k8s.io", "ResourceSlice", "resourceslices")
    yield Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", subresources=status)
    yield Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")


def _rest() -> Iterator[Kind]:
    yield Kind("coordination.k8s.io", "v1", "Lease", "leases")
    # One object, two views: what is posted to either group is seen in both.
    yield Kind("events.k8s.io", "v1", "Event", "events", short=("ev",), store="events")
    yield Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
    yield Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short=("netpol",))
    yield Kind("networking.k8s.io", "v1", "Ingress", "ingresses", short=("ing",),
               subresources=("status",))  # fmt: skip
    for kind in ("SelfSubjectAccessReview", "SubjectAccessReview", "SelfSubjectRulesReview"):
        plural = kind.lower() + "s"
        yield Kind("authorization.k8s.io", "v1", kind, plural, False, verbs=CREATE_ONLY)
    for kind in ("TokenReview", "SelfSubjectReview"):
        plural = kind.lower() + "s"
        yield Kind("authentication.k8s.io", "v1", kind, plural, False, verbs=CREATE_ONLY)


BUILT_IN: tuple[Kind, ...] = (*_core(), *_workloads(), *_cluster(), *_rest())
