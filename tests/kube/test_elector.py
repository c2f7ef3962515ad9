"""The elector among answers that no real API server can be made to give on time."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.reply import Reply
from fairlead.kube.leadership.election import Terms
from fairlead.kube.leadership.elector import Elector, LeadershipLost
from fairlead.kube.leadership.epochs import EpochClient
from fairlead.kube.leadership.fence import Fenced
from fairlead.kube.leadership.lease import LeaseProblem
from scripted import OK, Request, Scripted, status

TERMS = Terms(lease_s=15, renew_s=10, retry_s=2)
Trouble = Callable[[Request], Reply | Exception | None]


class Server:
    """One Lease with its versions, and a clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.fit = True
        #: Who sleeps does not wake up.
        self.is_still = False
        self.taken_at_s: list[float] = []
        self.trouble: Trouble = lambda _: None
        self.epoch: dict[str, Any] | None = None
        self.epoch_version = 0
        self.serves_epochs = True
        self.epoch_trouble: Trouble = lambda _: None
        #: What happens at a time, once it has come.
        self.agenda: list[tuple[float, Callable[[], Any]]] = []
        self.transport = Scripted(self._answer)

    def elector(self, identity: str = "a") -> Elector:
        return Elector(
            self.transport, TERMS, fit=lambda: self.fit, identity=identity,
            clock_s=lambda: self.now_s, now_ns=lambda: int(self.now_s * 1e9), sleep=self._sleep,
        )  # fmt: skip

    def write(self, **spec: Any) -> None:
        old = self.lease["spec"] if self.lease else {}
        self.version += 1
        meta = {"name": "fairlead", "resourceVersion": str(self.version), "labels": {"x": "y"}}
        self.lease = {"metadata": meta, "spec": {**old, **spec}}

    async def _sleep(self, seconds: float) -> None:
        assert seconds >= 0
        if self.is_still:
            await asyncio.Event().wait()
        self.now_s += seconds
        due = [what for when, what in self.agenda if when <= self.now_s]
        self.agenda = [(when, what) for when, what in self.agenda if when > self.now_s]
        for what in due:
            what()
        await asyncio.sleep(0)

    def _epoch(self, request: Request) -> Reply | Exception:
        """The SchedulerEpoch, where that kind is served."""
        trouble = self.epoch_trouble(request)
        if trouble is not None:
            return trouble
        if self.epoch is None and request.method != "POST":
            missing = {"kind": "Status", "details": {"name": "fairlead"}}
            return Reply(404 if self.serves_epochs else 403, json.dumps(missing).encode())
        if request.method != "GET":
            version = self.epoch["metadata"]["resourceVersion"] if self.epoch else None
            if request.body["metadata"].get("resourceVersion") != version:
                return status(409, "changed meanwhile")
            self.write_epoch(request.body["spec"]["epoch"])
        return Reply(200, json.dumps(self.epoch).encode())

    def write_epoch(self, epoch: str) -> None:
        self.epoch_version += 1
        meta = {"name": "fairlead", "resourceVersion": str(self.epoch_version)}
        self.epoch = {"metadata": meta, "spec": {"epoch": epoch}}

    @property
    def present(self) -> str:
        return str(self.epoch["spec"]["epoch"]) if self.epoch else "none"

    def _answer(self, request: Request) -> Reply | Exception:
        if "schedulerepochs" in request.path:
            return self._epoch(request)
        trouble = self.trouble(request)
        if trouble is not None:
            return trouble
        if request.method == "GET":
            return self._shown(200) if self.lease else status(404, "no such lease")
        if request.method == "POST":
            if self.lease:
                return status(409, "already exists")
        elif self.lease is None:
            return status(404, "no such lease")
        elif request.body["metadata"]["resourceVersion"] != str(self.version):
            return status(409, "changed meanwhile")
        self.write(**request.body["spec"])
        self.taken_at_s.append(self.now_s)
        return self._shown(200)

    def _shown(self, code: int) -> Reply:
        return Reply(code, json.dumps(self.lease).encode())


async def runs(elector: Elector) -> str:
    """How it ended."""
    with pytest.raises(LeadershipLost) as lost:
        await asyncio.wait_for(elector.run(), 60)
    assert not elector.leads()
    return str(lost.value)


async def wins(server: Server, elector: Elector, then: Callable[[], Any]) -> str:
    """Runs it; `then` happens five seconds after it was elected. Returns how it ended."""

    async def watch() -> None:
        await elector.elected.wait()
        server.agenda.append((server.now_s + 5, then))

    watching = asyncio.create_task(watch())
    try:
        return await runs(elector)
    finally:
        watching.cancel()


async def test_it_waits_until_a_silent_leader_has_run_out() -> None:
    server = Server()
    server.write(holderIdentity="b", leaseDurationSeconds=15, leaseTransitions=4)
    began_s, elector = server.now_s, server.elector()
    running = asyncio.create_task(elector.run())
    await asyncio.wait_for(elector.elected.wait(), 60)
    running.cancel()
    assert server.taken_at_s[0] == began_s + 15, "at once, and not at the next look"
    assert elector.epoch == "5/a"
    assert server.lease is not None
    assert server.lease["metadata"]["labels"] == {"x": "y"}, "what others wrote there stays"


async def test_a_lease_that_its_leader_gives_back_is_taken_at_the_next_look() -> None:
    server = Server()
    server.write(holderIdentity="b", leaseDurationSeconds=15)
    server.agenda = [(1003.0, lambda: server.write(holderIdentity=""))]
    elector = server.elector()
    running = asyncio.create_task(elector.run())
    await asyncio.wait_for(elector.elected.wait(), 60)
    running.cancel()
    assert server.taken_at_s[0] <= 1003 + TERMS.retry_s, "and not when it would have run out"


async def test_a_candidate_that_is_not_fit_does_not_even_ask() -> None:
    server = Server()
    server.fit = False
    running = asyncio.create_task(server.elector().run())
    await asyncio.sleep(0.01)
    running.cancel()
    assert server.transport.requests == []


async def test_a_leader_whose_worker_died_stops_renewing() -> None:
    server = Server()
    elector = server.elector()
    end = await wins(server, elector, lambda: setattr(server, "fit", False))
    assert "no renewal within 10 s: the scheduling loop has stopped" in end


async def test_renewals_that_get_no_answer_end_it_in_time() -> None:
    server = Server()

    def cut() -> None:
        cut_at_s.append(server.now_s)
        server.trouble = lambda _: Unreachable("no route")

    cut_at_s: list[float] = []
    assert "no renewal within 10 s: no route" in await wins(server, server.elector(), cut)
    assert server.now_s - cut_at_s[0] <= TERMS.renew_s


async def test_a_process_that_stood_still_for_too_long_writes_nothing_more() -> None:
    server = Server()
    elector = server.elector()
    fenced = Fenced(server.transport, elector.leads)

    def freeze() -> None:
        server.now_s += 60
        server.transport.requests.clear()

    assert "this process was paused" in await wins(server, elector, freeze)
    assert server.transport.requests == [], "not even a renewal"
    with pytest.raises(Unreachable, match="not sent"):
        await fenced.request("POST", "/binding", body=b"{}")
    server.transport.answer = lambda _: OK
    assert (await fenced.request("GET", "/pod")).status == 201


async def test_a_lost_reply_is_settled_by_looking() -> None:
    """The renewal has arrived, so the version that we know is old."""
    server = Server()
    lost: list[Request] = []

    def lose_one(request: Request) -> Exception | None:
        if request.method != "PUT" or lost:
            return None
        lost.append(request)
        server.write(**request.body["spec"])
        return ReplyLost("gone")

    def begin() -> None:
        server.trouble = lose_one
        server.agenda.append((server.now_s + 30, lambda: server.write(holderIdentity="b")))

    assert "b holds it now" in await wins(server, server.elector(), begin)
    assert len(lost) == 1


async def test_a_refusal_says_what_to_grant() -> None:
    server = Server()

    def forbid() -> None:
        server.trouble = lambda _: status(403, "leases is forbidden")

    said = await wins(server, server.elector(), forbid)
    assert "kube-system/fairlead: 403 leases is forbidden; grant this user" in said


async def test_release_gives_way_only_to_what_is_ours() -> None:
    server = Server()
    elector = server.elector()
    running = asyncio.create_task(elector.run())
    await asyncio.wait_for(elector.elected.wait(), 60)
    running.cancel()
    server.write(holderIdentity="b")
    await elector.release()
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == "b"


async def test_who_has_given_the_lease_back_leads_no_more() -> None:
    server = Server()
    elector = await elected(server)
    assert elector.leads()
    await elector.release()
    assert not elector.leads()
    assert elector.holder == ""


async def test_the_time_of_a_slow_renewal_counts_from_its_beginning() -> None:
    server = Server()
    elector = server.elector()

    def slow(request: Request) -> None:
        if request.method != "GET":
            server.now_s += 4

    server.trouble, server.is_still = slow, True
    running = asyncio.create_task(elector.run())
    await asyncio.wait_for(elector.elected.wait(), 60)
    running.cancel()
    server.now_s += 5.9
    assert elector.leads()
    server.now_s += 0.2
    assert not elector.leads()


# -- the epoch that the policy knows -----------------------------------------------------------


async def elected(server: Server, identity: str = "a") -> Elector:
    elector = server.elector(identity)
    server.is_still = True
    running = asyncio.create_task(elector.run())
    await asyncio.wait_for(elector.elected.wait(), 60)
    running.cancel()
    return elector


async def test_the_epoch_stands_before_it_is_elected_and_goes_with_it() -> None:
    server = Server()
    elector = await elected(server)
    assert server.present == elector.epoch == "0/a"

    await elector.release()
    assert server.present == ""


async def test_who_cannot_write_the_epoch_is_not_elected_before_it_can() -> None:
    server, tries = Server(), 0

    def away(_: Request) -> Reply | None:
        nonlocal tries
        tries += 1
        return status(500, "no") if tries < 4 else None

    server.epoch_trouble = away
    elector = server.elector()
    running = asyncio.create_task(elector.run())
    await asyncio.wait_for(elector.elected.wait(), 60)
    running.cancel()
    assert (server.present, tries) == ("0/a", 5)


async def test_where_there_are_no_epochs_it_leads_without_one() -> None:
    server = Server()
    server.serves_epochs = False
    assert (await elected(server)).leads()
    assert server.present == "none"


async def test_a_kind_that_is_served_late_is_written_within_seconds() -> None:
    """As when kind, policy and scheduler are installed together: it waited for 30 s."""
    server = Server()
    server.serves_epochs = False
    elector = server.elector()

    def check() -> None:
        assert server.present == "0/a"
        server.write(holderIdentity="b")

    server.agenda = [(1005.0, lambda: setattr(server, "serves_epochs", True)), (1014.0, check)]
    await runs(elector)


async def test_a_kind_that_is_not_served_is_asked_for_ever_less_often() -> None:
    server = Server()
    server.serves_epochs = False
    server.agenda = [(1300.0, lambda: server.write(holderIdentity="b"))]
    await runs(server.elector())
    asked = [each for each in server.transport.requests if "schedulerepochs" in each.path]
    assert 5 < len(asked) < 25


async def test_the_turns_between_two_questions_double_up_to_fifteen() -> None:
    server, asked_in = Server(), list[int]()
    server.serves_epochs = False
    epochs = EpochClient(server.transport, TERMS, lambda: True)
    for turn in range(60):
        before = len(server.transport.requests)
        await epochs.keep("0/a")
        asked_in += [turn] * (len(server.transport.requests) - before)
    assert asked_in == [0, 2, 5, 10, 19, 35, 51]


async def test_a_deleted_or_changed_epoch_is_written_again() -> None:
    server = Server()
    elector = server.elector()

    def check() -> None:
        assert server.present == "0/a"
        server.write(holderIdentity="b")

    server.agenda = [
        (1003.0, lambda: setattr(server, "epoch", None)),
        (1006.0, lambda: server.write_epoch("9/z")),
        (1020.0, check),
    ]
    await runs(elector)


async def test_an_epoch_that_is_written_late_changes_nothing() -> None:
    """It was read while we led; then we slept, and another took over."""
    server = Server()
    server.write_epoch("")

    def sleeps(request: Request) -> None:
        if request.method != "GET":
            server.write_epoch("1/b")

    server.epoch_trouble = sleeps
    with pytest.raises(LeaseProblem, match="changed meanwhile"):
        await EpochClient(server.transport, TERMS, lambda: True).keep("0/a")
    assert server.present == "1/b"


async def test_who_slept_before_reading_writes_no_epoch() -> None:
    server = Server()
    server.write_epoch("1/b")
    await EpochClient(server.transport, TERMS, lambda: False).keep("0/a")
    assert server.present == "1/b"
