"""`pods/eviction`: a delete that asks the PodDisruptionBudgets first."""

from typing import Any

from fairlead.sim.apiserver import admission
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.deleting import delete
from fairlead.sim.apiserver.selectors import matches
from fairlead.sim.apiserver.status import ApiStatusError, bad_request, success
from fairlead.sim.apiserver.store import StoredObject

Object = dict[str, Any]
_BUDGETS = "poddisruptionbudgets.policy"


async def evict(api: ApiState, call: Call, eviction: Object) -> Object:
    """Deletes the pod if its budget allows one more disruption; 429 if it does not."""
    eviction = await admission.on_document(api, call, eviction)
    name = (eviction.get("metadata") or {}).get("name")
    if name and name != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    if options.get("dryRun"):
        call.query = {**call.query, "dryRun": options["dryRun"][0]}
    pod = api.entry(call.kind, call.key).object()
    if not _goes_anyway(pod):
        _spend_budget(api, call, pod)
    if not call.dry_run:
        _mark_target(api, call)
    plain = Call(call.kind, call.namespace, call.name, "", call.query, call.warnings)
    plain.is_reviewed = True
    await delete(api, plain, options)
    return success(201)


def _mark_target(api: ApiState, call: Call) -> None:
    """Says in the pod why it will end; part of the same instant as the delete."""
    pod = api.entry(call.kind, call.key).object()
    conditions = pod.setdefault("status", {}).get("conditions") or []
    if any(each["type"] == "DisruptionTarget" for each in conditions):
        return
    target = {
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": None,
        "lastTransitionTime": now_text(),
    }  # fmt: skip
    pod["status"]["conditions"] = [*conditions, target]
    api.store.put(call.kind, call.key, pod)


def _goes_anyway(pod: Object) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed", "Pending")
    return ended or bool(pod["metadata"].get("deletionTimestamp"))


def _spend_budget(api: ApiState, call: Call, pod: Object) -> None:
    budgets = _budgets(api, call.namespace, pod["metadata"].get("labels") or {})
    if len(budgets) > 1:
        message = (
            "Internal error occurred: This pod has more than one PodDisruptionBudget, which the "
            "eviction subresource does not support."
        )
        raise ApiStatusError(500, "InternalError", message)
    if budgets and not _is_unhealthy_and_free(pod, budgets[0].object()):
        _spend(api, call, budgets[0])


def _budgets(api: ApiState, namespace: str, labels: dict[str, str]) -> list[StoredObject]:
    entries = api.store.collection(_BUDGETS).entries.values()
    return [
        entry
        for entry in entries
        if entry.namespace == namespace and matches(entry.object()["spec"].get("selector"), labels)
    ]


def _is_unhealthy_and_free(pod: Object, budget: Object) -> bool:
    """A pod that is not ready costs nothing while enough others are healthy."""
    conditions = pod.get("status", {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    if ready:
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= wanted > 0)


def _spend(api: ApiState, call: Call, entry: StoredObject) -> None:
    budget = entry.object()
    status = budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        why = f"The disruption budget {entry.name} is still being processed by the server."
        raise _too_many(
            "Cannot evict pod as it would violate the pod's disruption budget.", why, 10
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        why = (
            f"The disruption budget {entry.name} needs {status.get('desiredHealthy', 0)} healthy "
            f"pods and has {status.get('currentHealthy', 0)} currently"
        )
        raise _too_many("Cannot evict pod as it would violate the pod's disruption budget.", why)
    if call.dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _note_exhausted(budget, status)
    status.setdefault("disruptedPods", {})[call.name] = now_text()
    api.store.put(api.kinds.plural(_BUDGETS), entry.key, budget)


def _note_exhausted(budget: Object, status: Object) -> None:
    others = [
        each for each in status.get("conditions") or [] if each["type"] != "DisruptionAllowed"
    ]
    condition = {
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": now_text(), "observedGeneration": status.get("observedGeneration", 0),
    }  # fmt: skip
    status["conditions"] = [*others, condition]


def _too_many(message: str, why: str, retry_s: int | None = None) -> ApiStatusError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    details: Object = {"causes": causes}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
    return ApiStatusError(429, "TooManyRequests", message, details)
