"""Kinds that are stored and little else: configuration, storage, services, roles, definitions."""

import ipaddress
from typing import Any, ClassVar

from fairlead.base import names
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.status import Cause, invalid, required, unsupported
from fairlead.sim.apiserver.strategy.base import SpecStrategy, Strategy, immutable, need

Object = dict[str, Any]


class ConfigMapStrategy(Strategy):
    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        for field in ("data", "binaryData"):
            for key in obj.get(field) or {}:
                problems = names.config_key_problems(key)
                causes += [invalid(f"{field}[{key}]", key, why) for why in problems]
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if not old.get("immutable"):
            return []
        why = "field is immutable when `immutable` is set"
        changed = [
            name for name in ("immutable", "data", "binaryData") if new.get(name) != old.get(name)
        ]
        return [Cause(name, "FieldValueForbidden", f"Forbidden: {why}") for name in changed]


class SecretStrategy(ConfigMapStrategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        texts = obj.pop("stringData", None)
        if texts:
            import base64

            data = obj.setdefault("data", {})
            for key, text in texts.items():
                data[key] = base64.b64encode(text.encode()).decode()

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return immutable(new, old, "type") + super().validate_update(new, old)


class ServiceStrategy(Strategy):
    creates_on_update = True
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports", []):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec["type"] == "ExternalName":
            return
        if "clusterIP" not in spec:
            # From the uid: there is no routing, but two services should not share one.
            offset = int(obj["metadata"]["uid"][:8], 16) % (1 << 16)
            spec["clusterIP"] = str(ipaddress.IPv4Address("10.96.0.0") + offset)
        spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in old["spec"]:
                new["spec"].setdefault(name, old["spec"][name])

    def name_problems(self, name: str) -> list[str]:
        return names.label_problems(name)

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        spec = obj["spec"]
        headless = spec.get("clusterIP") == "None"
        if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
            causes.append(required("spec.ports"))
        for index, port in enumerate(spec.get("ports") or []):
            if not 0 < port.get("port", 0) < 65536:
                why = "must be between 1 and 65535, inclusive"
                causes.append(invalid(f"spec.ports[{index}].port", port.get("port", 0), why))
        return causes


class VolumeClaimStrategy(Strategy):
    """PersistentVolumeClaims."""

    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        _add_finalizer(obj, "kubernetes.io/pvc-protection")

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        spec = obj["spec"]
        if not spec.get("accessModes"):
            causes.append(required("spec.accessModes", "at least 1 access mode is required"))
        if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
            causes.append(required("spec.resources[storage]"))
        return causes


class VolumeStrategy(Strategy):
    """PersistentVolumes."""

    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now_text()}
        _add_finalizer(obj, "kubernetes.io/pv-protection")

    def validate(self, obj: Object) -> list[Cause]:
        return self.validate_meta(obj) + need(obj, "spec.accessModes", "spec.capacity")


def _add_finalizer(obj: Object, name: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if name not in finalizers:
        finalizers.append(name)


class StorageClassStrategy(Strategy):
    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj) + need(obj, "provisioner")
        modes = ("Immediate", "WaitForFirstConsumer")
        if obj["volumeBindingMode"] not in modes:
            causes.append(unsupported("volumeBindingMode", obj["volumeBindingMode"], modes))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return [
            Cause(name, "FieldValueForbidden", f"Forbidden: updates to {name} are forbidden.")
            for name in ("parameters", "provisioner", "reclaimPolicy")
            if new.get(name) != old.get(name)
        ]


class RoleStrategy(Strategy):
    creates_on_update = True

    def name_problems(self, name: str) -> list[str]:
        return names.path_segment_problems(name)


class RoleBindingStrategy(RoleStrategy):
    def default(self, obj: Object) -> None:
        reference = obj.setdefault("roleRef", {})
        reference.setdefault("apiGroup", "rbac.authorization.k8s.io")
        for subject in obj.get("subjects") or []:
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


class RuntimeClassStrategy(Strategy):
    creates_on_update = True
    allows_blind_update = False

    def validate(self, obj: Object) -> list[Cause]:
        return self.validate_meta(obj) + need(obj, "handler")


class StrictStrategy(Strategy):
    """A kind whose updates must carry a resourceVersion."""

    allows_blind_update = False


class CsiDriverStrategy(StrictStrategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("volumeLifecycleModes", ["Persistent"])
        for name in ("podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"):
            spec.setdefault(name, False)


class VolumeAttachmentStrategy(Strategy):
    """VolumeAttachments."""

    allows_blind_update = False
    has_status = True
    first_status: ClassVar[Object] = {"attached": False}


class WebhookStrategy(Strategy):
    allows_blind_update = False
    counts_generations = True
    reinvokes = False

    def default(self, obj: Object) -> None:
        for hook in obj.get("webhooks", []):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self.reinvokes:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or []:
                rule.setdefault("scope", "*")
            service = (hook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def validate(self, obj: Object) -> list[Cause]:
        causes = self.validate_meta(obj)
        for index, hook in enumerate(obj.get("webhooks", [])):
            path = f"webhooks[{index}]"
            if not hook.get("sideEffects"):
                wanted = '"None", "NoneOnDryRun"'
                message = f"Required value: must specify one of {wanted.replace(chr(34), '')}"
                causes.append(Cause(f"{path}.sideEffects", "FieldValueRequired", message))
            if not hook.get("admissionReviewVersions"):
                why = "must specify one of v1, v1beta1"
                causes.append(required(f"{path}.admissionReviewVersions", why))
            if not 0 < hook.get("timeoutSeconds", 10) <= 30:
                why = "the timeout value must be between 1 and 30 seconds"
                causes.append(invalid(f"{path}.timeoutSeconds", hook["timeoutSeconds"], why))
        return causes

    def warnings(self, obj: Object) -> list[str]:
        hooks = obj.get("webhooks", [])
        found = [
            f"webhooks[{index}].matchConditions are ignored by the embedded server"
            for index, hook in enumerate(hooks)
            if hook.get("matchConditions")
        ]
        return found + [
            f"webhooks[{index}].clientConfig.service cannot be reached from the embedded server"
            for index, hook in enumerate(hooks)
            if (hook.get("clientConfig") or {}).get("service")
        ]


class PolicyStrategy(Strategy):
    """Admission policies in CEL, and their bindings: stored, and not acted upon."""

    allows_blind_update = False
    counts_generations = True

    def warnings(self, obj: Object) -> list[str]:
        name = obj.get("metadata", {}).get("name")
        return [f"{obj.get('kind')} {name} has no effect: the embedded server runs no policies"]


class MutatingWebhookStrategy(WebhookStrategy):
    reinvokes = True


class DefinitionStrategy(SpecStrategy):
    """CustomResourceDefinitions: established at once, as nothing here takes time to start."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("conversion", {"strategy": "None"})
        wanted = spec.setdefault("names", {})
        if wanted.get("kind"):
            wanted.setdefault("singular", wanted["kind"].lower())
            wanted.setdefault("listKind", wanted["kind"] + "List")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = definition_status(obj)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        new["status"] = {**new.get("status", {}), "acceptedNames": new["spec"].get("names", {})}

    def validate(self, obj: Object) -> list[Cause]:
        spec, plural = obj["spec"], obj["spec"].get("names", {}).get("plural", "")
        causes = self.validate_meta(obj)
        wanted = f"{plural}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted:
            why = 'must be spec.names.plural+"."+spec.group'
            causes.append(invalid("metadata.name", obj["metadata"].get("name"), why))
        if spec.get("scope") not in ("Cluster", "Namespaced"):
            causes.append(_scope_problem(spec.get("scope")))
        for index, version in enumerate(spec.get("versions") or []):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                why = "schemas are required"
                causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema", why))
        return causes


def _scope_problem(scope: str | None) -> Cause:
    if not scope:
        return required("spec.scope")
    return unsupported("spec.scope", scope, ("Cluster", "Namespaced"))


def definition_status(obj: Object) -> Object:
    moment, spec = now_text(), obj["spec"]
    conditions = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    stored = [each["name"] for each in spec.get("versions", []) if each.get("storage")]
    return {
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": moment,
             "reason": reason, "message": message}
            for type_, reason, message in conditions
        ],
        "acceptedNames": spec.get("names", {}),
        "storedVersions": stored,
    }  # fmt: skip


class CustomStrategy(SpecStrategy):
    """Custom resources: the status is apart only where the definition says so."""

    allows_blind_update = False

    def __init__(self, version: Object) -> None:
        self.has_status = "status" in (version.get("subresources") or {})

    def prepare_create(self, obj: Object) -> None:
        if self.has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        kept = {
            name: new["metadata"].get(name) for name in ("managedFields", "resourceVersion", "uid")
        }
        new["metadata"] = {**old["metadata"], **{k: v for k, v in kept.items() if v}}
