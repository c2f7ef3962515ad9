"""Defaults and rules for what a pod and every pod template share: the PodSpec."""

from collections.abc import Iterator
from typing import Any

from fairlead.base.names import label_problems, subdomain_problems
from fairlead.sim.apiserver import quantities
from fairlead.sim.apiserver.status import (
    Cause,
    duplicate,
    invalid,
    required,
    unsupported,
)

Object = dict[str, Any]
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_OVERCOMMITTED = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_VOLUME_MODES = ("configMap", "secret", "downwardAPI", "projected")


def default_spec(spec: Object) -> None:
    """As every PodSpec is filled in, in pods and in templates."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec or "serviceAccount" in spec:
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for _, container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes", []):
        _default_volume(volume)


def _default_container(container: Object) -> None:
    image = container.get("image", "")
    last = image.rpartition("/")[2]
    latest = (":" not in last and "@" not in last) or last.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", []):
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])


def _default_probe(probe: Object) -> None:
    wanted = {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    for name, value in wanted.items():
        probe[name] = probe.get(name) or value
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    for name in _VOLUME_MODES:
        if name in volume:
            volume[name].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if volume.keys() == {"name"}:
        volume["emptyDir"] = {}


def default_requests(spec: Object) -> None:
    """What is limited but not requested is requested: in pods only, never in templates."""
    for _, container in containers(spec):
        limits = container.get("resources", {}).get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)


def containers(spec: Object) -> Iterator[tuple[str, Object]]:
    """(path, container) for every container and init container."""
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or []):
            yield f"{kind}[{index}]", container


def canonical_quantities(spec: Object) -> None:
    for _, container in containers(spec):
        for amounts in (container.get("resources") or {}).values():
            canonical_amounts(amounts)
    canonical_amounts(spec.get("overhead"))
    for amounts in (spec.get("resources") or {}).values():
        canonical_amounts(amounts)


def canonical_amounts(amounts: Any) -> None:
    if isinstance(amounts, dict):
        for name, text in amounts.items():
            if isinstance(text, str):
                amounts[name] = quantities.canonical(text)


def validate_spec(spec: Object, path: str) -> list[Cause]:
    causes = _validate_volumes(spec, path)
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    causes += _validate_container_names(spec, path)
    for where, container in containers(spec):
        causes += _validate_container(container, f"{path}.{where}")
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        causes.append(
            unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
        )
    name = spec.get("nodeName")
    if name:
        causes += [invalid(f"{path}.nodeName", name, why) for why in subdomain_problems(name)]
    return causes + _validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")


def _validate_container_names(spec: Object, path: str) -> list[Cause]:
    causes, seen = [], set()
    for where, container in containers(spec):
        name = container.get("name")
        if not name:
            causes.append(required(f"{path}.{where}.name"))
            continue
        causes += [invalid(f"{path}.{where}.name", name, why) for why in label_problems(name)]
        if name in seen:
            causes.append(duplicate(f"{path}.{where}.name", name))
        seen.add(name)
    return causes


def _validate_container(container: Object, path: str) -> list[Cause]:
    causes = []
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    policy = container.get("imagePullPolicy")
    if policy not in ("Always", "IfNotPresent", "Never"):
        wanted = ("Always", "IfNotPresent", "Never")
        causes.append(unsupported(f"{path}.imagePullPolicy", policy, wanted))
    for index, port in enumerate(container.get("ports") or []):
        number = port.get("containerPort")
        if not number:
            causes.append(required(f"{path}.ports[{index}].containerPort"))
        elif not 0 < number < 65536:
            why = "must be between 1 and 65535, inclusive"
            causes.append(invalid(f"{path}.ports[{index}].containerPort", number, why))
    for index, variable in enumerate(container.get("env") or []):
        if not variable.get("name"):
            causes.append(required(f"{path}.env[{index}].name"))
    return causes + validate_resources(container.get("resources") or {}, f"{path}.resources")


def validate_resources(resources: Object, path: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = []
    for name, amount in limits.items():
        causes += _validate_amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        causes += _validate_amount(name, amount, f"{path}.requests[{name}]")
        causes += _validate_against_limit(name, amount, limits.get(name), path)
    return causes


def _validate_amount(name: str, amount: str, path: str) -> list[Cause]:
    value = quantities.parse(amount)
    if value < 0:
        return [invalid(path, amount, "must be greater than or equal to 0")]
    if _is_extended(name) and value.denominator != 1:
        return [invalid(path, amount, "must be an integer")]
    if "/" not in name and name not in _OVERCOMMITTED and not name.startswith("hugepages-"):
        why = "must be a standard resource type or fully qualified"
        return [
            invalid(path, name, why),
            invalid(path, name, "must be a standard resource for containers"),
        ]
    return []


def _validate_against_limit(name: str, amount: str, limit: str | None, path: str) -> list[Cause]:
    where = f"{path}.requests"
    if limit is None:
        if _is_extended(name) or name.startswith("hugepages-"):
            why = "Limit must be set for non overcommitable resources"
            return [required(f"{path}.limits", why)]
        return []
    asked, allowed = quantities.parse(amount), quantities.parse(limit)
    if _is_extended(name) and asked != allowed:
        return [invalid(where, amount, f"must be equal to {name} limit of {limit}")]
    if asked > allowed:
        return [invalid(where, amount, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _validate_volumes(spec: Object, path: str) -> list[Cause]:
    causes, seen = [], set()
    for index, volume in enumerate(spec.get("volumes") or []):
        where, name = f"{path}.volumes[{index}].name", volume.get("name")
        if not name:
            causes.append(required(where))
        else:
            causes += [invalid(where, name, why) for why in label_problems(name)]
        if name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
    for position, container in containers(spec):
        for index, mount in enumerate(container.get("volumeMounts") or []):
            if mount.get("name") not in seen:
                where = f"{path}.{position}.volumeMounts[{index}].name"
                causes.append(
                    Cause(where, "FieldValueNotFound", f'Not found: "{mount.get("name", "")}"')
                )
    return causes


def _validate_tolerations(tolerations: list[Object], path: str) -> list[Cause]:
    causes = []
    for index, each in enumerate(tolerations):
        operator = each.get("operator", "Equal")
        if operator == "Exists" and each.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid(f"{path}[{index}].operator", each["value"], why))
        if not each.get("key") and operator != "Exists":
            why = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            causes.append(invalid(f"{path}[{index}].operator", each.get("operator", ""), why))
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        if each.get("effect") and each["effect"] not in effects:
            causes.append(unsupported(f"{path}[{index}].effect", each["effect"], effects))
    return causes
