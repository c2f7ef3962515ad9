"""Whatever happens to GPUs and pods, and in whatever order, the ledger is right and sells nothing
twice.

The machine plays an API server with nodes whose GPUs come, go, move and change, and with pods of
every kind. After each step the ledger is compared with an auditor who adds everything up again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from builders import SCHEDULER, a_node, a_pod, decide_once
from examples import examples
from fairlead.apps.config.profiles import built_in, overcommitted
from fairlead.cluster.checking import misplaced, wrong_nodes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.load import FRESH_S
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    BindFailed,
    BindProblem,
    Event,
    EvictionEnded,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    ReadingsTaken,
    ReleaseOverdue,
)
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict, Instruction
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpus import (
    PLAIN,
    WHOLE,
    Gpu,
    GpuRequest,
    GpuUse,
    Grant,
    GrantSource,
    Inventory,
    Isolation,
    MigProfile,
)
from fairlead.model.holders import claim_holder
from fairlead.model.map_slots import MapSlot, Member
from fairlead.model.pods import Pod
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.scheduling_map import parse
from fairlead.placement.profile import Profile
from fairlead.queue.entries import Pool
from fairlead.queue.units import Gang
from gang_world import held_in_vain
from ledger_audit import audited, books_of, could_serve, grants_among, told

GPUS = 4
DIALECTS = ("fairlead", "hami", "volcano", "gpushare", "kai", "alnair")
A100 = (
    MigProfile("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6)),
    MigProfile("2g.20gb", 2, (0, 2, 4)),
    MigProfile("3g.40gb", 4, (0, 4)),
)
#: As an agent divides them.
FREELY = tuple(replace(kind, memory_mib=1800 * kind.slices, slots=8) for kind in A100)
NAMES = ("n1", "n2", "n3")
NODES = st.sampled_from(NAMES)
MIB = st.sampled_from([0, 1000, 4000, 8000, 20_000])
MILLI = st.sampled_from([0, 1, 300, 500, 700, 1000])
#: Indices of one workload share GPUs here, by index, by uuid, and all of them.
MAP = parse("0=n1:0\n1=n1:0,1\n2=n1:GPU-n1-0\n3=n2:3\n4=n2:3\n5=n1:all\n6=n2:\n7=n3:0,GPU-n3-0")
WORKLOADS = st.sampled_from(["ns/StatefulSet/a", "ns/Deployment/b"])


@st.composite
def gpus(draw, node: str) -> tuple[Gpu, ...]:
    """Some of the node's GPUs, in any order: an index says where a GPU is today."""
    by_index = draw(st.integers(0, 5)) == 5
    slots = draw(st.permutations(range(GPUS)))[: draw(st.sampled_from([4, 4, 4, 3, 2, 0]))]
    kinds = [draw(st.sampled_from([(), (), (), A100, FREELY])) for _ in slots]
    return tuple(
        Gpu(
            uuid=str(index) if by_index else f"GPU-{node}-{slot}",
            index=index,
            model=draw(st.sampled_from(["A100", "T4"])),
            memory_mib=draw(st.sampled_from([16_000, 8000, 0])),
            healthy=draw(st.integers(0, 9)) < 9,
            sharers=draw(st.sampled_from([0, 0, 2])),
            mig=kinds[index],
            slots=8 if kinds[index] is FREELY else 0,
            mps=draw(st.sampled_from([0, 2, 9])),
        )
        for index, slot in enumerate(slots)
    )


@st.composite
def inventories(draw, node: str) -> Inventory | None:
    kind = draw(st.sampled_from(["listed"] * 5 + ["counted", "none"]))
    if kind == "none":
        return None
    found = draw(gpus(node))
    spoken = frozenset(draw(st.sampled_from([DIALECTS, DIALECTS, DIALECTS[:2], DIALECTS[2:]])))
    joined = draw(st.booleans())
    links = tuple(tuple(0 if a == b else 50 for b in found) for a in found) if joined else ()
    return Inventory(
        found,
        links,
        dialects=spoken,
        one_at_a_time=spoken & {"hami", "volcano"},
        first_fit=spoken & {"alnair"},
        named=kind == "listed",
        confirms=draw(st.booleans()),
    )


@st.composite
def asks(draw) -> GpuRequest:
    kinds = ["share", "share", "client", "in a slice", "whole", "slice", "whole of theirs"]
    kind = draw(st.sampled_from([*kinds, "linked", "mapped"]))
    count = draw(st.sampled_from([1, 1, 1, 2, 3]))
    if kind == "mapped":
        map_slot = MapSlot(draw(WORKLOADS), MAP.lines)
        index = draw(st.none() | st.integers(0, len(MAP.lines) - 1))
        map_slot = map_slot if index is None else map_slot.at(index)
        return GpuRequest(draw(st.integers(0, 2)), dialect="scheduling-map", map_slot=map_slot)
    if kind == "slice":
        return GpuRequest(count, False, 0, profile=draw(st.sampled_from(A100)).name)
    models = frozenset(draw(st.sampled_from([(), (), (), ("A100",)])))
    if kind == "client":
        milli = draw(st.sampled_from([1, 100, 300]))
        mps, injected = Isolation.MPS, draw(st.integers(0, 9)) < 9
        asked = GpuRequest(1, False, milli, 0, milli, dialect="fairlead", isolation=mps)
        return replace(asked, models=models, mps_injected=injected)
    if kind == "in a slice":
        milli, mib = draw(st.sampled_from([100, 300])), draw(st.sampled_from([0, 1500, 4000]))
        mig, by_share = Isolation.MIG, milli if not mib else 0
        return GpuRequest(count, False, milli, mib, by_share, dialect="fairlead", isolation=mig)
    if kind == "share":
        milli, mib = draw(MILLI), draw(MIB)
        by_share = milli if not mib else 0
        dialect = draw(st.sampled_from(DIALECTS))
        return GpuRequest(count, False, milli, mib, by_share, models=models, dialect=dialect)
    dialect = PLAIN if kind != "whole of theirs" else draw(st.sampled_from(DIALECTS))
    return GpuRequest(count, models=models, dialect=dialect, linked=kind == "linked")


@st.composite
def claims(draw) -> Grant:
    """What a pod says that it has: of GPUs here, elsewhere, nowhere, true or forged."""
    named = [f"GPU-{node}-{slot}" for node in NAMES for slot in range(GPUS)]
    names = st.sampled_from([*named, *named, "", "0", "3", "17", "GPU-nobody-knows"])

    def use() -> GpuUse:
        kind = draw(st.sampled_from(["whole", "share", "slice"]))
        if kind == "slice":
            slices = draw(st.integers(1, 8))
            start = draw(st.integers(0, 8 - slices))
            return GpuUse(draw(names), draw(st.booleans()), 0, 0, "1g.10gb", start, slices)
        mib = draw(MIB)
        return GpuUse(draw(names), kind == "whole", draw(MILLI), mib)

    uses = tuple(use() for _ in range(draw(st.integers(1, 3))))
    dialect, pending = draw(st.sampled_from([PLAIN, *DIALECTS])), draw(st.booleans())
    member = draw(st.none() | st.builds(Member, WORKLOADS, st.integers(0, len(MAP.lines) - 1)))
    isolation = draw(st.sampled_from([Isolation.ADVISORY, Isolation.ADVISORY, Isolation.MPS]))
    return Grant(uses, dialect, pending=pending, member=member, isolation=isolation)


class Ledger(RuleBasedStateMachine):
    """What is bound here is the truth, and the engine hears of it sooner or later."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine({SCHEDULER: self.profile()})
        self.now = 0.0
        self.pods: dict[str, Pod] = {}  # all that are not over, as the API server has them
        #: Binds that no watch has shown yet, and those of them and of others without a reply.
        self.under_way: dict[str, tuple[str, Grant | None]] = {}
        self.unanswered: dict[str, tuple[str, Grant | None]] = {}
        self.known: dict[str, Pod] = {}  # bound, as the watch has told
        self.had: dict[str, Grant | None] = {}  # what they said when they were first seen there
        self.victims: list[tuple[str, list[str]]] = []
        #: Pods whose processes may go on though they are gone: where, and what they had.
        self.vanished: dict[str, tuple[str, Grant]] = {}

    def profile(self) -> Profile:
        return built_in(SCHEDULER)

    def limit_milli(self, node: str, gpu: Gpu) -> int:
        """What shares of the GPU's compute may add up to just now."""
        return WHOLE

    @property
    def cluster(self) -> Cluster:
        return self.engine.cluster

    def tell(self, event: Event) -> None:
        self.now += 0.5
        self.carry_out(self.engine.handle(event, now=self.now))

    def decide_once(self) -> None:
        self.now += 0.5
        self.carry_out(self.engine.tend(now=self.now))
        self.carry_out(decide_once(self.engine, now=self.now))

    def carry_out(self, instructions: Sequence[Instruction]) -> None:
        mapped = gpus_by_map(made for made in instructions if isinstance(made, Bind))
        for made in instructions:
            if isinstance(made, Bind):
                self.under_way[made.pod.uid] = made.node, made.grant
                self.unanswered[made.pod.uid] = made.node, made.grant
                self.check_sale(made, mapped[made.node])
            elif isinstance(made, Evict):
                self.check_eviction(made)
                self.victims.append((made.pod.uid, [victim.uid for victim in made.victims]))
            elif isinstance(made, AnnounceFailure):
                assert "failed" not in made.message, made.message

    def check_sale(self, bind: Bind, mapped_beside: int) -> None:
        """Nothing that we sell is sold beyond what there is, whatever others did before.

        Pods with a map in the same gang may have come after it, and take GPUs that are held.
        """
        found = books_of(self.cluster, bind.node)
        bought = {use.uuid for use in bind.grant.uses} if bind.grant else set()
        accounts = [a for a in found.accounts if a.gpu.uuid in bought]
        mapped = is_mapped(bind)
        # A map may name GPUs of a node that only counts them, and beyond those, GPUs are counted.
        assert mapped or len(accounts) == len(bought - {""}), "GPUs that are not there"
        self.check_slices(bind)
        complaints = [a.complaint(self.limit_milli(bind.node, a.gpu)) for a in accounts]
        assert not any(complaints), (accounts, complaints)
        assert all(account.gpu.healthy for account in accounts)
        opened = any(len(a.uses) == 1 and not a.gpu.mig for a in accounts)
        left = sum(a.gpu.healthy and not a.uses and not a.gpu.mig for a in found.accounts)
        assert mapped or not opened or left >= found.unknown - mapped_beside, (
            "a GPU that may be held already"
        )

    def check_slices(self, bind: Bind) -> None:
        """A share that MIG isolates has a slice with all of it."""
        ask = bind.pod.request.gpu_request
        if ask is None or bind.grant is None or ask.isolation is not Isolation.MIG:
            return
        for use in bind.grant.uses:
            assert int(use.profile[0]) / 7 >= ask.milli / WHOLE
            assert use.slices / 8 >= ask.memory_milli / WHOLE
            assert use.slices * 1800 >= ask.memory_mib

    def check_eviction(self, evict: Evict) -> None:
        """With those gone who have to go, the GPUs are enough."""
        if evict.because:  # a gang is released
            return
        node, ask = self.cluster.node_named(evict.node), evict.pod.request.gpu_request
        assert node is not None
        assert ask is not None
        assert all(victim.priority < evict.pod.priority for victim in evict.victims)
        gone = {victim.uid for victim in evict.victims}
        held = self.cluster.held_on(evict.node)
        # Lesser pods that leave already need not be told to.
        gone |= {h.pod.uid for h in held if h.pod.deleting and h.pod.priority < evict.pod.priority}
        stay = [h for h in held if h.pod.uid not in gone]
        gpus = node.inventory.gpus if node.inventory else ()
        most = max((self.limit_milli(evict.node, gpu) for gpu in gpus), default=WHOLE)
        kept = [grant for name, grant in self.vanished.values() if name == evict.node]
        assert could_serve(ask, node.inventory, grants_among(stay) + kept, most)

    # -- nodes -------------------------------------------------------------------------------

    @initialize(data=st.data())
    def a_cluster_is_there(self, data) -> None:
        for node in NAMES[:2]:
            self.node_comes_or_changes(node, data)

    @rule(node=NODES, data=st.data())
    def node_comes_or_changes(self, node: str, data) -> None:
        inventory = data.draw(inventories(node))
        self.tell(NodeSeen(a_node(node, gpus=GPUS, inventory=inventory)))

    @rule(node=NODES, comes_back=st.sampled_from([True, True, False]))
    def node_goes(self, node: str, comes_back: bool) -> None:
        was = self.cluster.node_named(node)
        self.tell(NodeGone(node))
        if was is not None and comes_back:
            self.tell(NodeSeen(was))

    @precondition(lambda self: len(self.cluster))
    @rule(data=st.data(), what=st.sampled_from(["lost", "moved", "mended", "cut", "dearer", "mps"]))
    def a_gpu_changes(self, data, what: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.row_of)))
        node = self.cluster.node_named(name)
        if node is None or node.inventory is None or not node.inventory.gpus:
            return
        first, *others = node.inventory.gpus
        others = [replace(gpu, index=gpu.index - 1) for gpu in others]
        changed = {
            "lost": others,
            "moved": [*others, replace(first, index=len(others))],
            "mended": [replace(first, healthy=not first.healthy), *node.inventory.gpus[1:]],
            "cut": [replace(first, mig=() if first.mig else A100), *node.inventory.gpus[1:]],
            "dearer": [replace(first, memory_mib=24_000), *node.inventory.gpus[1:]],
            "mps": [replace(first, mps=0 if first.mps else 3), *node.inventory.gpus[1:]],
        }[what]
        inventory = replace(node.inventory, gpus=tuple(changed), links=())
        self.tell(NodeSeen(replace(node, inventory=inventory)))

    # -- pods --------------------------------------------------------------------------------

    @rule(requested=st.lists(st.tuples(asks(), st.integers(0, 2)), min_size=1, max_size=4))
    def pods_are_created(self, requested: list[tuple[GpuRequest, int]]) -> None:
        for ask, priority in requested:
            self.pod_is_created(ask, priority)
        self.decide(times=len(requested))

    @rule(limit=st.integers(1, 2), pods=st.integers(3, 5))
    def clients_come(self, limit: int, pods: int) -> None:
        """To a node that serves few of them, and with little of each, so that clients are short."""
        found = tuple(Gpu(f"GPU-n1-{n}", n, "A100", 16_000, mps=limit) for n in range(2))
        inventory = Inventory(found, dialects=frozenset(DIALECTS))
        self.tell(NodeSeen(a_node("n1", gpus=GPUS, inventory=inventory)))
        ask = GpuRequest(1, False, 10, 0, 10, dialect="fairlead", isolation=Isolation.MPS)
        for _ in range(pods):
            self.pod_is_created(replace(ask, mps_injected=True), 1)
        self.decide(times=pods)

    def pod_is_created(
        self, ask: GpuRequest, priority: int, gang: Membership | None = None
    ) -> None:
        uid = f"u{len(self.pods)}-{self.now}"
        counted = ask.gpus if ask.dialect == PLAIN and ask.whole else 0
        pod = a_pod(uid, uid=uid, gpus=counted, gpu_request=ask, priority=priority, gang=gang)
        self.pods[uid] = pod
        self.tell(PodSeen(pod))

    @rule(
        requested=st.lists(asks(), min_size=2, max_size=3),
        fewer=st.integers(0, 1),
        priority=st.integers(0, 2),
        name=st.sampled_from(["red", "blue"]),
    )
    def a_gang_is_created(
        self, requested: list[GpuRequest], fewer: int, priority: int, name: str
    ) -> None:
        """Or more pods of one that is there; they may contradict its other pods."""
        key = f"fairlead/default/{name}"
        spec = GangSpec(key, len(requested) - fewer, priority=priority, longest_part_s=4.0)
        for rank, ask in enumerate(requested):
            self.pod_is_created(ask, priority, Membership(key, rank=rank, spec=spec))
        self.decide(times=2)

    @rule(times=st.integers(1, 4))
    def decide(self, times: int) -> None:
        for _ in range(times):
            self.decide_once()

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data(), seen_first=st.booleans())
    def bind_arrives(self, data, seen_first: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.unanswered)))
        node, grant = self.unanswered.pop(uid)
        self.under_way.pop(uid, None)
        pod = self.pods.get(uid)
        if pod is None or pod.node:
            problem = BindProblem.GONE if pod is None else BindProblem.TAKEN
            self.tell(BindFailed(uid, problem, ""))
            return
        self.pods[uid] = replace(pod, node=node, grant=grant)
        if seen_first:
            self.watch_tells(uid)
            self.tell(BindDone(uid))
        else:
            self.under_way[uid] = node, grant  # as far as anybody has told us
            self.tell(BindDone(uid))

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def bind_is_denied(self, data) -> None:
        uid = data.draw(st.sampled_from(sorted(self.unanswered)))
        del self.unanswered[uid]
        self.under_way.pop(uid, None)
        self.tell(BindFailed(uid, BindProblem.DENIED, "no"))

    @precondition(lambda self: self.engine.in_flight.unconfirmed())
    @rule(data=st.data())
    def the_outcome_of_a_bind_comes_twice(self, data) -> None:
        """As from a reply that was lost and asked for again: what was written stays."""
        uid = data.draw(st.sampled_from(sorted(self.engine.in_flight.unconfirmed())))
        self.tell(BindFailed(uid, BindProblem.TAKEN, ""))

    @rule(node=NODES, ask=asks(), grant=st.none() | claims())
    def another_scheduler_binds(self, node: str, ask: GpuRequest, grant: Grant | None) -> None:
        uid = f"x{len(self.pods)}-{self.now}"
        self.pods[uid] = a_pod(
            uid, uid=uid, gpu_request=ask, grant=grant, node=node, scheduler="other"
        )  # fmt: skip
        self.watch_tells(uid)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), node=NODES, grant=claims())
    def another_scheduler_binds_ours(self, data, node: str, grant: Grant) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        if not self.pods[uid].node:
            self.pods[uid] = replace(self.pods[uid], node=node, grant=grant)
            self.watch_tells(uid)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), grant=st.none() | claims(), deleting=st.booleans())
    def a_bound_pod_changes(self, data, grant: Grant | None, deleting: bool) -> None:
        """Resized, its annotations edited, answered by its device plugin, or leaving."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods[uid]
        if pod.node:
            self.pods[uid] = replace(pod, grant=pod.grant if deleting else grant, deleting=deleting)
            self.watch_tells(uid)

    @precondition(lambda self: any(pod.node for pod in self.pods.values()))
    @rule(data=st.data(), ask=st.none() | asks(), said=st.sampled_from(["as before", "gone"]))
    def an_ask_of_a_bound_pod_is_edited(self, data, ask: GpuRequest | None, said: str) -> None:
        """Removed, raised, lowered or put in other words: what it holds stays as it is."""
        known = sorted(uid for uid, pod in self.known.items() if self.pods[uid] is pod)
        if not known:
            return
        uid = data.draw(st.sampled_from(known))
        pod, held = self.pods[uid], self.cluster.holdings[uid].grant
        books = {name: told(self.cluster, name) for name in self.cluster.row_of}
        before = pod.request.gpu_request
        if (before and before.whole) or (ask and ask.whole):
            ask = before  # whole GPUs are in the spec, which cannot be changed
        pending = held is not None and held.pending
        asked = Grant((GpuUse("", False),), pending=pending, source=GrantSource.ASKED)
        gone = asked if pending or (ask and not ask.whole) else None
        grant = pod.grant if said == "as before" and pod.grant else gone
        changed = replace(pod, grant=grant, edited="" if ask else "no GPU now")
        self.pods[uid] = replace(changed, request=replace(pod.request, gpu_request=ask))
        self.watch_tells(uid)
        assert self.cluster.holdings[uid].grant == held
        assert books == {name: told(self.cluster, name) for name in self.cluster.row_of}

    @precondition(lambda self: self.cluster.holdings)
    @rule(data=st.data(), name=st.sampled_from(["red", "blue"]), grant=claims())
    def a_pod_uses_a_claim(self, data, name: str, grant: Grant) -> None:
        """Pods on one node that use a claim have its GPUs together."""
        uid = data.draw(st.sampled_from(sorted(self.cluster.holdings)))
        self.cluster.share(uid, claim_holder(name), replace(grant, member=None, pending=False))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def a_device_plugin_answers(self, data) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods[uid]
        if pod.node and pod.grant:
            self.pods[uid] = replace(pod, grant=replace(pod.grant, pending=False))
            self.watch_tells(uid)

    @precondition(lambda self: self.pods.keys() - self.known.keys())
    @rule(data=st.data(), team=st.sampled_from(["red", "blue"]))
    def a_pending_pod_changes_and_the_watch_is_late(self, data, team: str) -> None:
        """A version from before the bind comes when the bind is under way, or done."""
        uid = data.draw(st.sampled_from(sorted(self.pods.keys() - self.known.keys())))
        self.tell(PodSeen(replace(self.pods[uid], node="", grant=None, labels={"team": team})))
        self.decide(times=1)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def etcd_is_restored(self, data) -> None:
        """A pod that was seen on its node is pending again."""
        uid = data.draw(st.sampled_from(sorted(self.known)))
        if self.engine.in_flight.entry_of(uid):  # its outcome comes first
            return
        self.known.pop(uid)
        self.under_way.pop(uid, None)
        self.pods[uid] = replace(self.pods[uid], node="", grant=None)
        self.tell(PodSeen(self.pods[uid]))

    @precondition(lambda self: self.engine.in_flight.unconfirmed())
    @rule(data=st.data())
    def etcd_is_restored_before_the_watch_told(self, data) -> None:
        """No watch shows a change; the comparison with a list does (`apps/run/verification.py`)."""
        uid = data.draw(st.sampled_from(sorted(self.engine.in_flight.unconfirmed())))
        self.under_way.pop(uid)
        self.pods[uid] = replace(self.pods[uid], node="", grant=None)
        self.tell(PodGone(self.pods[uid]))
        self.tell(PodSeen(self.pods[uid]))

    def watch_tells(self, uid: str) -> None:
        said = self.pods[uid].grant
        if uid not in self.known or (said and said.source is GrantSource.TAKEN):
            self.had[uid] = said
        self.known[uid] = self.pods[uid]
        self.under_way.pop(uid, None)
        self.tell(PodSeen(self.pods[uid]))

    @precondition(lambda self: any(pod.node for pod in self.pods.values()))
    @rule(data=st.data())
    def watch_catches_up(self, data) -> None:
        bound = sorted(uid for uid, pod in self.pods.items() if pod.node)
        self.watch_tells(data.draw(st.sampled_from(bound)))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), finishes=st.booleans())
    def pod_ends(self, data, finishes: bool) -> None:
        self.end(data.draw(st.sampled_from(sorted(self.pods))), finishes=finishes)

    def end(self, uid: str, *, finishes: bool = False) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self.known.pop(uid, None)
        self.under_way.pop(uid, None)
        finished = finishes and bool(pod.node)
        self.tell(PodSeen(replace(pod, finished=True)) if finished else PodGone(pod))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def pod_vanishes(self, data) -> None:
        """It was deleted by force: its processes go on, whatever the API server shows."""
        uid = data.draw(st.sampled_from(sorted(self.known)))
        held = self.cluster.holdings[uid]
        node = self.cluster.node_named(held.node)
        inventory = node.inventory if node else None
        names = (
            {name for gpu in inventory.gpus for name in (gpu.uuid, str(gpu.index))}
            if inventory
            else set()
        )
        self.pods[uid] = replace(self.pods[uid], started="2026-01-01T00:00:00Z")
        self.end(uid)
        named = held.grant and any(use.uuid in names for use in held.grant.uses)
        if inventory and inventory.named and inventory.confirms and named and held.grant:
            self.vanished[uid] = held.node, replace(held.grant, pending=False)

    @precondition(lambda self: self.vanished)
    @rule(data=st.data(), said=st.booleans())
    def processes_end(self, data, said: bool) -> None:
        """The agent says so, or nobody does for long."""
        uid = data.draw(st.sampled_from(sorted(self.vanished)))
        node = self.cluster.node_named(self.vanished[uid][0])
        if not said:
            self.tell(ReleaseOverdue(uid))
        elif node is not None and node.inventory is not None:
            told_of = replace(node.inventory, released=frozenset({uid, "u-of-nobody"}))
            self.tell(NodeSeen(replace(node, inventory=told_of)))
        else:
            return
        del self.vanished[uid]

    @precondition(lambda self: self.victims)
    @rule(fails=st.booleans())
    def victims_leave(self, fails: bool) -> None:
        uid, victims = self.victims.pop(0)
        for victim in [] if fails else victims:
            self.end(victim)
        self.tell(EvictionEnded(uid, "the server is away" if fails else ""))

    # -- what must hold ----------------------------------------------------------------------

    @precondition(lambda self: len(self.cluster) and self.cluster.holdings)
    @rule(data=st.data())
    def a_draft_leaves_no_trace(self, data) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.row_of)))
        before = image(self.cluster)
        here = sorted(held.pod.uid for held in self.cluster.held_on(name))
        others = sorted(set(self.cluster.holdings) - set(here))
        leaving = data.draw(st.permutations(here))[: data.draw(st.integers(0, len(here)))]
        with self.cluster.draft(self.cluster.row_of[name]) as draft:
            for uid in leaving:
                draft.take(self.cluster.holdings[uid])
            for uid in others[:2]:
                draft.add(replace(self.cluster.holdings[uid], node=name))
            for uid in leaving[:1]:
                draft.add(self.cluster.holdings[uid])
        assert image(self.cluster) == before

    # A fresh one does not know of pods that vanished before.
    @precondition(lambda self: len(self.cluster) and not self.vanished)
    @rule(data=st.data())
    def a_fresh_ledger_says_the_same(self, data) -> None:
        nodes = [NodeSeen(self.cluster.node_at(row)) for row in self.cluster.row_of.values()]
        held = list(self.cluster.holdings.values())
        pods = [PodSeen(replace(h.pod, node=h.node, grant=h.grant)) for h in held]
        fresh = Engine({SCHEDULER: self.profile()})
        for event in data.draw(st.permutations([*nodes, *pods])):
            fresh.handle(event, now=0.0)
        for uid, holder, grant in ((h.pod.uid, *pair) for h in held for pair in h.shared):
            fresh.cluster.share(uid, holder, grant)
        for name in self.cluster.row_of:
            assert told(fresh.cluster, name) == told(self.cluster, name)

    @invariant()
    def the_ledger_is_what_the_auditor_finds(self) -> None:
        for name in self.cluster.row_of:
            assert told(self.cluster, name) == audited(self.cluster, name)
        assert wrong_nodes(self.cluster, self.cluster.row_of) == []
        assert list(misplaced(self.cluster, self.known)) == []

    @invariant()
    def stages_agree_with_the_ledger_and_the_queue(self) -> None:
        assert contradictions(self.engine.in_flight, self.cluster, self.engine.queue) == []

    @invariant()
    def a_gang_bound_in_part_is_worked_on(self) -> None:
        in_flight, due_s = self.engine.in_flight, self.engine.wake_at_s()
        for entry in self.engine.queue.gangs():
            gang = entry.unit
            assert isinstance(gang, Gang)
            if gang.is_partial and entry.pool is Pool.NONE:
                assert gang.key in (*in_flight.gangs, *in_flight.releasing.values())
            elif gang.is_partial:
                assert due_s is not None

    @invariant()
    def no_room_is_held_for_what_is_gone(self) -> None:
        assert held_in_vain(self.engine) == []

    @invariant()
    def members_are_counted_as_the_ledger_has_them(self) -> None:
        for entry in self.engine.queue.gangs():
            gang = entry.unit
            assert isinstance(gang, Gang)
            assert gang.placed.keys() - gang.finished <= self.cluster.holdings.keys()

    @invariant()
    def no_pod_is_lost(self) -> None:
        lost = {uid for uid, pod in self.pods.items() if self.engine.has_lost(pod)}
        assert not lost

    @invariant()
    def what_vanished_is_kept_and_nothing_else(self) -> None:
        kept = self.cluster.releasing.since(self.now)
        assert {one.pod.uid: (one.node, one.grant) for one in kept} == self.vanished

    @invariant()
    def everybody_who_is_somewhere_is_in_the_ledger(self) -> None:
        held = {uid: (h.node, h.grant) for uid, h in self.cluster.holdings.items()}
        assert {uid: pod.node for uid, pod in self.known.items()} | {
            uid: node for uid, (node, _) in self.under_way.items()
        } == {uid: node for uid, (node, _) in held.items()}
        for uid, pod in self.known.items():
            had, now = self.had[uid], held[uid][1]
            if pod.grant and pod.grant.source is GrantSource.TAKEN:
                assert now == pod.grant, "a device plugin is believed"
            elif had and had.source >= GrantSource.BOUND:
                assert now, "what was assigned with the bind stays"
                assert now.uses == had.uses


HIGH_WATER = 0.8


class Overcommitted(Ledger):
    """The same with a profile that overcommits GPUs while they are measured to be quiet."""

    def __init__(self) -> None:
        super().__init__()
        #: When each GPU was last read, and what was seen, by node and where it was.
        self.read: dict[tuple[str, str], tuple[float, float]] = {}

    def profile(self) -> Profile:
        return overcommitted(built_in(SCHEDULER), 1.5, HIGH_WATER)

    def limit_milli(self, node: str, gpu: Gpu) -> int:
        read = [self.read.get((node, name)) for name in (gpu.uuid, str(gpu.index))]
        taken_s, busy = max(filter(None, read), default=(-1000.0, 1.0))
        return 1500 if self.now - taken_s <= FRESH_S and busy < HIGH_WATER else WHOLE

    @rule(node=NODES, busy=st.lists(st.sampled_from([0.0, 0.2, 0.7, 0.9, 1.0]), max_size=GPUS))
    def gpus_are_read(self, node: str, busy: list[float]) -> None:
        found = self.cluster.node_named(node)
        listed = found.inventory.gpus if found and found.inventory else ()
        by_uuid = {gpu.index: gpu.uuid for gpu in listed}
        names = [by_uuid.get(index, str(index)) for index in range(len(busy))]
        taken_s = self.now + 0.5
        gpus = {name: GpuReading(share) for name, share in zip(names, busy, strict=True)}
        self.tell(ReadingsTaken((NodeReadings(node, taken_s, gpus),)))
        self.read |= {
            (node, name): (taken_s, share) for name, share in zip(names, busy, strict=True)
        }

    @rule(
        busy=st.lists(st.sampled_from([0.0, 0.7, 0.9]), min_size=2, max_size=2),
        milli=st.sampled_from([300, 400, 600, 700]),
        pods=st.integers(4, 8),
        wait_s=st.sampled_from([0.0, 61.0]),
    )
    def a_crowd_comes(self, busy: list[float], milli: int, pods: int, wait_s: float) -> None:
        """To the one node that is left, and with little memory, so that compute is short."""
        for name in sorted(self.cluster.row_of):
            self.node_goes(name, comes_back=False)
        found = tuple(Gpu(f"GPU-n1-{slot}", slot, "A100", 16_000) for slot in range(2))
        inventory = Inventory(found, dialects=frozenset(DIALECTS))
        self.tell(NodeSeen(a_node("n1", gpus=GPUS, inventory=inventory)))
        self.gpus_are_read("n1", busy)
        self.time_passes(wait_s)
        for _ in range(pods):
            self.pod_is_created(GpuRequest(1, False, milli, 1000, dialect="fairlead"), 1)
        self.decide(times=2 * pods)

    @rule(seconds=st.sampled_from([20.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.tell(ReadingsTaken())


def image(cluster: Cluster) -> dict[str, object]:
    """Every column as its bytes, and what else the ledger remembers."""
    columns, devices = cluster.columns, cluster.columns.devices
    found: dict[str, object] = {
        f"{type(owner).__name__}.{name}": value.tobytes()
        for owner in (columns, devices)
        for name, value in vars(owner).items()
        if isinstance(value, np.ndarray)
    }
    found["grants"] = {row: dict(held) for row, held in devices._grants.items() if held}
    found["references"] = {row: dict(counts) for row, counts in devices._references.items()}
    found["in doubt"] = set(devices.in_doubt)
    return found


def is_mapped(bind: Bind) -> bool:
    return bind.grant is not None and bind.grant.member is not None


def gpus_by_map(binds: Iterable[Bind]) -> Counter[str]:
    """By node, the GPUs of pods with a map."""
    found: Counter[str] = Counter()
    for bind in filter(is_mapped, binds):
        assert bind.grant is not None
        found[bind.node] += len(bind.grant.uses)
    return found


_SETTINGS = examples(
    80,
    few=8,
    steps=40,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Ledger.TestCase.settings = Overcommitted.TestCase.settings = _SETTINGS
TestLedger = Ledger.TestCase
TestOvercommitted = Overcommitted.TestCase
