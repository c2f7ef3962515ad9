"""What a bound pod takes from its node, when its kubelet reports what it was given.

A pod can be resized in place. Until its kubelet has followed, what it asks for, what it was
allocated and what it actually has are three different things, and the largest counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fairlead.kube.requests import (
    ContainerParts,
    RequestParts,
    amounts,
    read_pod_resources,
    requested,
)
from fairlead.model import resources
from fairlead.model.pods import Amounts
from fairlead.model.resources import Container, Counted, PodResources


class ContainerReport(NamedTuple):
    """The raw JSON of one container's status.resources and status.allocatedResources."""

    name: str
    resources: bytes
    allocated: bytes


class StatusParts(NamedTuple):
    """The raw JSON of everything in a pod's status that says what it was given."""

    containers: tuple[ContainerReport, ...] = ()
    #: The kubelet will never grant what the spec asks for now, so the spec does not count.
    infeasible: bool = False
    #: status.resources and status.allocatedResources of the pod as a whole.
    resources: bytes = b""
    allocated: bytes = b""


def read_usage(
    parts: RequestParts, told: StatusParts, largest_total: bool
) -> tuple[Amounts, tuple[int, int]]:
    """What a bound pod takes, in full and for scoring.

    `largest_total` as in `Behaviour.takes_largest_total`.
    """
    pod_resources = read_pod_resources(parts)
    level = _pod_level(pod_resources.pod_level, told, every_name=largest_total)
    versions = (
        _three(parts, pod_resources, told)
        if largest_total
        else [_largest_each(parts, pod_resources, told)]
    )
    held = [
        replace(version, overhead=pod_resources.overhead, pod_level=level) for version in versions
    ]
    cpu, memory = zip(*map(resources.scored_when_held, held), strict=True)
    counted = _largest(*map(resources.peak, versions))
    of_pod = amounts(told.allocated), requested(told.resources)
    if largest_total and all(of_pod):
        counted = _largest(resources.peak(versions[0]), *of_pod)
    return resources.settle(counted, level, pod_resources.overhead), (max(cpu), max(memory))


def _largest_each(
    parts: RequestParts, pod_resources: PodResources, told: StatusParts
) -> PodResources:
    """1.36: each container counts with its largest."""
    reports = {report.name: report for report in told.containers if report.resources}
    # Only sidecars are still there to be resized; other init containers are over.
    over = {part.name for part in parts.init if not part.sidecar}

    def largest(name: str, asked: Mapping[str, int]) -> Mapping[str, int]:
        report = reports.get(name)
        if report is None or name in over:
            return asked
        granted = {} if told.infeasible else asked
        return _largest(granted, requested(report.resources), amounts(report.allocated))

    return _taking(parts, pod_resources, largest)


def _three(
    parts: RequestParts, pod_resources: PodResources, told: StatusParts
) -> list[PodResources]:
    """1.37: the pod is added up three times, and the largest sum counts."""
    granted = PodResources() if told.infeasible else pod_resources
    allocated_to = {report.name: amounts(report.allocated) for report in told.containers}
    held_by = {report.name: requested(report.resources) for report in told.containers}

    def allocated(name: str, asked: Mapping[str, int]) -> Mapping[str, int]:
        return allocated_to.get(name) or ({} if told.infeasible else asked)

    def actual(name: str, asked: Mapping[str, int]) -> Mapping[str, int]:
        return held_by.get(name) or allocated(name, asked)

    return [
        granted,
        _taking(parts, pod_resources, allocated),
        _taking(parts, pod_resources, actual),
    ]


def _pod_level(
    asked: Mapping[str, int], told: StatusParts, *, every_name: bool
) -> Mapping[str, int]:
    """What replaces the containers' sums; in 1.36 only for the names that the spec has."""
    if not told.resources or not any(map(resources.is_pod_level, asked)):
        return asked
    granted = {} if told.infeasible else asked
    largest = _largest(granted, requested(told.resources), amounts(told.allocated))
    return largest if every_name else {name: largest.get(name, 0) for name in asked}


def _taking(
    parts: RequestParts,
    pod_resources: PodResources,
    takes: Callable[[str, Mapping[str, int]], Mapping[str, int]],
) -> PodResources:
    """The pod, if each container takes what `takes` makes of its name and requests."""

    def taking(named: Sequence[ContainerParts], gpu_spec: Sequence[Container]) -> list[Container]:
        return [
            Container(takes(part.name, container.requests), container.sidecar)
            for part, container in zip(named, gpu_spec, strict=True)
        ]

    return PodResources(
        taking(parts.containers, pod_resources.containers), taking(parts.init, pod_resources.init)
    )


def _largest(*options: Mapping[str, int]) -> Counted:
    names = {name for option in options for name in option}
    return {name: max(option.get(name, 0) for option in options) for name in names}
