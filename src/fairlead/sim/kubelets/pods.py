"""A pod's status as its kubelet writes it, from one stage of its life to the next."""

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]

_DONE = ("PodCompleted", "False")


def running(pod: Object, now: str, pod_ip: str, host_ip: str) -> Object:
    """The status of a pod whose containers have all started."""
    spec, old = pod["spec"], pod.get("status") or {}
    marks = dict.fromkeys(("Initialized", "ContainersReady", "Ready"), ("", "True"))
    marks |= {gate["conditionType"]: ("", "True") for gate in spec.get("readinessGates") or []}
    started = {"running": {"startedAt": now}}
    status = {
        **old,
        "phase": "Running",
        "conditions": _with_conditions(
            old, {"PodReadyToStartContainers": ("", "True")} | marks, now
        ),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": old.get("startTime") or now,
        "containerStatuses": [_container(each, started, ready=True) for each in spec["containers"]],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [_init(each, now) for each in spec["initContainers"]]
    return status


def succeeded(pod: Object, now: str) -> Object:
    return _ended(pod, now, "Succeeded", 0, "Completed")


def failed(pod: Object, now: str, reason: str, message: str) -> Object:
    """The status of a pod that its kubelet ended, or never let start."""
    return _ended(pod, now, "Failed", 1, "Error") | {"reason": reason, "message": message}


def _ended(pod: Object, now: str, phase: str, exit_code: int, reason: str) -> Object:
    old = pod.get("status") or {}
    marks = dict.fromkeys(("ContainersReady", "Ready"), _DONE)
    started = old.get("startTime") or now
    terminated = {
        "exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now,
    }  # fmt: skip
    states = {"terminated": terminated}
    return {
        **old,
        "phase": phase,
        "startTime": started,
        "conditions": _with_conditions(old, marks, now),
        "containerStatuses": [
            _container(each, states, ready=False) for each in pod["spec"]["containers"]
        ],
    }


def _container(spec: Object, state: Object, *, ready: bool) -> Object:
    name, image = spec["name"], spec.get("image", "")
    return {
        "name": name,
        "image": image,
        "imageID": f"simulated/{image}",
        "containerID": f"containerd://simulated-{name}",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _init(spec: Object, now: str) -> Object:
    if spec.get("restartPolicy") == "Always":  # a sidecar stays
        return _container(spec, {"running": {"startedAt": now}}, ready=True)
    terminated = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    return _container(spec, {"terminated": terminated}, ready=True) | {"started": False}


def _with_conditions(old: Object, marks: dict[str, tuple[str, str]], now: str) -> list[Object]:
    """The old conditions with these (reason, status) set; others stay as they are."""
    kept = [each for each in old.get("conditions") or [] if each["type"] not in marks]
    return [*map(_condition(now), marks.items()), *kept]


def _condition(now: str) -> Callable[[tuple[str, tuple[str, str]]], Object]:
    def make(mark: tuple[str, tuple[str, str]]) -> Object:
        kind, (reason, status) = mark
        made = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
        return made | ({"reason": reason} if reason else {})

    return make
