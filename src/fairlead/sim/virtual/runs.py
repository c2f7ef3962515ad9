"""A job while it is simulated, and the order of jobs in the engine's own queue."""

from dataclasses import field, replace

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry
from fairlead.queue.order import OrderKey, PrioritySort, QueueOrder
from fairlead.sim.virtual.jobs import JobRecord, SimJob
from fairlead.sim.virtual.policies.policy import SimPolicy


@dataclass(slots=True, eq=False)
class JobRun:
    """`number` counts jobs in the order in which they came."""

    job: SimJob
    number: int
    record: JobRecord
    remaining_s: float
    #: Its pods as the API server would show them, by uid.
    pods: dict[str, Pod] = field(default_factory=dict)
    #: How many of them have no node yet.
    unbound: int = 0
    #: Since when all of them run; None: they do not.
    since_s: float | None = None
    #: How often its pods were created.
    generation: int = 0
    #: GPUs that its pods hold, with the node of each.
    held: list[tuple[str, float]] = field(default_factory=list)

    def create_pods(self) -> None:
        """Pending ones, with names and uids that no pod had before."""
        self.generation += 1
        again = "" if self.generation == 1 else f".{self.generation}"
        created = (
            replace(pod, name=pod.name + again, uid=pod.uid + again, node="", grant=None)
            if again or pod.node
            else pod
            for pod in self.job.pods
        )
        self.pods = {pod.uid: pod for pod in created}
        self.unbound = len(self.pods)


class JobOrder:
    """By the key of a policy; units that are not jobs come as kube-scheduler would try them."""

    def __init__(self, policy: SimPolicy) -> None:
        self._policy = policy
        self._others: QueueOrder = PrioritySort()
        #: By uid of each pod; the cluster keeps it.
        self.runs: dict[str, JobRun] = {}

    def active(self, entry: Entry) -> OrderKey:
        run = self.runs.get(entry.unit.pod.uid)
        if run is None:
            return (0.0, *self._others.active(entry))
        return self._policy.key(run), float(run.number), 0.0

    def backoff(self, entry: Entry) -> OrderKey:
        return self.active(entry)
