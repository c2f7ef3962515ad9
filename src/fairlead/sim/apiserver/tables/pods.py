"""The row of a pod: what `kubectl get pods` calls its status."""

from typing import Any

from fairlead.sim.apiserver.clock import age
from fairlead.sim.apiserver.tables.columns import Cells, columns, conditions

Object = dict[str, Any]

POD_COLUMNS = columns(
    "Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*",
    "Readiness Gates*",
)  # fmt: skip


def pod_row(pod: Object) -> Cells:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    statuses = status.get("containerStatuses") or []
    sidecars = [each for each in spec.get("initContainers") or [] if _restarts(each)]
    ready = sum(_is_running(each) and bool(each.get("ready")) for each in statuses)
    total = len(spec.get("containers") or []) + len(sidecars)
    metadata = pod["metadata"]
    return [
        metadata["name"],
        f"{ready}/{total}",
        pod_reason(pod),
        _restart_text(statuses),
        age(metadata.get("creationTimestamp")),
        (status.get("podIPs") or [{}])[0].get("ip") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(pod),
    ]


def _restarts(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _is_running(status: Object) -> bool:
    return "running" in (status.get("state") or {})


def _restart_text(statuses: list[Object]) -> str:
    count = sum(each.get("restartCount", 0) for each in statuses)
    ends = [
        each["lastState"]["terminated"].get("finishedAt")
        for each in statuses
        if (each.get("lastState") or {}).get("terminated")
    ]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def pod_reason(pod: Object) -> str:
    """One word for the state of a pod."""
    status = pod.get("status", {})
    phase = status.get("phase", "")
    reason: str = status.get("reason") or phase
    for condition in status.get("conditions") or []:
        if condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    starting = _initialising(pod)
    reason = starting or _container_reason(pod, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _initialising(pod: Object) -> str:
    if conditions(pod).get("Initialized") == "True":
        return ""
    declared = pod.get("spec", {}).get("initContainers") or []
    for index, each in enumerate(pod.get("status", {}).get("initContainerStatuses") or []):
        state = each.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if ended is not None:
            return "Init:" + _ended(ended)
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(declared)}"
    return ""


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _container_reason(pod: Object, reason: str) -> str:
    running, failed = False, ""
    for each in reversed(pod.get("status", {}).get("containerStatuses") or []):
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ended(ended)
            failed = reason if ended.get("exitCode", 0) else failed
        elif each.get("ready") and "running" in state:
            running = True
    if reason == "Completed":
        if running:
            return "Running" if conditions(pod).get("Ready") == "True" else "NotReady"
        return failed or reason
    return reason


def _gates(pod: Object) -> str:
    gates = pod.get("spec", {}).get("readinessGates") or []
    if not gates:
        return "<none>"
    known = conditions(pod)
    true = sum(known.get(gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{true}/{len(gates)}"
