"""A job of a simulation: one unit (a pod, or a gang), when it comes and how long it runs."""

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial

from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpus import FAIRLEAD, WHOLE, Gpu, GpuRequest, Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.run_times import RunTime
from fairlead.model.start_times import StartTimes

#: The scheduler name of jobs that traces describe.
SCHEDULER = "fairlead-sim"
NAMESPACE = "sim"

_PODS = 10_000
_CORES_MILLI = 128_000
_MEMORY_BYTES = 1 << 44


@dataclass(frozen=True, slots=True)
class SimJob:
    """`pods` are all of its pods, as an engine sees them while they are pending."""

    name: str
    submit_s: float
    run_s: float
    pods: tuple[Pod, ...]
    #: A user, team or virtual cluster, for figures of fairness.
    user: str = ""
    #: GPUs in all, shares as parts of one.
    gpus: float = 0.0
    #: What a restart costs, where a policy interrupts jobs.
    restart_s: float = 0.0
    #: When it may start, until when it is to have ended and by which forecast it starts, in seconds
    #: from the start of the trace.
    times: StartTimes | None = None

    @property
    def service_s(self) -> float:
        """GPU seconds."""
        return self.gpus * self.run_s


@dataclass(slots=True)
class JobRecord:
    """What became of a job. Times are None while that has not happened."""

    name: str
    user: str
    gpus: float
    run_s: float
    submit_s: float
    #: When it started for the first time.
    start_s: float | None = None
    end_s: float | None = None
    evictions: int = 0
    #: It ran when the simulation began: figures of jobs leave it out.
    was_running: bool = False
    #: It is to have ended by then; None: no time is given.
    deadline_s: float | None = None
    #: Where it runs or ran last, once for each pod.
    nodes: list[str] = field(default_factory=list)

    @property
    def wait_s(self) -> float | None:
        """Until its first start."""
        return None if self.start_s is None else self.start_s - self.submit_s

    @property
    def jct_s(self) -> float | None:
        """From submission to completion."""
        return None if self.end_s is None else self.end_s - self.submit_s


def shifted(times: StartTimes, by_s: float) -> StartTimes:
    """The same times, later by so much."""
    return replace(
        times,
        created_s=times.created_s + by_s,
        not_before_s=times.not_before_s + by_s,
        deadline_s=None if times.deadline_s is None else times.deadline_s + by_s,
        start_by_s=None if times.start_by_s is None else times.start_by_s + by_s,
    )


def whole_gpus(count: int) -> PodRequest:
    """The request of a pod for whole GPUs of one node."""
    gpus = GpuRequest(count, dialect=FAIRLEAD) if count else None
    return PodRequest(gpu_request=gpus)


def unit_pods(
    name: str, requests: Sequence[PodRequest], run_time: RunTime | None = None
) -> tuple[Pod, ...]:
    """One pod for each request; several form a gang that needs all of them."""
    make = partial(Pod, NAMESPACE, scheduler=SCHEDULER, run_time=run_time)
    if len(requests) == 1:
        return (make(name, name, request=requests[0]),)
    spec = GangSpec(f"fairlead/{NAMESPACE}/{name}", len(requests))
    return tuple(
        make(
            f"{name}-{rank}",
            f"{name}-{rank}",
            request=request,
            gang=Membership(spec.key, rank=rank, spec=spec),
        )
        for rank, request in enumerate(requests)
    )


def consolidated(gpus: int, of_node: int) -> list[int]:
    """GPUs by pod: on one node if one has so many, else whole nodes and the rest on one more."""
    full, rest = divmod(gpus, of_node)
    return [gpus] if gpus <= of_node else [of_node] * full + [rest] * (rest > 0)


def equal_nodes(count: int, gpus: int, model: str = "GPU") -> tuple[Node, ...]:
    """Nodes on which only GPUs are scarce."""
    return tuple(_node(f"node-{number:05d}", gpus, model) for number in range(count))


def _node(name: str, gpus: int, model: str) -> Node:
    listed = tuple(Gpu(f"GPU-{name}-{index}", index, model) for index in range(gpus))
    allocatable = (("cpu", _CORES_MILLI), ("memory", _MEMORY_BYTES), ("pods", _PODS))
    return Node(
        name, allocatable=allocatable, inventory=Inventory(listed, dialects=frozenset({FAIRLEAD}))
    )


def gpu_amount(request: PodRequest) -> float:
    """GPUs that a pod asks for, shares as parts of one."""
    asked = request.gpu_request
    if asked is None:
        return float(request.amount(GPU))
    return asked.gpus * (1.0 if asked.whole else asked.milli / WHOLE)
