"""The fields that `fieldSelector` can ask for, by resource."""

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
FieldReader = Callable[[Object], dict[str, str]]


def _identity(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    fields = {"metadata.name": metadata["name"]}
    if "namespace" in metadata:
        fields["metadata.namespace"] = metadata["namespace"]
    return fields


def _pod(obj: Object) -> dict[str, str]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return _identity(obj) | {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": status.get("podIP", ""),
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def _node(obj: Object) -> dict[str, str]:
    unschedulable = obj.get("spec", {}).get("unschedulable")
    return _identity(obj) | {"spec.unschedulable": "true" if unschedulable else "false"}


def _event(obj: Object) -> dict[str, str]:
    about, source = obj.get("involvedObject", {}), obj.get("source", {})
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    fields = {f"involvedObject.{part}": about.get(part, "") for part in parts}
    # events.k8s.io calls the same thing `regarding`.
    fields |= {f"regarding.{part}": about.get(part, "") for part in parts}
    controller = obj.get("reportingComponent", "")
    return (
        _identity(obj)
        | fields
        | {
            "reason": obj.get("reason", ""),
            "reportingComponent": controller,
            "reportingController": controller,
            "source": source.get("component", "") or controller,
            "type": obj.get("type", ""),
        }
    )


def _namespace(obj: Object) -> dict[str, str]:
    return _identity(obj) | {"status.phase": obj.get("status", {}).get("phase", "")}


def _replicas(obj: Object) -> dict[str, str]:
    return _identity(obj) | {"status.replicas": str(obj.get("status", {}).get("replicas", 0))}


def _job(obj: Object) -> dict[str, str]:
    return _identity(obj) | {"status.successful": str(obj.get("status", {}).get("succeeded", 0))}


def _secret(obj: Object) -> dict[str, str]:
    return _identity(obj) | {"type": obj.get("type", "")}


def _service(obj: Object) -> dict[str, str]:
    spec = obj.get("spec", {})
    return _identity(obj) | {
        "spec.clusterIP": spec.get("clusterIP", ""),
        "spec.type": spec.get("type", ""),
    }


def _slice(obj: Object) -> dict[str, str]:
    spec = obj.get("spec", {})
    return _identity(obj) | {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.driver": spec.get("driver", ""),
    }


_READERS: dict[str, FieldReader] = {
    "pods": _pod,
    "nodes": _node,
    "events": _event,
    "namespaces": _namespace,
    "replicasets.apps": _replicas,
    "replicationcontrollers": _replicas,
    "jobs.batch": _job,
    "secrets": _secret,
    "services": _service,
    "resourceslices.resource.k8s.io": _slice,
}

_SAMPLE: Object = {"metadata": {"name": "", "namespace": ""}}


def reader_for(store_name: str) -> FieldReader:
    return _READERS.get(store_name, _identity)


def known_fields(store_name: str, namespaced: bool, legacy: bool = True) -> frozenset[str]:
    """Field names that a selector on this resource may use."""
    names = set(reader_for(store_name)(_SAMPLE))
    if not namespaced and store_name != "nodes":
        names.discard("metadata.namespace")
    if store_name == "events":
        hidden = "regarding." if legacy else "involvedObject."
        names = {name for name in names if not name.startswith(hidden)}
    return frozenset(names)
