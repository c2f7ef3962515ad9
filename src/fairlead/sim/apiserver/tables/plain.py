"""Rows of nodes, events and the kinds that are only stored."""

from typing import Any

from fairlead.sim.apiserver.clock import age
from fairlead.sim.apiserver.tables.columns import Cells, columns, conditions

Object = dict[str, Any]

NODE_COLUMNS = columns(
    "Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*",
    "Kernel-Version*", "Container-Runtime*",
)  # fmt: skip
EVENT_COLUMNS = columns(
    "Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message", "First Seen*",
    "Count*", "Name*",
)  # fmt: skip
_ROLE = "node-role.kubernetes.io/"
_MODES = {
    "ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}  # fmt: skip


def _base(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["name"], age(obj["metadata"].get("creationTimestamp"))


def node_row(node: Object) -> Cells:
    name, old = _base(node)
    about = node.get("status", {}).get("nodeInfo") or {}
    kernel = about.get("kernelVersion") or "<unknown>"
    kernel += f" ({about['architecture']})" if about.get("architecture") else ""
    return [
        name, _node_status(node), _roles(node), old, about.get("kubeletVersion", ""),
        _address(node, "InternalIP"), _address(node, "ExternalIP"),
        about.get("osImage") or "<unknown>", kernel,
        about.get("containerRuntimeVersion") or "<unknown>",
    ]  # fmt: skip


def _node_status(node: Object) -> str:
    ready = conditions(node).get("Ready")
    shown = "Unknown" if ready is None else ("Ready" if ready == "True" else "NotReady")
    return shown + (",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else "")


def _roles(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(role for role in roles if role)) or "<none>"


def _address(node: Object, kind: str) -> str:
    addresses = node.get("status", {}).get("addresses") or []
    return next((each["address"] for each in addresses if each.get("type") == kind), "<none>")


def event_row(event: Object) -> Cells:
    first = event.get("firstTimestamp") or event.get("eventTime")
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    about = event.get("involvedObject") or {}
    target = "/".join(part for part in (about.get("kind", "").lower(), about.get("name")) if part)
    return [
        age(last), event.get("type", ""), event.get("reason", ""), target,
        about.get("fieldPath", ""), _source(event), event.get("message", "").strip(),
        age(first), series.get("count") or event.get("count") or 1, event["metadata"]["name"],
    ]  # fmt: skip


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def namespace_row(obj: Object) -> Cells:
    name, old = _base(obj)
    return [name, obj.get("status", {}).get("phase", ""), old]


def lease_row(obj: Object) -> Cells:
    name, old = _base(obj)
    return [name, (obj.get("spec") or {}).get("holderIdentity", ""), old]


def priority_row(obj: Object) -> Cells:
    name, old = _base(obj)
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [name, obj.get("value", 0), bool(obj.get("globalDefault")), old, policy]


def config_row(obj: Object) -> Cells:
    name, old = _base(obj)
    return [name, len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), old]


def secret_row(obj: Object) -> Cells:
    name, old = _base(obj)
    return [name, obj.get("type", ""), len(obj.get("data") or {}), old]


def service_row(obj: Object) -> Cells:
    name, old = _base(obj)
    spec = obj.get("spec", {})
    ports = ",".join(f"{each.get('port')}/{each.get('protocol')}" for each in spec.get("ports", []))
    chosen = ",".join(
        f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items())
    )
    return [
        name, spec.get("type", ""), spec.get("clusterIP") or "<none>", "<none>",
        ports or "<none>", old, chosen or "<none>",
    ]  # fmt: skip


def claim_row(obj: Object) -> Cells:
    name, old = _base(obj)
    spec, status = obj.get("spec", {}), obj.get("status", {})
    bound = spec.get("volumeName", "")
    capacity = (status.get("capacity") or {}).get("storage", "") if bound else ""
    modes = _mode_text(status.get("accessModes") or []) if bound else ""
    return [
        name, status.get("phase", ""), bound, capacity, modes, spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>", old,
        spec.get("volumeMode", "<unset>"),
    ]  # fmt: skip


def volume_row(obj: Object) -> Cells:
    name, old = _base(obj)
    spec, status = obj.get("spec", {}), obj.get("status", {})
    claim = spec.get("claimRef") or {}
    claimed = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    return [
        name, (spec.get("capacity") or {}).get("storage", ""),
        _mode_text(spec.get("accessModes") or []), spec.get("persistentVolumeReclaimPolicy", ""),
        status.get("phase", ""), claimed, spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>", status.get("reason", ""), old,
        spec.get("volumeMode", "<unset>"),
    ]  # fmt: skip


def _mode_text(modes: list[str]) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes)


def storage_row(obj: Object) -> Cells:
    name, old = _base(obj)
    mark = "storageclass.kubernetes.io/is-default-class"
    if (obj["metadata"].get("annotations") or {}).get(mark) == "true":
        name += " (default)"
    return [
        name, obj.get("provisioner", ""), obj.get("reclaimPolicy", ""),
        obj.get("volumeBindingMode", ""), bool(obj.get("allowVolumeExpansion")), old,
    ]  # fmt: skip


def webhook_row(obj: Object) -> Cells:
    name, old = _base(obj)
    return [name, len(obj.get("webhooks") or []), old]


def age_row(obj: Object) -> Cells:
    return list(_base(obj))


def stamped_row(obj: Object) -> Cells:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]
