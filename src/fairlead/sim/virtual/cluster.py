"""A cluster in virtual time around the real engine.

The engine gets the events that an API server would show, and its instructions are carried out at
once. Time jumps to the next moment at which a job comes, a job ends, or the engine asks to be
called.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from math import inf
from types import MappingProxyType

from fairlead.engine import events, instructions
from fairlead.engine.engine import Engine
from fairlead.model.devices import DeviceClass, ResourceSlice
from fairlead.model.errors import FairleadError
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.placement.profile import Profile, without_solver
from fairlead.queue.retry_times import ONLY_ON_CHANGE
from fairlead.sim.virtual.claims import VirtualClaims
from fairlead.sim.virtual.jobs import JobRecord, SimJob, gpu_amount, shifted
from fairlead.sim.virtual.meter import GpuMeter
from fairlead.sim.virtual.policies.policy import SimPolicy
from fairlead.sim.virtual.preparing import PreparationRefused, VirtualPreparations
from fairlead.sim.virtual.result import SimResult
from fairlead.sim.virtual.runs import JobOrder, JobRun

_ENDS, _COMES = 0, 1
#: The queue of all jobs, where the order of jobs is that of a queue.
_QUEUE = "fairlead/sim"

_LAST_DATE_S = 250e9

NO_GPUS: Mapping[str, int] = MappingProxyType({})

#: Turns in one moment, or calls that only the engine asked for, after which nothing happens.
_MOST_IDLE = 1000


class SimulationError(FairleadError):
    """The simulation cannot go on; the text says why."""


def simulated_cluster(profiles: Mapping[str, Profile], policy: SimPolicy) -> "VirtualCluster":
    """An empty cluster with an engine of its own, which orders jobs by the policy."""
    order = JobOrder(policy) if policy.orders else None
    engine = Engine(
        without_solver(profiles), order=order, retries=ONLY_ON_CHANGE, backfill=policy.backfill
    )
    cluster = VirtualCluster(engine, policy)
    if order is not None:
        order.runs = cluster.runs_by_uid
    if policy.queue_order is not None:
        engine.handle(events.QueueKindSeen(_QUEUE.partition("/")[0], is_served=True), now=0.0)
        engine.handle(events.QueueSeen(QueueSpec(_QUEUE, order=policy.queue_order)), now=0.0)
    return cluster


class VirtualCluster:
    """`engine` may know nodes and pods already; see `adopt` for what runs."""

    def __init__(
        self, engine: Engine, policy: SimPolicy | None = None, *, start_s: float = 0.0
    ) -> None:
        self.engine = engine
        self.policy = policy
        #: Also what templates of claims ask for, of jobs whose pods name them.
        self.claims = VirtualClaims(engine.cluster.claims)
        #: What kubelets have prepared; None: drivers accept every device.
        self.prepared: VirtualPreparations | None = None
        self.now_s = start_s
        self.result = SimResult(meter=GpuMeter(start_s))
        #: Jobs that run, by name.
        self.running: dict[str, JobRun] = {}
        self.runs_by_uid: dict[str, JobRun] = {}
        self._agenda: list[tuple[float, int, int, JobRun, int]] = []
        #: What the engine is told while jobs wait or come, and when.
        self._feeds: Iterator[tuple[float, events.Event]] = iter(())
        self._next_feed: tuple[float, events.Event] | None = None
        #: Jobs that a strict policy keeps from the engine, by key.
        self._held: list[tuple[float, int, JobRun]] = []
        self._pending: set[str] = set()
        self._sequence = 0
        self._idle = 0
        #: Jobs that lost their nodes at this moment.
        self._interrupted: dict[str, JobRun] = {}

    # -- what is in it -----------------------------------------------------------------------

    def add_nodes(self, nodes: Iterable[Node], published: Mapping[str, int] = NO_GPUS) -> None:
        """`published`: GPUs that drivers publish for claims, by node."""
        for node in nodes:
            self._feed(events.NodeSeen(node))
            self.result.meter.add_node(node, published.get(node.name, 0))

    def add_devices(self, classes: Iterable[DeviceClass], slices: Iterable[ResourceSlice]) -> None:
        """From now on a kubelet starts no pod that it could not start in a real cluster."""
        self.prepared = self.prepared or VirtualPreparations()
        self._feed_all(events.ClaimObjectSeen(each) for each in classes)
        for part in slices:
            self.prepared.publish(part)
            self._feed(events.ClaimObjectSeen(part))

    def tell(self, feeds: Iterator[tuple[float, events.Event]]) -> None:
        """What the engine is told, and when, in order; it ends with the last job."""
        self._feeds = feeds
        self._next_feed = next(feeds, None)

    def submit(self, job: SimJob) -> None:
        """It comes at its time, or now if that has passed."""
        run = self._run_of(job)
        self._schedule(max(job.submit_s, self.now_s), _COMES, run)

    def adopt(self, job: SimJob, started_s: float) -> None:
        """Its pods run in the engine already, since then; it ends after its run time.

        One whose run time is infinite never ends.
        """
        run = self._run_of(job)
        run.generation, run.pods = 1, {pod.uid: pod for pod in job.pods}
        self.runs_by_uid |= dict.fromkeys(run.pods, run)
        run.remaining_s = max(0.0, started_s + job.run_s - self.now_s)
        run.record.start_s, run.record.was_running = started_s, True
        self._start(run)

    def adopt_waiting(self, job: SimJob) -> None:
        """Its pods wait in the engine already."""
        run = self._run_of(job)
        run.generation, run.pods = 1, {pod.uid: pod for pod in job.pods}
        run.unbound = len(run.pods)
        self.runs_by_uid |= dict.fromkeys(run.pods, run)
        self._pending.add(job.name)

    def _run_of(self, job: SimJob) -> JobRun:
        if job.name in self.result.records:
            raise SimulationError(f"two jobs have the name {job.name}; names must be unique")
        record = JobRecord(job.name, job.user, job.gpus, job.run_s, job.submit_s)
        record.deadline_s = job.times.deadline_s if job.times else None
        self.result.records[job.name] = record
        return JobRun(job, len(self.result.records), record, job.run_s)

    # -- time --------------------------------------------------------------------------------

    def decide_now(self) -> None:
        """Lets the engine decide about what waits already, before any time passes."""
        self._settle()

    def run(self) -> SimResult:
        """Until every job that can start has ended."""
        return self.run_until(inf)

    def run_until(self, until_s: float) -> SimResult:
        """All that happens until then; later jobs stay where they are."""
        while self.step(until_s):
            pass
        if until_s < inf:
            self._pass_to(max(until_s, self.now_s))
        return self.result

    def step(self, until_s: float = inf) -> bool:
        """The next moment at which something happens; False if there is none until then."""
        moment = self._next_s()
        if moment is None or moment > until_s:
            return False
        self._pass_to(moment)
        self._happen(moment)
        waiting = len(self._pending) + len(self._held)
        self.result.series.note(moment, self.result.meter.used_gpus, waiting)
        return True

    def _next_s(self) -> float | None:
        """The next moment at which something happens."""
        planned = self._agenda[0][0] if self._agenda else None
        asked = self.engine.wake_at_s() if self._idle < _MOST_IDLE else None
        told = self._next_feed[0] if self._next_feed and (self._agenda or self._pending) else None
        due = [each for each in (planned, asked, told) if each is not None]
        return max(self.now_s, min(due)) if due else None

    def _happen(self, moment: float) -> None:
        changed, is_told = False, False
        while self._next_feed and self._next_feed[0] <= moment:
            self._feed(self._next_feed[1])
            self._next_feed, is_told = next(self._feeds, None), True
        while self._agenda and self._agenda[0][0] <= moment:
            _, kind, _, run, generation = heappop(self._agenda)
            if kind == _COMES:
                self._come(run)
                changed = True
            elif run.generation == generation and run.since_s is not None:
                self._end(run)
                changed = True
        if changed and self.policy and self.policy.interrupt:
            self.policy.interrupt(self)
        self._idle = 0 if self._settle() or changed else self._idle + (not is_told)

    def _pass_to(self, moment: float) -> None:
        self.result.meter.advance(moment)
        self.now_s = moment

    def _schedule(self, at_s: float, kind: int, run: JobRun) -> None:
        if at_s == inf:
            return
        self._sequence += 1
        heappush(self._agenda, (at_s, kind, self._sequence, run, run.generation))

    def gpus_of(self, pod: Pod) -> float:
        """GPUs that a pod asks for, shares as parts of one; with those of its claims."""
        asked = gpu_amount(pod.request)
        return asked + self.claims.gpus(pod) if pod.request.claims else asked

    # -- jobs --------------------------------------------------------------------------------

    def _come(self, run: JobRun) -> None:
        if self.policy and self.policy.strict:
            heappush(self._held, (self.policy.key(run), run.number, run))
        else:
            self._create(run)

    def _create(self, run: JobRun) -> None:
        run.create_pods()
        self._add_terms(run)
        if any(pod.request.claims for pod in run.job.pods):
            pods, claims = self.claims.created(run.pods.values())
            run.pods = {pod.uid: pod for pod in pods}
            self._feed_all(claims)
        self.runs_by_uid |= dict.fromkeys(run.pods, run)
        self._pending.add(run.job.name)
        for pod in run.pods.values():
            self._feed(events.PodSeen(pod))

    def _add_terms(self, run: JobRun) -> None:
        """Its times of day, and its queue, where it has any."""
        times, in_queue = run.job.times, self.policy and self.policy.queue_order is not None
        if times is not None:
            start = shifted(times, self.engine.wall_offset_s)
            run.pods = {uid: replace(pod, start=start) for uid, pod in run.pods.items()}
        if in_queue:
            run.pods = {uid: replace(pod, queue=_QUEUE) for uid, pod in run.pods.items()}

    def _start(self, run: JobRun) -> None:
        """All of its pods have nodes."""
        run.since_s, run.unbound = self.now_s, 0
        if run.record.start_s is None:
            run.record.start_s = self.now_s
        run.record.nodes = [pod.node for pod in run.pods.values()]
        self._pending.discard(run.job.name)
        self.running[run.job.name] = run
        run.held = [(pod.node, self.gpus_of(pod)) for pod in run.pods.values()]
        self.result.meter.started(run.held)
        self._schedule(self.now_s + run.remaining_s, _ENDS, run)

    def _end(self, run: JobRun) -> None:
        run.record.end_s = self.now_s
        self.result.done += 1
        self._stop(run)
        for pod in self._forget_pods(run):
            self._feed(events.PodSeen(replace(pod, finished=True)))
            self._remove(pod)

    def _stop(self, run: JobRun) -> None:
        if run.since_s is not None:
            del self.running[run.job.name]
            self.result.meter.stopped(run.held)
        run.since_s = None

    def _forget_pods(self, run: JobRun) -> list[Pod]:
        pods = list(run.pods.values())
        run.pods = {}
        for pod in pods:
            del self.runs_by_uid[pod.uid]
        return pods

    def interrupt(self, run: JobRun, worked_s: float) -> None:
        """Its pods are replaced by pending ones; so much of its work is kept.

        It counts as evicted if it does not start again at the same moment.
        """
        run.remaining_s = max(0.0, run.remaining_s - worked_s)
        if run.since_s is not None:
            self._interrupted.setdefault(run.job.name, run)
        self._stop(run)
        for pod in self._forget_pods(run):
            self._remove(pod)
        self._create(run)

    # -- the engine --------------------------------------------------------------------------

    def _settle(self) -> bool:
        """Lets the engine decide until nothing is due; whether a job started."""
        before = len(self.running)
        self._decide_all()
        while self._release_next():
            self._decide_all()
        for name, run in self._interrupted.items():
            run.record.evictions += name not in self.running
        self._interrupted.clear()
        return len(self.running) != before

    def _release_next(self) -> bool:
        """With a strict policy the engine gets one job after the other."""
        if self._pending or not self._held:
            return False
        self._create(heappop(self._held)[2])
        return True

    def _decide_all(self) -> None:
        for _ in range(_MOST_IDLE):
            self._carry_out(self.engine.tend(now=self.now_s))
            while (attempt := self.engine.decide(now=self.now_s)) is not None:
                self.result.decisions += 1
                self._carry_out(attempt.instructions)
            asked = self.engine.wake_at_s()
            if asked is None or asked > self.now_s:
                return

    def _remove(self, pod: Pod) -> None:
        self._feed(events.PodGone(replace(pod, finished=True)))
        if pod.request.claims:
            if self.prepared is not None:
                self.prepared.unprepare(pod)
            self._feed_all(self.claims.ended(pod))

    def _feed_all(self, found: Iterable[events.Event]) -> None:
        for event in list(found):
            self._feed(event)

    def _feed(self, event: events.Event) -> None:
        self.result.events += 1
        self._carry_out(self.engine.handle(event, now=self.now_s))

    def _carry_out(self, made: Iterable[instructions.Instruction]) -> None:
        for each in made:
            if isinstance(each, instructions.Bind):
                self._bind(each)
            elif isinstance(each, instructions.Prepare):
                self._feed_all(self.claims.prepared(each.pod, each.steps))
                self._feed(events.Prepared(each.pod.uid))
            elif isinstance(each, instructions.Evict):
                self._evict(each)
            elif isinstance(each, instructions.Unreserve):
                self._feed(events.PodGone(each.pod))
            elif isinstance(each, instructions.FreeClaim):
                self._feed(self.claims.freed(each.claim))
            elif isinstance(each, instructions.ReleaseClaims):
                self._feed_all(self.claims.released(each.pod))
            elif isinstance(each, instructions.AttemptCrashed):
                raise SimulationError(f"the engine failed on {each.pod.key}") from each.error

    def _bind(self, bind: instructions.Bind) -> None:
        run = self.runs_by_uid.get(bind.pod.uid)
        bound = replace(bind.pod, node=bind.node, grant=bind.grant, started=self._time_of_day())
        self._feed(events.BindDone(bind.pod.uid))
        self._feed(events.PodSeen(bound))
        if self.prepared is not None and bound.request.claims:
            self._prepare(self.prepared, bound)
        if run is None:
            return
        run.pods[bound.uid] = bound
        run.unbound -= 1
        if not run.unbound:
            self._start(run)

    def _prepare(self, prepared: VirtualPreparations, pod: Pod) -> None:
        try:
            prepared.prepare(pod, self.claims.of(pod))
        except PreparationRefused as error:
            raise SimulationError(f"{pod.node} cannot start {pod.key}: {error}") from error

    def _time_of_day(self) -> str:
        """As the API server writes it; empty beyond what has a date."""
        wall_s = self.now_s + self.engine.wall_offset_s
        return datetime.fromtimestamp(wall_s, UTC).isoformat() if wall_s < _LAST_DATE_S else ""

    def _evict(self, evict: instructions.Evict) -> None:
        """A job that loses a pod loses all of them, and its work."""
        for victim in evict.victims:
            run = self.runs_by_uid.get(victim.uid)
            if run is None:
                self._remove(victim)
            else:
                self.interrupt(run, 0.0)
                run.remaining_s = run.job.run_s
        self._feed(events.EvictionEnded(evict.pod.uid))
