"""Nodes, namespaces, priority classes, leases and events."""

from typing import Any

from fairlead.base.names import label_problems
from fairlead.sim.apiserver.status import Cause, forbidden_field, invalid, required, unsupported
from fairlead.sim.apiserver.strategy.base import Strategy, need
from fairlead.sim.apiserver.strategy.podspec import canonical_amounts

Object = dict[str, Any]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeStrategy(Strategy):
    """A node may be created with a status: simulated kubelets do so, as the real server allows."""

    def default(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        canonical_amounts(status.get("capacity"))
        canonical_amounts(status.get("allocatable"))
        if "allocatable" not in status and "capacity" in status:
            status["allocatable"] = dict(status["capacity"])
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
        names = (
            "machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
            "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem",
            "architecture",
        )  # fmt: skip
        status["nodeInfo"] = dict.fromkeys(names, "") | status.get("nodeInfo", {})
        obj.setdefault("spec", {})
        for condition in status.get("conditions") or []:
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = old.get("status", {})

    def prepare_status(self, new: Object, old: Object) -> None:
        new["spec"] = old.get("spec", {})

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        seen = set()
        for index, taint in enumerate(obj["spec"].get("taints") or []):
            path = f"spec.taints[{index}]"
            if not taint.get("key"):
                causes.append(required(f"{path}.key"))
            if taint.get("effect") not in _EFFECTS:
                causes.append(_bad_effect(f"{path}.effect", taint.get("effect", "")))
            pair = taint.get("key"), taint.get("effect")
            if pair in seen:
                shown = f'v1.Taint{{Key:"{pair[0]}", Effect:"{pair[1]}"}}'
                causes.append(Cause(path, "FieldValueDuplicate", f"Duplicate value: {shown}"))
            seen.add(pair)
        return causes


def _bad_effect(path: str, effect: str) -> Cause:
    if not effect:
        return required(path)
    return unsupported(path, effect, _EFFECTS)


class NamespaceStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            labels = obj["metadata"].setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = name

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = old["status"]
        new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])

    def name_problems(self, name: str) -> list[str]:
        return label_problems(name)


class PriorityClassStrategy(Strategy):
    counts_generations = True

    def default(self, obj: Object) -> None:
        obj.setdefault("value", 0)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        name, value = obj["metadata"].get("name", ""), obj["value"]
        if name.startswith("system-"):
            why = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            if not _is_system(name):
                causes.append(forbidden_field("metadata.name", why))
        elif value > 1_000_000_000:
            why = "maximum allowed value of a user defined priority is 1000000000"
            causes.append(forbidden_field("value", why))
        if obj["preemptionPolicy"] not in ("Never", "PreemptLowerPriority"):
            wanted = ("Never", "PreemptLowerPriority")
            causes.append(unsupported("preemptionPolicy", obj["preemptionPolicy"], wanted))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        if new["value"] != old["value"]:
            why = "may not be changed in an update."
            causes.append(forbidden_field("value", why))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            causes.append(
                invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable")
            )
        return causes


def _is_system(name: str) -> bool:
    return name in ("system-cluster-critical", "system-node-critical")


class LeaseStrategy(Strategy):
    creates_on_update = True
    allows_blind_update = False

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        spec = obj.get("spec") or {}
        if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
            why = "must be greater than 0"
            causes.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], why))
        if spec.get("leaseTransitions", 0) < 0:
            why = "must be greater than or equal to 0"
            causes.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], why))
        if spec.get("holderIdentity") == "":
            causes.append(invalid("spec.holderIdentity", "", "must not be empty"))
        return causes


class EventStrategy(Strategy):
    creates_on_update = True

    def default(self, obj: Object) -> None:
        for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(name, None)
        obj.setdefault("source", {})
        obj.setdefault("involvedObject", {})
        for name in ("reportingComponent", "reportingInstance"):
            obj.setdefault(name, "")

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        about = obj["involvedObject"].get("namespace", "")
        namespace = obj["metadata"].get("namespace", "")
        if about and about != namespace:
            why = "does not match event.namespace"
            causes.append(invalid("involvedObject.namespace", about, why))
        elif not about and namespace != "default":
            why = "does not match event.namespace"
            causes.append(invalid("involvedObject.namespace", "", why))
        if obj.get("eventTime"):
            causes += _validate_series(obj)
        return causes


def _validate_series(obj: Object) -> list[Cause]:
    causes = need(obj, "reportingComponent", "reportingInstance", "action", "reason")
    named = {"reportingComponent": "reportingController"}
    return [required(named.get(cause.field, cause.field)) for cause in causes]
