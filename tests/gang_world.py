"""An API server with gangs, for the engine alone: its pods, binds, evictions and controllers."""

from collections.abc import Sequence
from dataclasses import replace

from builders import a_pod
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    BindFailed,
    BindProblem,
    Event,
    EvictionEnded,
    PodGone,
    PodSeen,
)
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict, Instruction
from fairlead.model.counted import CountedAsk, read_charges
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.queue.entries import Pool
from fairlead.queue.units import Gang


def a_gang(name: str, count: int, minimum: int | None = None, **more: object) -> list[Pod]:
    """Equal pods that say which gang they are of; `more` as for `a_pod`."""
    key = f"fairlead/default/{name}"
    spec = GangSpec(key, minimum or count, priority=int(str(more.get("priority", 0))))
    return [
        a_pod(
            f"{name}-{rank}",
            uid=f"{name}-{rank}",
            gang=Membership(key, rank=rank, spec=spec),
            **{"gpus": 1, **more},
        )
        for rank in range(count)
    ]


def charged(bind: Bind) -> CountedAsk | None:
    """What is read of the annotation that is written with the bind."""
    return CountedAsk(charged=read_charges(bind.counted)) if bind.counted else None


class GangWorld:
    """Carries out what the engine asks for, when the test says so."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = 0.0
        self.pods: dict[str, Pod] = {}
        self.binds: dict[str, Bind] = {}
        self.evictions: list[Evict] = []
        self.failures: dict[str, AnnounceFailure] = {}
        self._generation = 0

    def create(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods[pod.uid] = pod
            self.tell(PodSeen(pod))

    def tell(self, event: Event) -> None:
        self._carry_out(self.engine.handle(event, now=self.now))

    def decide(self) -> bool:
        """One attempt; whether there was one."""
        self._carry_out(self.engine.tend(now=self.now))
        attempt = self.engine.decide(now=self.now)
        if attempt is None:
            return False
        self._carry_out(attempt.instructions)
        return True

    def decide_all(self) -> None:
        for _ in range(100):
            if not self.decide():
                return
        raise AssertionError("it does not come to an end")

    def _carry_out(self, made: Sequence[Instruction]) -> None:
        for each in made:
            if isinstance(each, Bind):
                assert each.pod.uid not in self.binds
                self.binds[each.pod.uid] = each
            elif isinstance(each, Evict):
                self.evictions.append(each)
            elif isinstance(each, AnnounceFailure):
                self.failures[each.pod.uid] = each

    def answer(self, uid: str, *, well: bool = True) -> None:
        """A bind succeeds and is seen, or is denied."""
        bind = self.binds.pop(uid)
        pod = self.pods.get(uid)
        if pod is None:
            self.tell(BindFailed(uid, BindProblem.GONE, "gone"))
        elif well:
            self.pods[uid] = replace(pod, node=bind.node, grant=bind.grant, counted=charged(bind))
            self.tell(BindDone(uid))
            self.tell(PodSeen(self.pods[uid]))
        else:
            self.tell(BindFailed(uid, BindProblem.DENIED, "no"))

    def answer_all(self) -> None:
        for uid in list(self.binds):
            self.answer(uid)

    def evict_all(self, *, well: bool = True) -> None:
        """Victims go, and their controllers create others in their place."""
        for evict in self.evictions[:]:
            self.evictions.remove(evict)
            for victim in evict.victims if well else ():
                self.replace(victim.uid)
            self.tell(EvictionEnded(evict.pod.uid, "" if well else "no"))

    def replace(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.tell(PodGone(pod))
            self._generation += 1
            self.create(replace(pod, uid=f"{pod.name}.{self._generation}", node="", grant=None))

    def end(self, *names: str) -> None:
        for pod in [pod for pod in self.pods.values() if pod.name in names]:
            del self.pods[pod.uid]
            self.tell(PodGone(pod))

    def restart(self, engine: Engine) -> None:
        """Another process takes over: it knows what the API server shows, and nothing else."""
        self.engine = engine
        for uid, bind in list(self.binds.items()):
            del self.binds[uid]  # not sent, or carried out without a reply
            if uid in self.pods and len(uid) % 2:
                counted = charged(bind)
                bound = replace(self.pods[uid], node=bind.node, grant=bind.grant, counted=counted)
                self.pods[uid] = bound
        self.evictions.clear()
        for pod in self.pods.values():
            self.tell(PodSeen(pod))

    def settle(self, rounds: int = 12) -> None:
        """Everything goes well from now on, for half an hour."""
        for _ in range(rounds):
            self.now += 150.0
            self.decide_all()
            self.answer_all()
            self.evict_all()
            self.decide_all()
            self.answer_all()
            self.check()

    # -- what must hold ----------------------------------------------------------------------

    def bound(self, name: str) -> int:
        """How many pods of the gang have nodes."""
        key = f"fairlead/default/{name}"
        return sum(bool(p.node) for p in self.pods.values() if p.gang and p.gang.gang == key)

    def check(self) -> None:
        """The books agree, no pod is lost, and a gang bound in part is being worked on."""
        engine = self.engine
        assert contradictions(engine.in_flight, engine.cluster, engine.queue) == []
        assert not [pod.uid for pod in self.pods.values() if engine.has_lost(pod)]
        assert held_in_vain(engine) == []
        for entry in engine.queue.gangs():
            gang = entry.unit
            assert isinstance(gang, Gang)
            if gang.is_partial:
                in_flight = gang.key in engine.in_flight.gangs
                releasing = gang.key in engine.in_flight.releasing.values()
                waits = entry.pool is not Pool.NONE and engine.wake_at_s() is not None
                assert in_flight or releasing or waits, gang.key


def held_in_vain(engine: Engine) -> list[str]:
    """Units that are gone, or have nodes, and for which room is still held."""
    queue, found = engine.queue, list[str]()
    for hold in engine.held_room:
        entry = queue.gang(hold.key) or queue.get(hold.key)
        known = {pod.uid for pod in entry.unit.pods} if entry else set()
        if entry is None or hold.key in engine.in_flight.gangs or hold.until_s <= 0.0:
            found.append(hold.key)
        for uid in known & hold.nodes.keys() & engine.cluster.holdings.keys():
            found.append(f"{hold.key}: {uid}")
    return found
