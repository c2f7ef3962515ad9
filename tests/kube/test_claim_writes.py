"""Writes to claims where the API server answers as no real one can be made to on time."""

import asyncio
import json
from typing import Any

from fairlead.apps.run.carrying_out import CarryingOut, Writers
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.engine.instructions import FreeClaim
from fairlead.kube.claims.claims import FINALIZER, decode_claim
from fairlead.kube.http.reply import Reply
from fairlead.kube.writes.claim_writer import ClaimWriter
from fairlead.kube.writes.device_readiness import DeviceReadiness
from fairlead.kube.writes.special_claims import SpecialClaims
from fairlead.model.claims import ResourceClaim
from fairlead.plugins.claim_step import ClaimStep
from scripted import Answer, Scripted, a_pod, in_turn, status, until


def claim_json(version: str, *users: str) -> bytes:
    """An allocated claim that these pods use."""
    meta = {"name": "c", "namespace": "ns", "uid": "uid-c", "resourceVersion": version}
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    reserved = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in users]
    given = {"allocation": {"devices": {"results": [device]}}, "reservedFor": reserved}
    body = {"metadata": {**meta, "finalizers": [FINALIZER]}, "spec": {}, "status": given}
    return json.dumps(body).encode()


FREE = json.dumps({**json.loads(claim_json("2")), "status": {}}).encode()
CLAIM = decode_claim(claim_json("1", "other"))
RESERVED = Reply(200, claim_json("2", "other", "p"))
STEP = ClaimStep((ClaimWrite(CLAIM, None),))


class Bench:
    """A writer of claims, and what it has seen."""

    def __init__(self, answer: Answer) -> None:
        self.transport = Scripted(answer)
        self.seen: list[ResourceClaim] = []
        readiness = DeviceReadiness(lambda _: None, lambda _: None)
        special = SpecialClaims(self.transport, lambda _: None)
        self.writer = ClaimWriter(self.transport, self.seen.append, lambda: 0.0, readiness, special)

    @property
    def users(self) -> list[str]:
        return [user.name for user in self.seen[-1].reserved_for]


async def test_claims_that_were_taken_back_can_be_reserved_again() -> None:
    taken_back = Reply(200, claim_json("3", "other"))
    again = Reply(200, claim_json("4", "other", "p"))
    bench = Bench(in_turn(RESERVED, taken_back, then=again))
    await bench.writer.carry_out(a_pod(), "n1", STEP)
    bench.writer.release("uid-p")
    await until(lambda: bench.users == ["other"])
    await bench.writer.carry_out(a_pod(), "n1", STEP)
    assert bench.users == ["other", "p"]


async def test_a_write_whose_answer_cannot_be_read_may_have_been_carried_out() -> None:
    """So the refusal of the next try is not the end."""
    bench = Bench(in_turn(Reply(200, b"{"), status(403, "no"), then=RESERVED))
    await bench.writer.carry_out(a_pod(), "n1", STEP)
    assert bench.users == ["other", "p"]


async def test_who_waits_for_a_claim_looks_once_at_each_change() -> None:
    shown, looks = dict[str, ResourceClaim](), list[int]()
    special = SpecialClaims(Scripted(), shown.get)

    def check() -> None:
        looks.append(len(looks))
        assert len(looks) < 9, "nothing has changed"

    waiting = asyncio.create_task(special.await_shown(CLAIM, check))
    await asyncio.sleep(0)
    special.look(CLAIM.key)
    await asyncio.sleep(0)
    shown[CLAIM.key] = CLAIM
    special.look(CLAIM.key)
    await waiting
    assert looks == [0, 1]


async def test_a_claim_that_the_engine_frees_is_free() -> None:
    bench = Bench(lambda _: Reply(200, FREE))
    none: Any = None
    writers = Writers(none, none, none, none, bench.writer, none, none, none, None, None)
    carrying_out = CarryingOut(writers, none, none, expects_variables=False, perform=print)
    carrying_out.carry_out(FreeClaim(a_pod("other"), CLAIM))
    await until(lambda: bench.seen, within_s=10)
    (request,) = bench.transport.requests
    assert request.body[-1] == {"op": "add", "path": "/status", "value": {}}
