"""What is there before anyone asks: namespaces, priority classes, default accounts."""

import uuid
from typing import Any

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.strategy import strategy_for

Object = dict[str, Any]
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_NODE_CRITICAL = "Used for system critical pods that must not be moved from their current node."
_CLUSTER_CRITICAL = (
    "Used for system critical pods that must run in the cluster, but can be moved to another node "
    "if necessary."
)
_PRIORITIES = {
    "system-node-critical": (2000001000, _NODE_CRITICAL),
    "system-cluster-critical": (2000000000, _CLUSTER_CRITICAL),
}


def bootstrap(api: ApiState) -> None:
    """Creates what is missing, and forgets the changes: a watch of old begins after them."""
    for name in _NAMESPACES:
        _ensure(api, "namespaces", {"metadata": {"name": name}})
    for name, (value, text) in _PRIORITIES.items():
        obj = {"metadata": {"name": name}, "value": value, "description": text}
        _ensure(api, "priorityclasses.scheduling.k8s.io", obj)
    for kind in api.kinds:
        api.store.collection(kind.store_name)
    api.store.forget_history()


def _ensure(api: ApiState, resource: str, obj: Object) -> None:
    kind, name = api.kinds.plural(resource), obj["metadata"]["name"]
    if api.store.get(resource, name):
        return
    strategy = strategy_for(kind)
    obj["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now_text()}
    strategy.default(obj)
    strategy.prepare_create(obj)
    api.store.put(kind, name, obj)
