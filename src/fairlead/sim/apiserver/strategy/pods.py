"""Pods: quality of service, gates, and the few things that may change after creation."""

from typing import Any

from fairlead.sim.apiserver import quantities
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.status import Cause, forbidden_field
from fairlead.sim.apiserver.strategy.base import SpecStrategy
from fairlead.sim.apiserver.strategy.podspec import (
    canonical_quantities,
    containers,
    default_requests,
    default_spec,
    validate_spec,
)

Object = dict[str, Any]
_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(SpecStrategy):
    """The rules of pods."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.pop("schedulingGroup", None)  # its feature is off, as it is by default
        canonical_quantities(spec)
        default_spec(spec)
        default_requests(spec)
        spec.setdefault("enableServiceLinks", True)
        _default_status(obj.get("status") or {})

    def prepare_create(self, obj: Object) -> None:
        obj["metadata"]["generation"] = 1
        obj["status"] = {"phase": "Pending", "qosClass": quality(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [_gated()]

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences"):
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
            else:
                new["metadata"].pop(name, None)
        status = new.setdefault("status", {})
        if "qosClass" in old.get("status", {}):
            status.setdefault("qosClass", old["status"]["qosClass"])

    def validate(self, obj: Object) -> list[Cause]:
        return self.validate_meta(obj) + validate_spec(obj["spec"], "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        gates = old["spec"].get("schedulingGates") or []
        if any(gate not in gates for gate in new["spec"].get("schedulingGates") or []):
            why = "only deletion is allowed, but found new scheduling gates"
            return [forbidden_field("spec.schedulingGates", why)]
        if _frozen(new["spec"], old["spec"]) == _frozen(old["spec"], new["spec"]):
            return []
        return [forbidden_field("spec", _CHANGEABLE)]


def _gated() -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now_text(),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _default_status(status: Object) -> None:
    for condition in status.get("conditions") or []:
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]


def _frozen(spec: Object, other: Object) -> Object:
    """The part of a spec that may not change, given what it is compared with."""
    frozen = {name: value for name, value in spec.items() if name not in _FREE}
    for kind in ("containers", "initContainers"):
        frozen[kind] = [{**each, "image": ""} for each in spec.get(kind) or []]
    mine, theirs = spec.get("tolerations") or [], other.get("tolerations") or []
    # Additions are fine in either direction of the comparison; the order of the rest counts.
    frozen["tolerations"] = [each for each in mine if each in theirs]
    gates = {gate["name"] for gate in other.get("schedulingGates") or []}
    frozen["schedulingGates"] = [
        gate for gate in spec.get("schedulingGates") or [] if gate["name"] in gates
    ]
    if spec.get("schedulingGates") or other.get("schedulingGates"):
        frozen.pop("nodeSelector", None)
        frozen.pop("affinity", None)
    return frozen


_FREE = frozenset(
    {"activeDeadlineSeconds", "tolerations", "containers", "initContainers", "schedulingGates"}
)


def quality(spec: Object) -> str:
    """The quality-of-service class."""
    computed = [each.get("resources") or {} for _, each in containers(spec)]
    amounts = [
        (kind, name, text)
        for resources in computed
        for kind in ("requests", "limits")
        for name, text in (resources.get(kind) or {}).items()
        if name in ("cpu", "memory") and quantities.parse(text) > 0
    ]
    if not amounts:
        return "BestEffort"
    return "Guaranteed" if all(_guaranteed(each) for each in computed) else "Burstable"


def _guaranteed(resources: Object) -> bool:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return all(
        name in limits
        and quantities.parse(requests.get(name, limits[name])) == quantities.parse(limits[name])
        for name in ("cpu", "memory")
    )
