"""Devices under load: claims come and go, and what is shown of them is late and out of order."""

from dataclasses import replace
from itertools import count
from random import Random

import pytest

from builders import a_node, an_engine, decide, see
from claim_objects import GPU_CLASS, a_claim, a_claim_user, a_claiming_pod, a_slice, an_allocation
from fairlead.engine import events
from fairlead.engine.instructions import Bind, Prepare
from fairlead.model.claims import DeviceId, ResourceClaim
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep

CLAIMS = 150


class Server:
    """What the API server has: it checks no device across claims, so this does."""

    def __init__(self, seed: int) -> None:
        self.lots = Random(seed)
        self.engine = an_engine(*(a_node(f"n{at}", gpus=0) for at in range(4)))
        self._versions = count(1)
        self.claims: dict[str, ResourceClaim] = {}
        #: Shown later, in any order.
        self.late: list[events.Event] = []
        self.running: list[Pod] = []
        self.tell(events.ClaimObjectSeen(GPU_CLASS))
        for at in range(4):
            self.tell(events.ClaimObjectSeen(a_slice(f"n{at}", "gpu-0", "gpu-1", "gpu-2")))

    def tell(self, event: events.Event) -> list[object]:
        return list(self.engine.handle(event, now=0.0))

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """Stored; the watch shows it some time."""
        stored = replace(claim, version=str(next(self._versions)))
        self.claims[claim.key] = stored
        taken: list[DeviceId] = [
            device.key
            for each in self.claims.values() if each.allocation
            for device in each.allocation.devices
        ]  # fmt: skip
        assert len(set(taken)) == len(taken), "a device of two claims"
        self.late.append(events.ClaimObjectSeen(stored))
        return stored

    def come(self, name: str) -> None:
        self.tell(events.ClaimObjectSeen(self.put(a_claim(name))))
        see(self.engine, a_claiming_pod(name, name))

    def carry_out(self) -> None:
        """All that was decided is written, and the pods run."""
        for asked in [made for made in decide(self.engine) if isinstance(made, Prepare)]:
            (step,) = asked.steps
            assert isinstance(step, ClaimStep)
            for write in step.writes:
                known, user = self.claims[write.claim.key], (a_claim_user(asked.pod),)
                got = replace(known, allocation=write.allocation, reserved_for=user)
                self.tell(events.ClaimObjectSeen(self.put(got)))  # the reply comes at once
            (bind,) = self.tell(events.Prepared(asked.pod.uid))
            assert isinstance(bind, Bind)
            self.tell(events.BindDone(asked.pod.uid))
            self.running.append(replace(asked.pod, node=bind.node))
            see(self.engine, self.running[-1])

    def end(self) -> None:
        """A pod is gone, and its claim is deallocated."""
        pod = self.running.pop(self.lots.randrange(len(self.running)))
        self.tell(events.PodGone(pod))
        key = f"default/{pod.name}"
        self.put(replace(self.claims[key], allocation=None, reserved_for=()))

    def show_some(self) -> None:
        self.lots.shuffle(self.late)
        for _ in range(self.lots.randint(0, len(self.late))):
            self.tell(self.late.pop())


@pytest.mark.parametrize("seed", range(4))
def test_7_no_device_is_given_twice_while_claims_come_and_go(seed: int) -> None:
    server = Server(seed)
    names = iter(f"c{at}" for at in range(CLAIMS))
    while (name := next(names, None)) is not None or server.running:
        if name is not None:
            server.come(name)
        server.carry_out()
        if server.running and (name is None or server.lots.random() < 0.7):
            server.end()
        server.show_some()
    while server.late:
        server.show_some()
    server.carry_out()
    assert not server.engine.cluster.claims.usage.whole.keys() - {
        device.key
        for each in server.claims.values() if each.allocation
        for device in each.allocation.devices
    }, "nothing is held that no claim has"  # fmt: skip


def test_10_a_claim_that_was_written_holds_its_devices_when_the_next_one_fails() -> None:
    engine = an_engine(a_node("n1", gpus=0))
    first, second = a_claim("first"), a_claim("second")
    for each in (GPU_CLASS, a_slice("n1", "gpu-0", "gpu-1"), first, second, a_claim("other", 2)):
        engine.handle(events.ClaimObjectSeen(each), now=0.0)
    pod, other = a_claiming_pod("p", "first", "second"), a_claiming_pod("other", "other")
    see(engine, pod)
    decide(engine)
    written = replace(first, allocation=an_allocation("n1", "gpu-0"), version="9")
    engine.handle(events.ClaimObjectSeen(written), now=1.0)
    engine.handle(events.PrepareFailed(pod.uid, "no"), now=2.0)

    see(engine, replace(other, priority=5), now=3.0)
    made = [each.pod.name for each in decide(engine, now=3.0) if isinstance(each, Prepare)]
    assert "other" not in made, "one of the two devices is still allocated"
    assert engine.cluster.claims.usage.whole.keys() >= {DeviceId("gpu.nvidia.com", "n1", "gpu-0")}
