"""How a pod ended, as its status says."""

import msgspec

from fairlead.model.consolidation import time_of


class _Terminated(msgspec.Struct, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct):
    state: _State | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] | None = None


class _Meta(msgspec.Struct):
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


_pods = msgspec.json.Decoder(_Pod)


def read_run_end(raw: bytes, uid: str) -> tuple[float, bool] | None:
    """How long the pod ran, and whether it succeeded; None if that cannot be known.

    Raises msgspec.MsgspecError.
    """
    pod = _pods.decode(raw)
    started_s, ended_s = time_of(pod.status.start_time or ""), _ended_s(pod.status)
    if pod.metadata.uid != uid or pod.status.phase not in ("Succeeded", "Failed"):
        return None
    if started_s is None or ended_s is None or ended_s < started_s:
        return None
    return ended_s - started_s, pod.status.phase == "Succeeded"


def _ended_s(status: _Status) -> float | None:
    """When the last of its containers ended."""
    ends = (each.state.terminated for each in status.container_statuses or () if each.state)
    times = (time_of(each.finished_at or "") for each in ends if each)
    return max((each for each in times if each is not None), default=None)
