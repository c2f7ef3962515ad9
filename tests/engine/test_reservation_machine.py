"""Whatever happens to reservations, no GPU is sold twice, and none stays reserved without shares.

The machine plays the API server, the kubelets and a device plugin that picks GPUs. It finds the
engine wrong if a kubelet would have to reject a pod that was placed, or if a GPU is given to two.
`LEDGER_EXAMPLES=2000` looks longer.
"""

from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from builders import SCHEDULER, a_node, a_pod, decide_once
from examples import examples
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.checking import misplaced, wrong_nodes
from fairlead.cluster.reserving import sharing
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    BindFailed,
    BindProblem,
    Event,
    EvictionEnded,
    NodeSeen,
    PodGone,
    PodSeen,
    Prepared,
    PrepareFailed,
    ReservationIdle,
    ReservationsPaused,
)
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import Bind, Evict, Prepare, Unreserve
from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.reservations import PRIORITY, Reservation, held_by_reservation
from fairlead.testing.builders import gpu_share

NODES = {"n1": 3, "n2": 2}
PICKS = st.integers(0, 7)
SELDOM = st.sampled_from([False, False, False, True])


@dataclass
class Plugin:
    """The GPUs of one node, by who has them; a pod that asks for more than are free is rejected."""

    gpus: dict[str, str] = field(default_factory=dict)

    def allocate(self, uid: str, count: int, pick: int) -> list[str]:
        free = sorted(uuid for uuid, owner in self.gpus.items() if not owner)
        assert len(free) >= count, f"{uid} would be rejected: {count} of {self.gpus}"
        free = free[pick % len(free) :] + free[: pick % len(free)] if free else []
        for uuid in free[:count]:
            self.gpus[uuid] = uid
        return free[:count]

    def release(self, uid: str) -> None:
        for uuid, owner in self.gpus.items():
            if owner == uid:
                self.gpus[uuid] = ""


def a_reservation(node: str, number: int, serial: int) -> Pod:
    made = a_pod(f"reserved-{node}-{number}", gpus=1, node=node, uid=f"r-{node}-{number}-{serial}")
    return replace(
        made,
        priority=PRIORITY,
        scheduler="",
        grant=held_by_reservation(number),
        reservation=Reservation(number),
    )


class Reserving(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.plugins = {
            node: Plugin({f"GPU-{node}-{n}": "" for n in range(gpus)})
            for node, gpus in NODES.items()
        }
        self.now = 0.0
        self.serial = 0
        #: Pods as the API server has them, by uid; reservation pods by node and number.
        self.pods: dict[str, Pod] = {}
        self.reserved: dict[tuple[str, int], Pod] = {}
        self.deleting: dict[str, Pod] = {}
        self.prepares: dict[str, Prepare] = {}
        self.binds: dict[str, Bind] = {}
        self.start()

    def start(self) -> None:
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)}, reserves=True)
        for node, gpus in NODES.items():
            self.tell(NodeSeen(a_node(node, gpus, reservable=gpus)))
        for pod in (*self.reserved.values(), *self.pods.values()):
            self.tell(PodSeen(pod))

    # -- what the driver does ----------------------------------------------------------------

    def tell(self, event: Event) -> None:
        self.now += 0.5
        self.carry_out(self.engine.handle(event, now=self.now))

    def carry_out(self, made) -> None:
        for each in made:
            if isinstance(each, Prepare):
                self.prepares[each.pod.uid] = each
            elif isinstance(each, Bind):
                self.binds[each.pod.uid] = each
            elif isinstance(each, Unreserve):
                self.deleting[each.pod.uid] = each.pod
            elif isinstance(each, Evict):
                for victim in each.victims:
                    self.delete(victim.uid)
                self.tell(EvictionEnded(each.pod.uid))

    def create(self, node: str, number: int, pick: int) -> None:
        """The reservation pod is created, and its kubelet has called the device plugin."""
        if (node, number) not in self.reserved:
            self.serial += 1
            pod = a_reservation(node, number, self.serial)
            self.plugins[node].allocate(pod.uid, 1, pick)
            self.reserved[node, number] = pod
            self.tell(PodSeen(pod))

    def drop_reservation(self, pod: Pod) -> None:
        assert pod.reservation is not None
        found = self.reserved.get((pod.node, pod.reservation.number))
        if found is not None and found.uid == pod.uid:
            del self.reserved[pod.node, pod.reservation.number]
            self.plugins[pod.node].release(pod.uid)
            self.tell(PodGone(found))
            self.fail_those_who_wait(pod.node, pod.reservation.number)

    def fail_those_who_wait(self, node: str, number: int) -> None:
        for uid, work in list(self.prepares.items()):
            if work.node == node and number in work.steps[0].numbers:
                del self.prepares[uid]
                self.tell(PrepareFailed(uid, "the reservation pod is gone"))

    def shares_of(self, reservation: Pod) -> list[Pod]:
        """Bound pods with shares of its GPU, whatever the engine knows."""
        gpus = self.plugins[reservation.node].gpus
        owned = {uuid for uuid, owner in gpus.items() if owner == reservation.uid}
        return [
            pod
            for pod in self.pods.values()
            if pod.node == reservation.node
            and pod.grant
            and not pod.grant.uses[0].whole
            and owned & {use.uuid for use in pod.grant.uses}
        ]

    def delete(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        if pod.node:
            self.plugins[pod.node].release(uid)
        self.prepares.pop(uid, None)
        self.tell(PodGone(pod))
        if uid in self.binds:
            del self.binds[uid]
            self.tell(BindFailed(uid, BindProblem.GONE, "gone"))

    # -- what may happen ---------------------------------------------------------------------

    @rule(milli=st.sampled_from([300, 500, 700, 1000]), gpus=st.sampled_from([1, 1, 2]),
          priority=st.sampled_from([0, 0, 5]))  # fmt: skip
    def a_share_comes(self, milli: int, gpus: int, priority: int) -> None:
        ask = replace(gpu_share(milli), gpus=gpus)
        self.come(a_pod(f"share-{self.serial}", gpu_request=ask, priority=priority))

    @rule(gpus=st.sampled_from([1, 1, 2, 3]), priority=st.sampled_from([0, 0, 10]))
    def a_whole_comes(self, gpus: int, priority: int) -> None:
        ask = GpuRequest(gpus)
        self.come(a_pod(f"whole-{self.serial}", gpus=gpus, gpu_request=ask, priority=priority))

    def come(self, pod: Pod) -> None:
        self.serial += 1
        self.pods[pod.uid] = pod
        self.tell(PodSeen(pod))
        self.decide(2)

    @rule(times=st.integers(1, 4))
    def pods_are_decided(self, times: int) -> None:
        self.decide(times)

    def decide(self, times: int) -> None:
        for _ in range(times):
            self.now += 60.0
            self.carry_out(decide_once(self.engine, now=self.now))

    @precondition(lambda self: self.prepares)
    @rule(pick=PICKS, gpu=PICKS, reports=st.booleans())
    def a_reservation_is_created(self, pick: int, gpu: int, reports: bool) -> None:
        work = list(self.prepares.values())[pick % len(self.prepares)]
        for number in work.steps[0].numbers:
            self.create(work.node, number, gpu)
        for number in work.steps[0].numbers if reports else ():
            self.report(work.node, number)

    @precondition(lambda self: self.reserved)
    @rule(pick=PICKS)
    def a_reservation_reports(self, pick: int) -> None:
        self.report(*sorted(self.reserved)[pick % len(self.reserved)])

    def report(self, node: str, number: int) -> None:
        pod = self.reserved[node, number]
        (uuid,) = (u for u, owner in self.plugins[node].gpus.items() if owner == pod.uid)
        pod = replace(pod, reservation=Reservation(number, uuid))
        self.reserved[node, number] = pod
        self.tell(PodSeen(pod))
        for uid, work in list(self.prepares.items()):
            pods = [self.reserved.get((work.node, n)) for n in work.steps[0].numbers]
            if all(one and one.reservation.uuid for one in pods):
                del self.prepares[uid]
                self.tell(Prepared(uid))

    @precondition(lambda self: self.prepares)
    @rule(pick=PICKS, happens=SELDOM)
    def a_reservation_fails(self, pick: int, happens: bool) -> None:
        """Rejected, or it has not reported in time."""
        if not happens:
            return
        work = list(self.prepares.values())[pick % len(self.prepares)]
        del self.prepares[work.pod.uid]
        self.tell(ReservationsPaused(work.node, "it failed"))
        self.tell(PrepareFailed(work.pod.uid, "it failed"))

    @rule(node=st.sampled_from(sorted(NODES)))
    def a_pause_ends(self, node: str) -> None:
        self.tell(ReservationsPaused(node))

    @precondition(lambda self: self.binds)
    @rule(gpu=PICKS, fails=st.sampled_from([9, 9, 9, 0, 1]))
    def binds_end(self, gpu: int, fails: int) -> None:
        for place, uid in enumerate(list(self.binds)):
            if uid in self.binds:
                self.end_bind(uid, gpu, done=place != fails)

    def end_bind(self, uid: str, gpu: int, *, done: bool) -> None:
        bind = self.binds.pop(uid)
        if not done:
            self.tell(BindFailed(uid, BindProblem.UNAVAILABLE, "not now"))
            return
        ask = bind.pod.request.gpu_request
        if ask.whole:
            self.plugins[bind.node].allocate(uid, ask.gpus, gpu)
        bound = replace(self.pods[uid], node=bind.node, grant=bind.grant)
        self.pods[uid] = bound
        self.tell(BindDone(uid))
        self.tell(PodSeen(bound))

    @precondition(lambda self: self.pods)
    @rule(pick=PICKS)
    def a_pod_goes(self, pick: int) -> None:
        self.delete(sorted(self.pods)[pick % len(self.pods)])

    @precondition(lambda self: self.reserved and not self.binds)
    @rule(pick=PICKS, happens=SELDOM)
    def a_reservation_is_deleted_by_hand(self, pick: int, happens: bool) -> None:
        if happens:
            places = sorted(self.reserved)
            shared = [place for place in places if self.shares_of(self.reserved[place])]
            self.drop_reservation(self.reserved[(shared or places)[pick % len(shared or places)]])

    @rule()
    def idle_reservations_are_looked_for(self) -> None:
        cluster = self.engine.cluster
        for node, found in list(cluster.reservations):
            if found.pod is not None and not found.waiting and not sharing(cluster, node, found):
                self.tell(ReservationIdle(node, found.number))

    @precondition(lambda self: self.deleting)
    @rule()
    def reservations_are_deleted(self) -> None:
        for uid, pod in list(self.deleting.items()):
            assert not self.shares_of(pod), "a reservation with shares is deleted"
            del self.deleting[uid]
            self.drop_reservation(pod)

    @precondition(lambda self: not (self.binds or self.deleting))
    @rule(happens=SELDOM)
    def the_scheduler_starts_again(self, happens: bool) -> None:
        if happens:
            self.prepares.clear()
            self.start()

    @rule(happens=SELDOM)
    def the_engine_starts_over(self, happens: bool) -> None:
        if not happens:
            return
        self.engine.forget()
        for node, gpus in NODES.items():
            self.tell(NodeSeen(a_node(node, gpus, reservable=gpus)))
        for pod in (*self.reserved.values(), *self.pods.values()):
            self.tell(PodSeen(pod))

    # -- what must be true -------------------------------------------------------------------

    @invariant()
    def the_books_are_right(self) -> None:
        engine = self.engine
        assert not wrong_nodes(engine.cluster, NODES)
        assert not contradictions(engine.in_flight, engine.cluster, engine.queue)
        bound = {pod.uid: pod for pod in (*self.pods.values(), *self.reserved.values()) if pod.node}
        expected = {uid for uid, held in engine.cluster.holdings.items() if held.assumed}
        assert not [uid for uid, _ in misplaced(engine.cluster, bound) if uid not in expected]

    @invariant()
    def no_gpu_is_sold_twice(self) -> None:
        for node, plugin in self.plugins.items():
            shares: dict[str, int] = {}
            for pod in self.pods.values():
                if pod.node == node and pod.grant and not pod.grant.uses[0].whole:
                    for use in pod.grant.uses:
                        shares[use.uuid] = shares.get(use.uuid, 0) + use.milli
            for uuid, milli in shares.items():
                assert milli <= WHOLE, f"{uuid} is sold {milli / WHOLE} times"
                assert plugin.gpus[uuid] not in self.pods, f"{uuid} is shared, and given away whole"

    def teardown(self) -> None:
        """Without pods nothing is reserved in the end."""
        for uid in list(self.pods):
            self.delete(uid)
        self.prepares.clear()
        self.start()
        self.idle_reservations_are_looked_for()
        self.reservations_are_deleted()
        assert not self.reserved
        cluster = self.engine.cluster
        assert not cluster.holdings
        free = cluster.nodes.free(GPU)
        assert {n: int(free[cluster.row_of[n]]) for n in NODES} == NODES


Reserving.TestCase.settings = examples(60, few=8, steps=50, suppress_health_check=list(HealthCheck))
TestReserving = Reserving.TestCase
