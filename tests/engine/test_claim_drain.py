"""Thousands of claims, as fast as devices become free, while watches are late and out of order.

The server of the test knows who holds what at every revision: no device is ever held by two claims.
"""

from collections import deque
from dataclasses import replace
from random import Random

from builders import a_node, an_engine, see
from claim_objects import GPU_CLASS, a_claim, a_claim_user, a_claiming_pod, a_slice
from examples import so_many
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind, Instruction, Prepare
from fairlead.model.claims import DeviceId, ResourceClaim
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep

CLAIMS = so_many(10_000, few=500)
NODES, GPUS = 12, 8
#: Pods that wait at a time.
BACKLOG = 40


class Drain:
    """An API server, its controller, and a watch of claims that tells each change later."""

    def __init__(self, engine: Engine, rng: Random) -> None:
        self.engine, self.rng, self.now = engine, rng, 0.0
        self._version = 100
        self._claims: dict[str, ResourceClaim] = {}
        self._holder: dict[DeviceId, str] = {}
        #: What the watch has still to tell, by claim; a claim that is gone comes as it was last.
        self._late: dict[str, deque[events.Event]] = {}
        self._pods: dict[str, Pod] = {}
        self.waiting: set[str] = set()
        self._running: list[str] = []
        self.created = self.bound = 0

    # -- what happens on the server ------------------------------------------------------------

    def create(self) -> None:
        name = f"c{self.created}"
        self.created += 1
        claim = a_claim(name, version=self._next())
        self._claims[name] = claim
        self._tell(name, events.ClaimObjectSeen(claim))
        pod = self._pods[name] = a_claiming_pod(f"p-{name}", name)
        self.waiting.add(name)
        see(self.engine, pod, now=self.now)

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _tell(self, name: str, event: events.Event) -> None:
        self._late.setdefault(name, deque()).append(event)

    def _put(self, claim: ResourceClaim) -> ResourceClaim:
        """Stores the claim; here a device would be seen to be held twice."""
        before, claim = self._claims[claim.name], replace(claim, version=self._next())
        for device in before.allocation.devices if before.allocation else ():
            del self._holder[device.key]
        for device in claim.allocation.devices if claim.allocation else ():
            assert self._holder.setdefault(device.key, claim.name) == claim.name
        self._claims[claim.name] = claim
        self._tell(claim.name, events.ClaimObjectSeen(claim))
        return claim

    def end_one(self) -> None:
        """A pod ends: the controller frees its claim and deletes it."""
        name = self._running.pop(self.rng.randrange(len(self._running)))
        self.engine.handle(events.PodGone(self._pods.pop(name)), now=self.now)
        freed = self._put(replace(self._claims[name], allocation=None, reserved_for=()))
        if self.rng.random() < 0.5:
            del self._claims[name]
            self._tell(name, events.ClaimObjectGone(freed))

    def tell_some(self) -> None:
        """Claims in any order, each with its own changes in theirs."""
        for name in self.rng.sample([*self._late], min(len(self._late), self.rng.randrange(60))):
            for _ in range(self.rng.choice((1, 1, 3))):
                if self._late[name]:
                    self.perform(self.engine.handle(self._late[name].popleft(), now=self.now))
            if not self._late[name]:
                del self._late[name]

    # -- what the scheduler asks for -----------------------------------------------------------

    def decide(self) -> None:
        self.now += 1.0
        for _ in range(10):
            attempt = self.engine.decide(now=self.now)
            if attempt is None:
                return
            self.perform(attempt.instructions)

    def perform(self, made: "list[Instruction] | tuple[Instruction, ...]") -> None:
        for each in made:
            match each:
                case Prepare(pod=pod, steps=(ClaimStep() as step,)):
                    self._prepare(pod, step)
                case Bind(pod=pod, node=node):
                    self._bind(pod, node)

    def _prepare(self, pod: Pod, step: ClaimStep) -> None:
        (write,) = step.writes
        claim = self._claims[write.claim.name]
        allocation = claim.allocation or write.allocation
        reserved = replace(claim, allocation=allocation, reserved_for=(a_claim_user(pod),))
        answer = self._put(reserved)
        fails = self.rng.random() < 0.1
        if fails:  # it is taken back before the failure is reported
            answer = self._put(replace(answer, allocation=None, reserved_for=()))
        self.perform(self.engine.handle(events.ClaimObjectSeen(answer), now=self.now))
        outcome = events.PrepareFailed(pod.uid, "no") if fails else events.Prepared(pod.uid)
        self.perform(self.engine.handle(outcome, now=self.now))

    def _bind(self, pod: Pod, node: str) -> None:
        name = pod.request.claims[0].entry
        self.engine.handle(events.BindDone(pod.uid), now=self.now)
        self._pods[name] = replace(pod, node=node)
        see(self.engine, self._pods[name], now=self.now)
        self.waiting.remove(name)
        self._running.append(name)
        self.bound += 1

    def end_some(self) -> None:
        for _ in range(min(len(self._running), self.rng.randrange(BACKLOG))):
            self.end_one()


def test_7_devices_change_hands_ten_thousand_times_and_never_have_two_holders() -> None:
    names = [f"n{number}" for number in range(NODES)]
    engine = an_engine(*(a_node(name, gpus=0) for name in names))
    for seen in (GPU_CLASS, *(a_slice(name, *(f"gpu-{n}" for n in range(GPUS))) for name in names)):
        engine.handle(events.ClaimObjectSeen(seen), now=0.0)
    drain = Drain(engine, Random(7))
    while drain.bound < CLAIMS:
        while drain.created < CLAIMS and len(drain.waiting) < BACKLOG:
            drain.create()
        drain.tell_some()
        drain.decide()
        drain.end_some()
    assert drain.bound == CLAIMS, "each is bound once"
