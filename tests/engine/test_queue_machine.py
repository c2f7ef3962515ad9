"""Queues come, go, change parents, weights and limits while pods come, run, fail and finish.

At each step what queues use is compared with what the raw pods say, and no limit is passed.
"""

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from builders import a_node, a_pod, an_engine, see
from examples import examples
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec
from fairlead.queue.entries import Pool

NAMES = ("a", "b", "c", "d")
QUEUES = st.sampled_from(NAMES)
NODE = a_node("n1", gpus=12)
#: Long enough for any backoff.
PAUSE_S = 20.0


def key_of(name: str) -> str:
    return f"fairlead/{name}" if name else ""


SPECS = st.builds(
    lambda name, parent, limit, weight, closed: QueueSpec(
        key_of(name),
        key_of(parent),
        limit=() if limit is None else ((GPUS, 1000 * limit),),
        weight=weight,
        closed=closed,
    ),
    QUEUES,
    st.sampled_from(["", *NAMES, "missing"]),
    st.none() | st.integers(0, 8),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.sampled_from([False, False, False, True]),
)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine: Engine = an_engine(NODE)
        self.now = 0.0
        self.specs: dict[str, QueueSpec] = {}
        #: As the API server shows them: pending, being bound, and with a node.
        self.pods: dict[str, Pod] = {}
        self.binding: dict[str, str] = {}
        #: The queue that each pod had when it was bound.
        self.bound_as: dict[str, str] = {}
        self.gangs: dict[str, GangSpec] = {}
        self.count = 0

    @initialize()
    def queues_are_served(self) -> None:
        self.tell(events.QueueKindSeen("fairlead", is_served=True))

    def tell(self, event: events.Event) -> None:
        self.engine.handle(event, now=self.now)

    # -- queues ------------------------------------------------------------------------------

    @rule(spec=SPECS)
    def a_queue_comes_or_changes(self, spec: QueueSpec) -> None:
        self.specs[spec.key] = spec
        self.tell(events.QueueSeen(spec))

    @rule(name=QUEUES)
    def a_queue_goes(self, name: str) -> None:
        self.specs.pop(key_of(name), None)
        self.tell(events.QueueGone(key_of(name)))

    # -- pods --------------------------------------------------------------------------------

    @rule(name=QUEUES, gpus=st.integers(1, 3), priority=st.integers(0, 2), own=st.booleans())
    def a_pod_comes(self, name: str, gpus: int, priority: int, own: bool) -> None:
        self.count += 1
        queue = key_of(name) if own else ""
        self.show(a_pod(f"p{self.count}", gpus=gpus, priority=priority, queue=queue))

    @rule(name=QUEUES, pods=st.integers(1, 4), spare=st.integers(0, 1))
    def a_gang_comes(self, name: str, pods: int, spare: int) -> None:
        self.count += 1
        key = f"x/default/g{self.count}"
        spec = self.gangs[key] = GangSpec(key, pods, queue=key_of(name))
        self.tell(events.GangSeen(spec))
        for number in range(pods + spare):
            member = Membership(key)
            self.show(a_pod(f"g{self.count}-{number}", gpus=1, gang=member))

    def show(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        see(self.engine, pod, now=self.now)

    @rule(name=QUEUES, choice=st.integers(0, 99))
    def the_label_of_a_pod_is_edited(self, name: str, choice: int) -> None:
        # One that is bound for no queue has no record of that: later it counts for what it names.
        pods = [pod for pod in self.pods.values() if self.bound_as.get(pod.uid, name)]
        if pods:
            self.show(replace(pods[choice % len(pods)], queue=key_of(name)))

    @rule(choice=st.integers(0, 99), finishes=st.booleans())
    def a_pod_ends(self, choice: int, finishes: bool) -> None:
        ready = [pod for pod in self.pods.values() if pod.uid not in self.binding]
        if ready:
            pod = self.pods.pop(ready[choice % len(ready)].uid)
            ended = replace(pod, finished=True)
            self.tell(events.PodSeen(ended) if finishes and pod.node else events.PodGone(pod))
            self.bound_as.pop(pod.uid, None)

    # -- deciding ----------------------------------------------------------------------------

    @rule(times=st.integers(1, 6))
    def the_engine_decides(self, times: int) -> None:
        self.now += PAUSE_S
        for _ in range(times):
            attempt = self.engine.decide(now=self.now)
            for made in attempt.instructions if attempt else ():
                if isinstance(made, Bind):
                    self.is_admitted(made)
        self.engine.tend(now=self.now)

    def is_admitted(self, bind: Bind) -> None:
        uid = bind.pod.uid
        self.binding[uid] = bind.node
        self.bound_as[uid] = self.queue_of(self.pods[uid])
        assert bind.queue == self.bound_as[uid]
        if bind.queue:
            assert bind.queue in self.specs
            for each in self.above(bind.queue):
                self.is_within_limit(each)
                assert not self.specs[each].closed

    @precondition(lambda self: self.binding)
    @rule(works=st.sampled_from([True, True, False]))
    def a_bind_ends(self, works: bool) -> None:
        uid, node = self.binding.popitem()
        if works:
            self.tell(events.BindDone(uid))
            # The bind has written the queue into the pod, and the codec reads it from there.
            self.show(replace(self.pods[uid], node=node, charged_queue=self.bound_as[uid]))
        else:
            del self.bound_as[uid]
            self.tell(events.BindFailed(uid, events.BindProblem.DENIED, "no"))

    @rule()
    def the_engine_begins_again(self) -> None:
        while self.binding:
            self.a_bind_ends(works=True)
        for uid, queue in self.bound_as.items():  # the label of one without a queue may be edited
            self.bound_as[uid] = queue or self.queue_of(self.pods[uid])
        self.engine = an_engine(NODE)
        self.queues_are_served()
        for pod in self.pods.values():
            see(self.engine, pod, now=self.now)
        for spec in self.specs.values():
            self.tell(events.QueueSeen(spec))
        for gang in self.gangs.values():
            self.tell(events.GangSeen(gang))

    # -- what must hold ----------------------------------------------------------------------

    def queue_of(self, pod: Pod) -> str:
        return self.gangs[pod.gang.gang].queue if pod.gang else pod.queue

    def above(self, key: str) -> list[str]:
        """The queue and those above it; only of queues in order."""
        found = []
        while key in self.specs and key not in found:
            found.append(key)
            key = self.specs[key].parent
        return found

    def has_problem(self, key: str) -> bool:
        found = self.above(key)
        last = self.specs[found[-1]].parent if found else "missing"
        return last != ""

    def raw(self) -> dict[str, Counter[str]]:
        """By queue, from the pods alone; only of queues in order."""
        sums: dict[str, Counter[str]] = {key: Counter() for key in self.specs}
        for uid, key in self.bound_as.items():
            pod = self.pods[uid]
            if key not in self.specs:
                continue
            for each in self.above(key) if not self.has_problem(key) else []:
                sums[each] += Counter({GPUS: 1000 * pod.request.amount(GPUS), "pods": 1})
        return sums

    def is_within_limit(self, key: str) -> None:
        used = self.engine.queues.used.of(key)[GPUS]
        limit = dict(self.specs[key].limit).get(GPUS)
        assert limit is None or used <= limit, f"{key} uses {used} of {limit}"

    @invariant()
    def queues_use_what_their_pods_hold(self) -> None:
        raw = self.raw()
        reports = {report.spec.key: report for report in self.engine.queues.report()}
        assert reports.keys() == self.specs.keys()
        for key, report in reports.items():
            assert bool(report.problem) == self.has_problem(key), key
            if any(self.has_problem(other) for other in self.specs):
                continue  # sums above a broken link are not compared
            assert dict(report.used).get(GPUS, 0) == raw[key][GPUS], key
            assert report.running_pods == raw[key]["pods"], key

    @invariant()
    def the_sums_of_queues_are_those_of_the_ledger(self) -> None:
        queues, cluster = self.engine.queues, self.engine.cluster
        if cluster.tenants is None:
            assert not self.specs
            assert not dict(queues.used)
            return
        own: Counter[str] = Counter()
        for uid, held in cluster.holdings.items():
            assert held.tenant == self.bound_as.get(uid, ""), uid
            if held.tenant:
                own[held.tenant] += 1000 * dict(held.amounts).get(GPUS, 0)
        assert {key: sums[GPUS] for key, sums in queues.used} == +own

    @invariant()
    def pending_pods_are_counted_once(self) -> None:
        if self.engine.cluster.tenants is None:
            return
        queue, asked = self.engine.queue, Counter()
        for pod in self.pods.values():
            if not pod.node and pod.uid not in self.binding and self.queue_of(pod):
                assert pod.uid in queue
                asked[self.queue_of(pod)] += 1
        sums = self.engine.queues.asked.sums
        assert {key: own["pods"] for key, own in sums if own["pods"]} == asked

    def teardown(self) -> None:
        """What could start does: after enough turns no unit waits that its queue admits."""
        while self.binding:
            self.a_bind_ends(works=True)
        for _ in range(6):  # too short for the retry that every wait has
            self.the_engine_decides(times=60)
            while self.binding:
                self.a_bind_ends(works=True)
        free = 12 - sum(p.request.amount(GPUS) for p in self.pods.values() if p.node)
        for pod in self.pods.values():
            if pod.node or pod.gang or pod.request.amount(GPUS) > free:
                continue
            entry = self.engine.queue.get(pod.uid)
            assert entry is not None
            assert entry.pool is Pool.WAITING
            assert self.engine.queues.why(pod) is not None, pod.key


TestQueues = QueueMachine.TestCase
TestQueues.settings = examples(60, steps=30)
