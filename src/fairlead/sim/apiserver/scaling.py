"""`scale`: how many replicas, for every kind that has a number of them."""

import copy
from typing import Any

from fairlead.sim.apiserver import admission
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.selectors import selector_text
from fairlead.sim.apiserver.status import MODIFIED, bad_request, conflict
from fairlead.sim.apiserver.store import StoredObject
from fairlead.sim.apiserver.updating import Change, modify

Object = dict[str, Any]
SCALE = Kind("autoscaling", "v1", "Scale", "scales")


def scale_of(obj: Object) -> Object:
    """The autoscaling/v1 Scale of an object."""
    metadata, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = spec.get("selector") or {}
    text = (
        selector_text(selector)
        if "matchLabels" in selector or "matchExpressions" in selector
        else ""
    )
    shown: Object = {"replicas": status.get("replicas", 0)}
    if text:
        shown["selector"] = text
    replicas = spec.get("replicas", 0)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": shown,
    }


async def rescale(api: ApiState, call: Call, change: Change) -> Object:
    """Applies a change to the Scale and writes the number of replicas back."""
    before = scale_of(api.entry(call.kind, call.key).object())
    wanted = change(copy.deepcopy(before))
    if not (wanted.get("spec") or {}).get("replicas"):
        wanted["spec"] = {}  # a zero is not written
    scale = await admission.on_document(api, call, wanted, before)

    def change_object(old: Object) -> Object:
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int):
            raise bad_request('Scale in version "v1" cannot be handled as a Scale: json: cannot '
                              "unmarshal string into Go struct field ScaleSpec.spec.replicas of "
                              "type int32")  # fmt: skip
        stated = scale.get("metadata", {}).get("resourceVersion")
        if stated and stated != old["metadata"]["resourceVersion"]:
            raise conflict(call.kind, call.name, MODIFIED)
        return {**old, "spec": {**old["spec"], "replicas": replicas}}

    plain = Call(call.kind, call.namespace, call.name, "", call.query, call.warnings)
    plain.is_reviewed = True
    entry: StoredObject = await modify(api, plain, change_object)
    return scale_of(entry.object())
