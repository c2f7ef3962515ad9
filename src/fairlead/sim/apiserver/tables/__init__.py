"""Objects as rows: what `kubectl get` prints."""

from typing import Any

from fairlead.sim.apiserver.clock import age
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.tables import plain, pods, workloads
from fairlead.sim.apiserver.tables.columns import Cells, Printer, columns

Object = dict[str, Any]

_PRINTERS: dict[str, Printer] = {
    "pods": (pods.POD_COLUMNS, pods.pod_row),
    "nodes": (plain.NODE_COLUMNS, plain.node_row),
    "events": (plain.EVENT_COLUMNS, plain.event_row),
    "deployments.apps": (workloads.DEPLOYMENT_COLUMNS, workloads.deployment_row),
    "replicasets.apps": (workloads.REPLICASET_COLUMNS, workloads.replicaset_row),
    "statefulsets.apps": (workloads.STATEFULSET_COLUMNS, workloads.statefulset_row),
    "daemonsets.apps": (workloads.DAEMONSET_COLUMNS, workloads.daemonset_row),
    "jobs.batch": (workloads.JOB_COLUMNS, workloads.job_row),
    "poddisruptionbudgets.policy": (workloads.BUDGET_COLUMNS, workloads.budget_row),
    "namespaces": (columns("Name", "Status", "Age"), plain.namespace_row),
    "leases.coordination.k8s.io": (columns("Name", "Holder", "Age"), plain.lease_row),
    "priorityclasses.scheduling.k8s.io": (
        columns("Name", "Value", "Global-Default", "Age", "PreemptionPolicy",
                value="integer", global_default="boolean"), plain.priority_row,
    ),
    "configmaps": (columns("Name", "Data", "Age"), plain.config_row),
    "secrets": (columns("Name", "Type", "Data", "Age"), plain.secret_row),
    "serviceaccounts": (columns("Name", "Age"), plain.age_row),
    "services": (
        columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"),
        plain.service_row,
    ),
    "persistentvolumeclaims": (
        columns("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass",
                "VolumeAttributesClass", "Age", "VolumeMode*"), plain.claim_row,
    ),
    "persistentvolumes": (
        columns("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim",
                "StorageClass", "VolumeAttributesClass", "Reason", "Age", "VolumeMode*"),
        plain.volume_row,
    ),
    "storageclasses.storage.k8s.io": (
        columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode",
                "AllowVolumeExpansion", "Age"), plain.storage_row,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        columns("Name", "Webhooks", "Age", webhooks="integer"), plain.webhook_row,
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        columns("Name", "Webhooks", "Age", webhooks="integer"), plain.webhook_row,
    ),
}  # fmt: skip
_STAMPED: Printer = (columns("Name", "Created At", created_at="date"), plain.stamped_row)


def table(kind: Kind, objects: list[Object], metadata: Object, include: str = "Metadata") -> Object:
    """A meta.k8s.io/v1 Table of these objects."""
    definitions, row = printer_for(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": [{"cells": row(obj), "object": _row_object(kind, obj, include)} for obj in objects],
    }


def printer_for(kind: Kind) -> Printer:
    if kind.custom:
        return _custom_printer(kind.custom)
    return _PRINTERS.get(kind.store_name, _STAMPED)


def _row_object(kind: Kind, obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    return partial(obj)


def partial(obj: Object) -> Object:
    """Only the metadata."""
    metadata = obj.get("metadata", {})
    return {
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
    }  # fmt: skip


def _custom_printer(version: Object) -> Printer:
    extra = version.get("additionalPrinterColumns")
    if not extra:
        return columns("Name", "Age", age="date"), plain.stamped_row
    definitions = columns("Name")
    for each in extra:
        definitions.append(
            {"name": each["name"], "type": each["type"], "format": each.get("format", ""),
             "description": "", "priority": each.get("priority", 0)}
        )  # fmt: skip

    def row(obj: Object) -> Cells:
        return [obj["metadata"]["name"], *(_cell(obj, each) for each in extra)]

    return definitions, row


def _cell(obj: Object, column: Object) -> Any:
    found: Any = obj
    for name in column.get("jsonPath", "").strip(".").split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if column.get("type") == "date" and isinstance(found, str):
        return age(found)
    return found
