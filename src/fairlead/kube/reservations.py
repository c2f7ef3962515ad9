"""Reservation pods as Kubernetes objects: what they are made of, and what they report.

Such a pod requests one GPU of NVIDIA's device plugin. Its init container writes the variable that
the device plugin set to its termination message, which the kubelet copies into the pod's status.
The kubelet gives the same GPU to the container after it. So neither logs nor rights are needed to
learn which GPU it is, and only the kubelet can say it.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from fairlead.kube.dialects.api import UUID
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.limits import MOST_GPUS
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.reservations import PRIORITY, Reservation, held_by_reservation

#: The label of reservation pods; its value is their number on the node.
LABEL = "fairlead.dev/reservation"
#: How long a reservation is kept without shares: the next share may come at once.
GRACE_S = 10.0
REPORT, HOLD = "report", "hold"

_NUMBER = re.compile(r"[0-9]{1,4}")
_LONGEST_NODE = 180
# What the device plugin set: uuids, an index, a path with one file for each GPU, or void.
_REPORT_SCRIPT = """\
seen="$NVIDIA_VISIBLE_DEVICES"
if [ -d /var/run/nvidia-container-devices ]; then
  seen="$(ls /var/run/nvidia-container-devices)"
fi
case "$seen" in
  GPU-* | MIG-*) ;;
  *) listed="$(nvidia-smi -L 2>/dev/null | sed -n 's/.*UUID: \\([^)]*\\)).*/\\1/p')"
     seen="${listed:-$seen}" ;;
esac
printf %s "$seen" > /dev/termination-log
"""
_HOLD_SCRIPT = "trap 'exit 0' TERM INT; sleep infinity & wait"


@dataclass(frozen=True, slots=True)
class ReservationPlan:
    """Where reservation pods are made, and of what."""

    namespace: str
    image: str
    priority_class: str = ""
    pull_secrets: Sequence[str] = ()
    #: How long a reservation is kept without shares.
    grace_s: float = GRACE_S


def reservation_name(node: str, number: int) -> str:
    """The same for the same GPU of a node, so that it is never made twice."""
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"reserved-gpu-{node[:_LONGEST_NODE].rstrip('-.')}-{digest}-{number}"


def reservation_object(plan: ReservationPlan, node: str, uid: str, number: int) -> dict[str, Any]:
    """The pod, on its node from the start. It goes when the node is deleted."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(node, number),
            "namespace": plan.namespace,
            "labels": {
                "app.kubernetes.io/name": "fairlead",
                "app.kubernetes.io/component": "reservation",
                LABEL: str(number),
            },
            **({"ownerReferences": [owner]} if uid else {}),
        },
        "spec": _spec(plan, node),
    }


def _spec(plan: ReservationPlan, node: str) -> dict[str, Any]:
    secrets = [{"name": name} for name in plan.pull_secrets]
    return {
        "nodeName": node,
        # It is on its node, so no scheduler, and no webhook for pods of one, acts on it.
        "schedulerName": "fairlead-reservations",
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_container(plan, REPORT, _REPORT_SCRIPT)],
        "containers": [_container(plan, HOLD, _HOLD_SCRIPT)],
        **({"priorityClassName": plan.priority_class} if plan.priority_class else {}),
        **({"imagePullSecrets": secrets} if secrets else {}),
    }


def _container(plan: ReservationPlan, name: str, script: str) -> dict[str, Any]:
    """It requests no cpu and no memory: the node may have none left beside a free GPU."""
    return {
        "name": name,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {
            "requests": {"cpu": "0", "memory": "0", GPU: "1"},
            "limits": {"memory": "64Mi", GPU: "1"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


# -- what they report ------------------------------------------------------------------------


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    message: str = ""


class _Waiting(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    terminated: _Terminated | None = None
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)
    last_state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    init_container_statuses: list[_ContainerStatus] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] | None = None


class ReservationStatus(msgspec.Struct):
    """As much of the pod as says how it is."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def has_failed(self) -> bool:
        return self.status.phase in ("Failed", "Succeeded")


statuses = msgspec.json.Decoder(ReservationStatus)


def as_reservation(pod: Pod, raw: bytes | msgspec.Raw) -> Pod:
    """The pod with the GPU that it reports, if its label says that it is a reservation.

    The caller has checked its namespace.
    """
    text = pod.labels.get(LABEL, "")
    if not _NUMBER.fullmatch(text) or int(text) >= 2 * MOST_GPUS:
        return pod
    number = int(text)
    uuid, problem = _reported(statuses.decode(raw).status)
    return replace(
        pod,
        priority=PRIORITY,
        grant=held_by_reservation(number),
        reservation=Reservation(number, uuid, problem),
    )


def _reported(status: _Status) -> tuple[str, str]:
    """The GPU, or why it will not be known."""
    found = next((s for s in status.init_container_statuses or () if s.name == REPORT), None)
    done = found.state.terminated if found else None
    if found is None or done is None:
        waiting = found.state.waiting if found else None
        reason = waiting.reason if waiting else ""
        return "", f"{reason}: {waiting.message:.200}" if waiting and "Image" in reason else ""
    said = done.message.strip()
    if UUID.fullmatch(said):
        return said, ""
    return "", f"it reported {said[:80]!r} where the uuid of a GPU was expected"
