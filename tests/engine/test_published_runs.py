"""Runs that others publish, in simulated time: gangs of knavigator, and the baseline of Kueue."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from statistics import mean

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import QueueSeen
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder
from gang_world import GangWorld


@dataclass
class Job:
    name: str
    submit_s: float
    run_s: float
    pods: list[Pod]
    started_s: float = -1.0
    first_s: float = -1.0
    ended_s: float = -1.0


@dataclass
class Run:
    """Jobs come, start when all of their pods have nodes, and end; evicted ones begin again."""

    world: GangWorld
    jobs: dict[str, Job] = field(default_factory=dict)
    evictions: int = 0
    _events: list[tuple[float, int, str]] = field(default_factory=list)

    def run(self, jobs: list[Job]) -> None:
        self.jobs = {job.name: job for job in jobs}
        for job in jobs:
            self._at(job.submit_s, job.name)
        while self._events:
            self.world.now = max(self.world.now, self._events[0][0])
            while self._events and self._events[0][0] <= self.world.now:
                self._happens(heappop(self._events)[2])
            self._decide()

    def _at(self, at_s: float, name: str) -> None:
        heappush(self._events, (at_s, len(self._events), name))

    def _happens(self, name: str) -> None:
        job = self.jobs.get(name)
        if job is None:
            return  # only time passes
        if job.first_s < 0 and job.submit_s <= self.world.now and not self._exists(job):
            self.world.create(*job.pods)
        elif 0 <= job.started_s <= self.world.now - job.run_s and job.ended_s < 0:
            self.world.end(*(pod.name for pod in job.pods))
            job.ended_s = self.world.now

    def _exists(self, job: Job) -> bool:
        return any(pod.name == job.pods[0].name for pod in self.world.pods.values())

    def _decide(self) -> None:
        while self.world.decide() or self.world.binds or self.world.evictions:
            self.world.answer_all()
            for evict in self.world.evictions:
                self.evictions += len(evict.victims)
                for victim in evict.victims:
                    self.jobs[_job_of(victim)].started_s = -1.0
            self.world.evict_all()
        self._note_starts()
        wake_s = self.world.engine.wake_at_s()
        if wake_s is not None and any(job.ended_s < 0 for job in self.jobs.values()):
            self._at(max(wake_s, self.world.now + 0.05), "")

    def _note_starts(self) -> None:
        bound: dict[str, int] = defaultdict(int)
        for pod in self.world.pods.values():
            bound[_job_of(pod)] += bool(pod.node)
        for name, count in bound.items():
            job = self.jobs[name]
            if job.started_s < 0 and count == len(job.pods):
                job.started_s = self.world.now
                job.first_s = job.first_s if job.first_s >= 0 else self.world.now
                self._at(self.world.now + job.run_s, name)


def _job_of(pod: Pod) -> str:
    return pod.name.rpartition("-")[0]


# -- knavigator: gangs of whole nodes, each wave of which fills the cluster exactly ----------------

NODES, GANG_S = 32, 120.0
WAVES = [
    [(1, 32)], [(2, 16)], [(3, 10), (1, 2)], [(4, 8)], [(5, 6), (2, 1)], [(6, 5), (1, 2)],
    [(7, 4), (1, 2), (2, 1)], [(8, 4)], [(9, 3), (1, 5)],
]  # fmt: skip


def gangs_of_whole_nodes() -> Iterator[Job]:
    sizes = [size for wave in WAVES for count, size in wave for _ in range(count)]
    for number, size in enumerate(sizes):
        key = f"fairlead/default/gang{number}"
        pods = [
            a_pod(
                f"gang{number}-{rank}",
                uid=f"gang{number}-{rank}",
                gpus=8,
                gang=Membership(key, rank=rank, spec=GangSpec(key, size)),
                queue="fairlead/all",
            )
            for rank in range(size)
        ]
        yield Job(f"gang{number}", 0.001 * number, GANG_S, pods)


def test_waves_of_gangs_leave_no_node_idle() -> None:
    """One wave follows another: the least time in which all of them can run."""
    world = GangWorld(an_engine(*(a_node(f"n{n}", gpus=8) for n in range(NODES))))
    world.tell(QueueSeen(QueueSpec("fairlead/all", order=UnitOrder.STRICT_FIFO)))
    run = Run(world)
    jobs = list(gangs_of_whole_nodes())
    assert len(jobs) == 53
    run.run(jobs)
    assert all(job.ended_s > 0 for job in jobs)
    last_s = max(job.ended_s for job in jobs)
    busy = sum(len(job.pods) * job.run_s for job in jobs)
    assert busy / (NODES * last_s) > 0.99
    assert run.evictions == 0


# -- Kueue: queues of one cohort with workloads of three classes -----------------------------------

#: Size in GPUs, how long it runs, its priority, how many, and how often one comes. A minute is a
#: second of the original, and there are a tenth of the workloads.
CLASSES = {
    "small": (1, 12.0, 50, 35, 6.0),
    "medium": (5, 30.0, 100, 10, 30.0),
    "large": (20, 60.0, 200, 5, 72.0),
}
QUEUES = 6
NOMINAL = 20


def workloads() -> Iterator[Job]:
    for queue in range(QUEUES):
        for kind, (gpus, run_s, priority, count, every_s) in CLASSES.items():
            for number in range(count):
                name = f"{kind}.{queue}.{number}"
                pod = a_pod(f"{name}-0", uid=f"{name}-0", gpus=gpus, priority=priority)
                pod = replace(pod, queue=f"fairlead/q{queue}")
                yield Job(name, number * every_s, run_s, [pod])


def test_classes_of_workloads_in_one_cohort() -> None:
    """Larger ones have the higher priority and wait less; nothing is evicted in vain."""
    world = GangWorld(an_engine(a_node("n1", gpus=QUEUES * NOMINAL)))
    world.tell(QueueSeen(QueueSpec("fairlead/cohort")))
    guaranteed = ((GPUS, 1000 * NOMINAL),)
    for queue in range(QUEUES):
        world.tell(QueueSeen(QueueSpec(f"fairlead/q{queue}", "fairlead/cohort", guaranteed)))
    run = Run(world)
    jobs = list(workloads())
    run.run(jobs)
    assert all(job.ended_s > 0 for job in jobs), "each of them runs"
    waits = {
        kind: mean(job.first_s - job.submit_s for job in jobs if job.name.startswith(kind))
        for kind in CLASSES
    }
    assert waits["large"] <= waits["medium"] <= waits["small"]
    assert run.evictions <= len(jobs)
    busy = sum(CLASSES[job.name.partition(".")[0]][0] * job.run_s for job in jobs)
    used = busy / (QUEUES * NOMINAL * max(job.ended_s for job in jobs))
    assert used > 0.559, "the part of the quota that Kueue's own run uses"
