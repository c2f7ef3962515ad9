"""In any order of events no GPU is given to two pods and no pod is lost."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from builders import SCHEDULER, a_node, a_pod, decide_once
from examples import examples
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    BindFailed,
    BindProblem,
    EvictionEnded,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import Bind, Evict, Instruction
from fairlead.model.nodes import GPU

GPUS = 4
NODES = st.sampled_from(["n1", "n2"])


class World(RuleBasedStateMachine):
    """Plays the API server: what is bound there is the truth that the engine must agree with."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)})
        self.now = 0.0
        self.next_pod = 0
        self.priority: dict[str, int] = {}
        self.victims: list[tuple[str, list[str]]] = []  # for whom, and who has to go
        self.pending: dict[str, int] = {}  # uid → GPUs
        self.bound: dict[str, tuple[str, int]] = {}  # uid → node, GPUs
        self.under_way: dict[str, str] = {}  # uid → node
        self.unseen: set[str] = set()  # bound, but the watch has not told yet
        self.nodes: set[str] = set()

    def tell(self, event) -> None:
        self.now += 0.5
        self.carry_out(self.engine.handle(event, now=self.now))

    def decide_once(self) -> None:
        self.now += 0.5
        self.carry_out(decide_once(self.engine, now=self.now))

    def carry_out(self, instructions: Sequence[Instruction]) -> None:
        for made in instructions:
            if isinstance(made, Bind):
                assert made.pod.uid not in self.under_way, "one pod, one bind at a time"
                self.under_way[made.pod.uid] = made.node
            if isinstance(made, Evict):
                assert all(v.priority < made.pod.priority for v in made.victims)
                self.victims.append((made.pod.uid, [victim.uid for victim in made.victims]))

    @invariant()
    def stages_agree_with_the_ledger_and_the_queue(self) -> None:
        engine = self.engine
        assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []

    @rule(node=NODES)
    def node_comes(self, node: str) -> None:
        self.nodes.add(node)
        self.tell(NodeSeen(a_node(node, gpus=GPUS)))

    @rule(node=NODES)
    def node_goes(self, node: str) -> None:
        self.nodes.discard(node)
        self.tell(NodeGone(node))

    @rule(gpus=st.integers(1, 3), priority=st.integers(0, 2))
    def pod_is_created(self, gpus: int, priority: int) -> None:
        uid = f"u{self.next_pod}"
        self.next_pod += 1
        self.pending[uid] = gpus
        self.priority[uid] = priority
        self.tell(PodSeen(a_pod(uid, uid=uid, gpus=gpus, priority=priority)))

    @rule()
    def decide(self) -> None:
        self.decide_once()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), reply_is_late=st.booleans())
    def bind_arrives(self, data, reply_is_late: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.under_way)))
        node = self.under_way.pop(uid)
        if uid in self.pending:
            self.bound[uid] = (node, self.pending.pop(uid))
            self.unseen.add(uid)
            if reply_is_late:
                self.watch_tells(uid)
            self.tell(BindDone(uid))
        else:
            self.tell(BindFailed(uid, BindProblem.GONE, ""))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def bind_is_denied(self, data) -> None:
        uid = data.draw(st.sampled_from(sorted(self.under_way)))
        del self.under_way[uid]
        problem = BindProblem.DENIED if uid in self.pending else BindProblem.GONE
        self.tell(BindFailed(uid, problem, "no"))

    @precondition(lambda self: self.unseen)
    @rule(data=st.data())
    def watch_catches_up(self, data) -> None:
        self.watch_tells(data.draw(st.sampled_from(sorted(self.unseen))))

    @precondition(lambda self: self.pending or self.unseen)
    @rule(data=st.data(), team=st.sampled_from(["red", "blue"]))
    def a_pending_pod_changes_and_the_watch_is_late(self, data, team: str) -> None:
        """A version from before the bind comes when the bind is under way, or done."""
        uid = data.draw(st.sampled_from(sorted({*self.pending, *self.unseen})))
        gpus = self.pending[uid] if uid in self.pending else self.bound[uid][1]
        self.tell(PodSeen(self.a_pod(uid, gpus, "", labels={"team": team})))
        self.decide()

    @precondition(lambda self: self.bound)
    @rule(data=st.data())
    def etcd_is_restored(self, data) -> None:
        """A bound pod is pending again. What the watch has not told, the comparison finds."""
        uid = data.draw(st.sampled_from(sorted(self.bound)))
        _, self.pending[uid] = self.bound.pop(uid)
        pod = self.a_pod(uid, self.pending[uid], "")
        if uid in self.unseen:
            self.unseen.discard(uid)
            self.tell(PodGone(pod))
        self.tell(PodSeen(pod))

    def watch_tells(self, uid: str) -> None:
        self.unseen.discard(uid)
        node, gpus = self.bound[uid]
        self.tell(PodSeen(self.a_pod(uid, gpus, node)))

    def a_pod(self, uid: str, gpus: int, node: str, **more):
        return a_pod(uid, uid=uid, gpus=gpus, node=node, priority=self.priority[uid], **more)

    @precondition(lambda self: self.victims)
    @rule(fails=st.booleans())
    def victims_leave(self, fails: bool) -> None:
        uid, victims = self.victims.pop(0)
        for victim in [] if fails else victims:
            self.end(victim)
        self.tell(EvictionEnded(uid, "the server is away" if fails else ""))

    @precondition(lambda self: self.bound or self.pending)
    @rule(data=st.data(), finishes=st.booleans())
    def pod_ends(self, data, finishes: bool) -> None:
        self.end(data.draw(st.sampled_from(sorted({*self.bound, *self.pending}))), finishes)

    def end(self, uid: str, finishes: bool = False) -> None:
        if uid not in self.bound and uid not in self.pending:
            return
        node, gpus = self.bound.pop(uid, ("", self.pending.pop(uid, 0)))
        self.unseen.discard(uid)
        pod = self.a_pod(uid, gpus, node, finished=finishes and bool(node))
        self.tell(PodSeen(pod) if pod.finished else PodGone(pod))

    @invariant()
    def no_gpu_is_given_twice(self) -> None:
        for name in ("n1", "n2"):
            held = [gpus for node, gpus in self.bound.values() if node == name]
            assert sum(held) <= GPUS

    @invariant()
    def the_ledger_covers_what_is_bound_and_under_way(self) -> None:
        requested = self.engine.cluster.nodes.requested(GPU)
        for name, row in self.engine.cluster.row_of.items():
            bound = sum(gpus for node, gpus in self.bound.values() if node == name)
            coming = sum(
                self.pending[uid]
                for uid, node in self.under_way.items()
                if node == name and uid in self.pending
            )
            assert requested[row] == bound + coming

    @invariant()
    def no_pod_is_lost(self) -> None:
        for uid, gpus in self.pending.items():
            assert not self.engine.has_lost(self.a_pod(uid, gpus, ""))

    def teardown(self) -> None:
        """When the dust settles every pod that fits somewhere is bound."""
        for uid in list(self.under_way):
            self.bind_settles(uid)
        self.now += 400.0
        for _ in range(50):
            self.now += 12.0
            self.decide_once()
            while self.victims:
                self.victims_leave(fails=False)
            for uid in list(self.under_way):
                self.bind_settles(uid)
        for gpus in self.pending.values():
            for name, row in self.engine.cluster.row_of.items():
                assert self.engine.cluster.nodes.free(GPU)[row] < gpus, f"{name} had room"

    def bind_settles(self, uid: str) -> None:
        node = self.under_way.pop(uid)
        if uid in self.pending:
            self.bound[uid] = (node, self.pending.pop(uid))
            self.tell(BindDone(uid))
        else:
            self.tell(BindFailed(uid, BindProblem.GONE, ""))


World.TestCase.settings = examples(80, few=10, steps=40)
TestWorld = World.TestCase
