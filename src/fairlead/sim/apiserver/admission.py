"""What the built-in admission plugins and the webhooks do to an object before it is stored."""

from typing import Any

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bodies import typed
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.status import ApiStatusError, forbidden, not_found
from fairlead.sim.apiserver.webhooks import WebhookRequest

Object = dict[str, Any]
_TOLERATED_S = 300


async def on_create(api: ApiState, call: Call, obj: Object) -> Object:
    _check_namespace_alive(api, call, obj)
    if call.kind.store_name == "pods":
        _set_priority(api, call, obj)
        _tolerate_failures(obj["spec"])
    elif call.kind.store_name == "nodes":
        _taint_until_ready(obj["spec"])
    elif call.kind.store_name == "persistentvolumeclaims":
        _set_storage_class(api, obj)
    return await _mutate(api, call, "CREATE", obj, None)


async def on_update(api: ApiState, call: Call, new: Object, old: Object) -> Object:
    return await _mutate(api, call, "UPDATE", new, old)


async def on_document(
    api: ApiState, call: Call, document: Object, old: Object | None = None
) -> Object:
    """A Binding, an Eviction or a Scale, after the webhooks; a refusal is raised."""
    operation = "CREATE" if old is None else "UPDATE"
    if api.webhooks.mutating:
        review = WebhookRequest(call, operation, document, old, _namespace_labels(api, call))
        document = await api.webhooks.mutate(review)
    await validate(api, call, operation, document, old)
    return document


async def _mutate(
    api: ApiState, call: Call, operation: str, obj: Object, old: Object | None
) -> Object:
    if not api.webhooks.mutating or call.is_reviewed:
        return obj
    review = WebhookRequest(call, operation, obj, old, _namespace_labels(api, call))
    changed = await api.webhooks.mutate(review)
    return obj if changed is obj else typed(changed, call.kind)


async def validate(
    api: ApiState, call: Call, operation: str, obj: Object | None, old: Object | None
) -> None:
    """Asks the validating webhooks; a refusal is raised."""
    if api.webhooks.validating and not call.is_reviewed:
        await api.webhooks.validate(
            WebhookRequest(call, operation, obj, old, _namespace_labels(api, call))
        )


def _namespace_labels(api: ApiState, call: Call) -> dict[str, str] | None:
    name = call.namespace or (call.name if call.kind.store_name == "namespaces" else "")
    entry = api.store.get("namespaces", name) if name else None
    return entry.labels if entry else None


def _check_namespace_alive(api: ApiState, call: Call, obj: Object) -> None:
    if not call.kind.namespaced:
        return
    entry = api.store.get("namespaces", call.namespace)
    if entry is None:
        raise not_found(api.kinds.plural("namespaces"), call.namespace)
    if entry.fields["status.phase"] == "Terminating":
        raise _terminating(call, obj)


def _terminating(call: Call, obj: Object) -> ApiStatusError:
    namespace = call.namespace
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(call.kind, obj["metadata"].get("name", ""), why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


def _set_priority(api: ApiState, call: Call, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    chosen = _priority_class(api, name)
    if name and chosen is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(call.kind, pod["metadata"].get("name", ""), why)
    value = chosen["value"] if chosen else 0
    policy = chosen["preemptionPolicy"] if chosen else "PreemptLowerPriority"
    if chosen and not name:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    if spec.get("priority", value) != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(call.kind, pod["metadata"].get("name", ""), why)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _priority_class(api: ApiState, name: str | None) -> Object | None:
    resource = "priorityclasses.scheduling.k8s.io"
    if name:
        return api.find(resource, name)
    classes = (entry.object() for entry in api.store.collection(resource).entries.values())
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)


def _tolerate_failures(spec: Object) -> None:
    """Five minutes on a node that is not ready or unreachable, unless the pod says otherwise."""
    tolerations = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(each, key) for each in tolerations):
            tolerations = [
                *tolerations,
                {"key": key, "operator": "Exists", "effect": "NoExecute",
                 "tolerationSeconds": _TOLERATED_S},
            ]  # fmt: skip
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in (
        "", "NoExecute",
    )  # fmt: skip


def _taint_until_ready(spec: Object) -> None:
    """A new node takes no pods until it is ready."""
    key, effect = "node.kubernetes.io/not-ready", "NoSchedule"
    taints = spec.get("taints") or []
    if not any(each.get("key") == key and each.get("effect") == effect for each in taints):
        spec["taints"] = [*taints, {"key": key, "effect": effect}]


def _set_storage_class(api: ApiState, claim: Object) -> None:
    if "storageClassName" in claim["spec"]:
        return
    mark = "storageclass.kubernetes.io/is-default-class"
    for entry in api.store.collection("storageclasses.storage.k8s.io").entries.values():
        obj = entry.object()
        if (obj["metadata"].get("annotations") or {}).get(mark) == "true":
            claim["spec"]["storageClassName"] = entry.name
            return
