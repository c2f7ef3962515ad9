"""Rows of the kinds that make pods."""

from typing import Any

from fairlead.sim.apiserver.clock import age, duration, seconds_since
from fairlead.sim.apiserver.selectors import selector_text
from fairlead.sim.apiserver.tables.columns import Cells, columns, conditions, container_cells

Object = dict[str, Any]

DEPLOYMENT_COLUMNS = columns(
    "Name", "Ready", "Up-to-date", "Available", "Age", "Containers*", "Images*", "Selector*"
)
REPLICASET_COLUMNS = columns(
    "Name", "Desired", "Current", "Ready", "Age", "Containers*", "Images*", "Selector*",
    desired="integer", current="integer", ready="integer",
)  # fmt: skip
STATEFULSET_COLUMNS = columns("Name", "Ready", "Age", "Containers*", "Images*")
DAEMONSET_COLUMNS = columns(
    "Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age",
    "Containers*", "Images*", "Selector*",
    desired="integer", current="integer", ready="integer", up_to_date="integer",
    available="integer",
)  # fmt: skip
JOB_COLUMNS = columns(
    "Name", "Status", "Completions", "Duration", "Age", "Containers*", "Images*", "Selector*"
)
BUDGET_COLUMNS = columns(
    "Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age",
    allowed_disruptions="integer",
)  # fmt: skip


def _parts(obj: Object) -> tuple[Object, Object, str, str]:
    metadata = obj["metadata"]
    return (
        obj.get("spec", {}), obj.get("status", {}),
        metadata["name"], age(metadata.get("creationTimestamp")),
    )  # fmt: skip


def deployment_row(obj: Object) -> Cells:
    spec, status, name, old = _parts(obj)
    return [
        name, f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        str(status.get("updatedReplicas", 0)), str(status.get("availableReplicas", 0)), old,
        *container_cells(spec["template"]["spec"]), selector_text(spec.get("selector")),
    ]  # fmt: skip


def replicaset_row(obj: Object) -> Cells:
    spec, status, name, old = _parts(obj)
    return [
        name, spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0),
        old, *container_cells(spec["template"]["spec"]), selector_text(spec.get("selector")),
    ]  # fmt: skip


def statefulset_row(obj: Object) -> Cells:
    spec, status, name, old = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [name, ready, old, *container_cells(spec["template"]["spec"])]


def daemonset_row(obj: Object) -> Cells:
    spec, status, name, old = _parts(obj)
    wanted = spec["template"]["spec"].get("nodeSelector") or {}
    shown = ",".join(f"{key}={value}" for key, value in sorted(wanted.items())) or "<none>"
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady",
              "updatedNumberScheduled", "numberAvailable")  # fmt: skip
    return [
        name, *(status.get(count, 0) for count in counts), shown, old,
        *container_cells(spec["template"]["spec"]), selector_text(spec.get("selector")),
    ]  # fmt: skip


def job_row(obj: Object) -> Cells:
    spec, status, name, old = _parts(obj)
    return [
        name, _job_status(obj), _completions(spec, status), _duration(status), old,
        *container_cells(spec["template"]["spec"]), selector_text(spec.get("selector")),
    ]  # fmt: skip


def _job_status(obj: Object) -> str:
    known = conditions(obj)
    if known.get("Complete") == "True":
        return "Complete"
    if known.get("Failed") == "True":
        return "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if known.get(name) == "True":
            return name
    return "Running"


def _completions(spec: Object, status: Object) -> str:
    done = status.get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    parallel = spec.get("parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(status: Object) -> str:
    begun, ended = status.get("startTime"), status.get("completionTime")
    since = seconds_since(begun) if begun else None
    if since is None:
        return ""
    return duration(since - (seconds_since(ended) or 0) if ended else since)


def budget_row(obj: Object) -> Cells:
    spec, status, name, old = _parts(obj)
    return [
        name, str(spec.get("minAvailable", "N/A")), str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0), old,
    ]  # fmt: skip
