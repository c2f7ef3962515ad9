"""What the status of a pod says."""

from collections.abc import Sequence

from fairlead.kube.codec.meta import StatusConditionWire
from fairlead.kube.codec.pod_wire import PodStatusWire
from fairlead.kube.kept_records import DEVICES_KEPT, read_kept
from fairlead.kube.usage import ContainerReport, StatusParts
from fairlead.model.kept_record import KeptRecord


def status_parts(status: PodStatusWire) -> StatusParts | None:
    """What the kubelet allocated, if the status shows it; it may differ from the spec."""
    reports = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    told = StatusParts(
        containers=tuple(
            [
                ContainerReport(one.name, bytes(one.resources), bytes(one.allocated_resources))
                for one in reports
                if one.resources or one.allocated_resources
            ]
        ),
        infeasible=_resize_is_infeasible(status),
        resources=bytes(status.resources),
        allocated=bytes(status.allocated_resources),
    )
    return told if any(told) else None


def _resize_is_infeasible(status: PodStatusWire) -> bool:
    for condition in status.conditions or ():
        if condition.type == "PodResizePending" and condition.reason == "Infeasible":
            return True
    return False


def was_evicted(conditions: Sequence[StatusConditionWire]) -> bool:
    return any(
        (condition.type, condition.status, condition.reason)
        == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for condition in conditions
    )


def kept_devices(status: PodStatusWire) -> KeptRecord | None:
    said = (each.message for each in status.conditions or () if each.type == DEVICES_KEPT)
    return read_kept(next(said, ""))


def unscheduled_condition(conditions: Sequence[StatusConditionWire]) -> tuple[str, str]:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return "", ""
