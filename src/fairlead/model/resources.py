"""What a pod needs, added up the way kube-scheduler adds it.

Containers run together, so their needs add up. Plain init containers run one after another before
them, so only the greediest counts, each beside the sidecars that started before it. Sidecars (init
containers that restart) stay, so they add to both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts
from fairlead.model.quantities import CPU, MEMORY

Counted = dict[str, int]

# kube-scheduler scores a container that asks for nothing as if it asked for this much.
UNSTATED_CPU_MILLI = 100
UNSTATED_MEMORY_BYTES = 200 * 1024 * 1024
_UNSTATED = {CPU: UNSTATED_CPU_MILLI, MEMORY: UNSTATED_MEMORY_BYTES}


@dataclass(frozen=True, slots=True)
class Container:
    requests: Mapping[str, int] = field(default_factory=dict)
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodResources:
    """The parts of a pod that ask for resources."""

    containers: Sequence[Container] = ()
    init: Sequence[Container] = ()
    overhead: Mapping[str, int] = field(default_factory=dict)
    #: Pod-level requests replace the sum for what they name (cpu, memory and hugepages only).
    pod_level: Mapping[str, int] = field(default_factory=dict)


def total(pod_resources: PodResources) -> Amounts:
    """What the scheduler must find free on one node."""
    return settle(peak(pod_resources), pod_resources.pod_level, pod_resources.overhead)


def settle(
    containers: Counted, pod_level: Mapping[str, int], overhead: Mapping[str, int]
) -> Amounts:
    """What the containers take together, corrected by what is said about the pod as a whole."""
    counted = dict(containers)
    counted.update({name: need for name, need in pod_level.items() if is_pod_level(name)})
    _add(counted, overhead)
    return freeze(counted)


def scored(pod_resources: PodResources) -> tuple[int, int]:
    """Cpu and memory for scoring, where a container without a request counts as a small one.

    Pod-level requests are left out, as kube-scheduler does for the pod that it scores for.
    """
    counted = peak(_stated(pod_resources, _UNSTATED))
    _add(counted, pod_resources.overhead)
    return counted.get(CPU, 0), counted.get(MEMORY, 0)


def scored_when_held(pod_resources: PodResources) -> tuple[int, int]:
    """The same for a pod that is on its node: there pod-level requests do count."""
    if not any(is_pod_level(name) for name in pod_resources.pod_level):
        return scored(pod_resources)
    known = dict(total(pod_resources)) | dict(pod_resources.pod_level)
    defaults = {name: small for name, small in _UNSTATED.items() if name not in known}
    counted = dict(total(_stated(pod_resources, defaults)))
    return counted.get(CPU, 0), counted.get(MEMORY, 0)


def freeze(counted: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, need) for name, need in counted.items() if need))


def peak(pod_resources: PodResources) -> Counted:
    """The most that the containers take at any time in the life of the pod."""
    running = _sum(container.requests for container in pod_resources.containers)
    sidecars: Counted = {}
    starting: Counted = {}
    for container in pod_resources.init:
        step = _sum((container.requests, sidecars))
        if container.sidecar:
            sidecars = step
        for name, need in step.items():
            starting[name] = max(starting.get(name, 0), need)
    _add(running, sidecars)
    return {name: max(running.get(name, 0), starting.get(name, 0)) for name in running | starting}


def _stated(pod_resources: PodResources, defaults: Mapping[str, int]) -> PodResources:
    """With these for what containers do not say."""

    def say(containers: Sequence[Container]) -> list[Container]:
        return [Container({**defaults, **c.requests}, c.sidecar) for c in containers]

    return replace(
        pod_resources, containers=say(pod_resources.containers), init=say(pod_resources.init)
    )


def is_pod_level(name: str) -> bool:
    """May this resource be asked for on the level of the pod?"""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _sum(parts: Iterable[Mapping[str, int]]) -> Counted:
    counted: Counted = {}
    for part in parts:
        _add(counted, part)
    return counted


def _add(counted: Counted, part: Mapping[str, int]) -> None:
    for name, need in part.items():
        counted[name] = counted.get(name, 0) + need
