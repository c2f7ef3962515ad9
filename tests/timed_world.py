"""An API server for the engine alone, in which time passes and pods end."""

from dataclasses import replace
from datetime import UTC, datetime

from builders import SCHEDULER, a_pod
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime
from fairlead.queue.retry_times import RetryTimes
from gang_world import GangWorld, a_gang

EXACT = BackfillTerms(BackfillMode.EASY, resolution_s=0.0)


def bounded(run_s: float | None) -> RunTime | None:
    return None if run_s is None else RunTime(bound_s=run_s, source="test")


def a_job(name: str, nodes: int, run_s: float | None, **more: object) -> list[Pod]:
    """A gang that takes so many nodes of one GPU, or a plain pod that takes one."""
    said = {"run_time": bounded(run_s), "gpus": 1, **more}
    return [a_pod(name, uid=name, **said)] if nodes == 1 else a_gang(name, nodes, **said)


class TimedWorld(GangWorld):
    """Binds are carried out at once; pods end when the test says that they do."""

    def __init__(self, *nodes: Node, terms: BackfillTerms = EXACT) -> None:
        retries = RetryTimes(0.0, 0.0, float("inf"))
        super().__init__(Engine({SCHEDULER: built_in(SCHEDULER)}, backfill=terms, retries=retries))
        #: When pods really end, by uid.
        self.ends: dict[str, float] = {}
        #: How long pods really run, by name of the job.
        self.lengths: dict[str, float] = {}
        self.started: dict[str, float] = {}
        for node in nodes:
            self.tell(NodeSeen(node))

    def submit(self, *pods: Pod, runs_s: float | None = None) -> None:
        """They end after `runs_s`; None: at their bound, or never."""
        for pod in pods:
            bound_s = pod.run_time.bound_s if pod.run_time else None
            length_s = bound_s if runs_s is None else runs_s
            if length_s is not None:
                self.lengths[pod.uid] = length_s
        self.create(*pods)
        self.work()

    def work(self) -> None:
        """All that can be done now."""
        for _ in range(100):
            self.decide_all()
            if not self.binds:
                break
            for uid in list(self.binds):
                self._start(uid)
        self.check()

    def _start(self, uid: str) -> None:
        self.answer(uid)
        pod = self.pods[uid]
        at = datetime.fromtimestamp(self.now + self.engine.wall_offset_s, UTC)
        self.pods[uid] = replace(pod, started=at.isoformat())
        self.started[uid] = self.now
        if uid in self.lengths:
            self.ends[uid] = self.now + self.lengths[uid]
        self.tell(PodSeen(self.pods[uid]))

    def run_until(self, until_s: float) -> None:
        while True:
            due = [self.ends[uid] for uid in self.ends if uid in self.pods]
            wake = self.engine.wake_at_s()
            times = [*due, *([wake] if wake is not None else [])]
            next_s = min((at for at in times if at > self.now), default=float("inf"))
            if next_s > until_s:
                break
            self.now = next_s
            ended = [uid for uid in self.ends if uid in self.pods and self.ends[uid] <= self.now]
            self.end(*(self.pods[uid].name for uid in ended))
            self.work()
        self.now = until_s
        self.work()

    def runs(self, name: str) -> bool:
        """Whether all pods of the job have nodes, or have ended."""
        return any(uid == name or uid.startswith(f"{name}-") for uid in self.started)

    def start_of(self, name: str) -> float:
        return next(
            at_s for uid, at_s in self.started.items() if uid == name or uid.startswith(f"{name}-")
        )

    def planned_s(self, name: str, size: int) -> float | None:
        key = name if size == 1 else f"fairlead/default/{name}"
        planned = self.engine.plans.start_of(key)
        return planned.start_s if planned else None
