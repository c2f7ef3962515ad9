"""The Workload that Kueue keeps of a job: how long it may run, and since when it does.

Its limit comes from the label of the job, from a default, or from a user. What it ran before it was
evicted counts, so that less is left than the label says.
"""

from typing import Annotated

import msgspec

from fairlead.kube.http.paths import in_namespace
from fairlead.kube.object_kinds import ObjectKind
from fairlead.model.run_times import KUEUE, RunTime, checked_s

WORKLOADS = ObjectKind("kueue.x-k8s.io", ("v1beta2", "v1beta1"), "workloads", "Workload")
#: Of objects that Kueue admits.
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_LIMIT_FIELD = "spec.maximumExecutionTimeSeconds"
_SOON_S = 1.0
#: More digits do not fit a float.
_Seconds = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    maximum_execution_time_seconds: _Seconds | None = None


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    accumulated_past_execution_time_seconds: _Seconds | None = None
    #: As v1beta1 spells it.
    past_s: _Seconds | None = msgspec.field(
        default=None, name="accumulatedPastExexcutionTimeSeconds"
    )


class _Workload(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[_Workload] = msgspec.field(default_factory=list)


_lists = msgspec.json.Decoder(_List)


def workload_paths(namespace: str, uid: str) -> list[str]:
    """Where the Workload of the object with this uid is listed."""
    query = f"?labelSelector=kueue.x-k8s.io%2Fjob-uid%3D{uid}&limit=1"
    folders = (f"/apis/{WORKLOADS.group}/{version}" for version in WORKLOADS.versions)
    return [in_namespace(folder, namespace, WORKLOADS.plural) + query for folder in folders]


def read_workloads(raw: bytes) -> tuple[RunTime, str] | None:
    """What is left of the limit, and when the job was admitted; None if it has no limit.

    Raises msgspec.MsgspecError.
    """
    found = next(iter(_lists.decode(raw).items), None)
    limit_s = found.spec.maximum_execution_time_seconds if found else None
    if found is None or limit_s is None:
        return None
    checked, problem = checked_s(_LIMIT_FIELD, str(limit_s), float(limit_s))
    if checked is None:
        return RunTime(source=KUEUE, problem=problem), ""
    status = found.status
    past_s = max(0, status.accumulated_past_execution_time_seconds or status.past_s or 0)
    admitted = (each for each in status.conditions or () if each.type == "Admitted")
    since = next((each.last_transition_time for each in admitted if each.status == "True"), "")
    return RunTime(None, max(_SOON_S, checked - past_s), f"{KUEUE} Workload"), since
