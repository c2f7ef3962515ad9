"""How a node object changes when its machine fails and recovers, and its heartbeat.

Failures are requested by annotation, so that kubectl can cause them as well as a test:

    kubectl annotate node h100-01 fairlead.dev/simulate-lost-GPUs=0,3
    kubectl annotate node h100-01 fairlead.dev/simulate-not-ready=true
    kubectl annotate node h100-01 fairlead.dev/simulate-not-ready-          # and back
"""

from typing import Any

import msgspec

from fairlead.base.node_inventory import KEY, WELL, decoder, write
from fairlead.model.nodes import GPU
from fairlead.model.quantities import amount
from fairlead.sim.machines.nodes import READY, condition

Object = dict[str, Any]

LOST_GPUS = "fairlead.dev/simulate-lost-gpus"
NOT_READY = "fairlead.dev/simulate-not-ready"
LEASE_S = 40
_BROKEN = ("Ready", "False", "KubeletNotReady", "a failure is being simulated")


def should_be_down(node: Object) -> bool:
    return _annotations(node).get(NOT_READY, "").lower() in ("true", "yes", "1")


def lost_gpus(node: Object) -> frozenset[int]:
    """Indices of GPUs that should be lost; other text is ignored."""
    requested = _annotations(node).get(LOST_GPUS, "").split(",")
    return frozenset(int(each) for each in requested if each.strip().isdecimal())


def with_failures(node: Object, now: str) -> Object:
    """The node with the failures that its annotations request, and no others."""
    changed: Object = msgspec.json.decode(msgspec.json.encode(node))
    _set_ready(changed, now, down=should_be_down(node))
    _set_gpus(changed, lost_gpus(node))
    return changed


def _set_ready(node: Object, now: str, *, down: bool) -> None:
    """The condition only: the server's node controller makes a taint of it, as in life."""
    wanted = _BROKEN if down else READY
    status = node.setdefault("status", {})
    conditions = status.setdefault("conditions", [])
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    if ready is None:
        conditions.append(condition(*wanted, now=now))
    elif ready["status"] != wanted[1]:
        ready.update(condition(*wanted, now=now))


def _set_gpus(node: Object, lost: frozenset[int]) -> None:
    """A device plugin takes a lost GPU out of what can be allocated, not of what there is."""
    status = node["status"]
    total = gpu_count(node)
    if total:
        gone = len([index for index in lost if index < total])
        status.setdefault("allocatable", {})[GPU] = str(total - gone)
    annotations = node["metadata"].get("annotations") or {}
    try:
        found = decoder.decode(annotations[KEY])
    except (KeyError, msgspec.MsgspecError):
        return
    for gpu in found.gpus:
        gpu.health = "lost" if gpu.index in lost else WELL
    annotations[KEY] = write(found)


def gpu_count(node: Object) -> int:
    capacity = (node.get("status") or {}).get("capacity") or {}
    return amount(GPU, str(capacity.get(GPU, "0")))


def is_ready_known(node: Object) -> bool:
    """Whether a Ready condition exists: a node that kubectl created has none yet."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" for each in conditions)


def internal_address(node: Object) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")


def lease(name: str, uid: str, now_micro: str) -> Object:
    """The heartbeat as a kubelet writes it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": now_micro,
        },
    }


def _annotations(node: Object) -> dict[str, str]:
    return node["metadata"].get("annotations") or {}
