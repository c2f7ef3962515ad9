"""A trace as it was read: the nodes, and the jobs that come."""

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node
from fairlead.model.pods import PodRequest
from fairlead.model.run_times import ANNOTATION, RunTime
from fairlead.sim.virtual.jobs import SimJob, consolidated, gpu_amount, unit_pods, whole_gpus


@dataclass(frozen=True, slots=True)
class SimTrace:
    name: str
    nodes: tuple[Node, ...]
    #: By submit time.
    jobs: tuple[SimJob, ...]


class JobMaker:
    """Makes jobs whose pods share equal requests, as pods of one workload do.

    Pods declare their true run time, as estimate and bound.
    """

    def __init__(self) -> None:
        self._requests: dict[PodRequest, PodRequest] = {}

    def of_gpus(
        self, name: str, submit_s: float, run_s: float, gpus: int, of_node: int, user: str = "",
        restart_s: float = 0.0,
    ) -> SimJob:  # fmt: skip
        """A job on one node if its GPUs are there, else on whole nodes."""
        parts = [whole_gpus(count) for count in consolidated(gpus, of_node)]
        return self.of_pods(name, submit_s, run_s, parts, user, restart_s)

    def of_pods(
        self, name: str, submit_s: float, run_s: float, parts: list[PodRequest], user: str = "",
        restart_s: float = 0.0,
    ) -> SimJob:  # fmt: skip
        shared = [self._requests.setdefault(part, part) for part in parts]
        gpus = sum(map(gpu_amount, shared))
        pods = unit_pods(name, shared, RunTime(run_s, run_s, ANNOTATION))
        return SimJob(name, submit_s, run_s, pods, user, gpus, restart_s)


def in_order(jobs: list[SimJob]) -> tuple[SimJob, ...]:
    """By submit time, and as they were listed."""
    return tuple(sorted(jobs, key=lambda job: job.submit_s))
