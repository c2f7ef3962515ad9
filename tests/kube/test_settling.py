"""The binder's queue, and outcomes that must be certain whatever the server does."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.engine.events import BindDone, BindFailed, BindProblem
from fairlead.engine.instructions import Bind
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.reply import Reply
from fairlead.kube.writes.annotations import problem_with_annotations, problem_with_binding
from fairlead.kube.writes.binder import Binder
from fairlead.kube.writes.settling import Outcome, Patience
from scripted import OK, Request, Scripted, a_pod, as_json, in_turn, status, until

QUICK = Patience(
    first_pause_s=0.001,
    longest_pause_s=0.005,
    in_flight_s=0.05,
    unreachable_s=0.05,
    longest_throttle_s=0.001,
)
ETCD_TROUBLE = status(409, 'Operation cannot be fulfilled on pods/binding "p": etcdserver: timeout')


@contextlib.asynccontextmanager
async def binding(
    transport: Scripted, **options: Any
) -> AsyncIterator[tuple[Binder, list[Outcome]]]:
    reports: list[Outcome] = []
    binder = Binder(transport, reports.append, **{"patience": QUICK, **options})
    running = asyncio.create_task(binder.run())
    yield binder, reports
    await binder.stop(grace_s=0.5)
    await running


async def outcome_of(transport: Scripted, bind: Bind, **options: Any) -> Outcome:
    async with binding(transport, **options) as (binder, reports):
        binder.submit(bind)
        await until(lambda: reports)
    (outcome,) = reports
    return outcome


# What is sent


async def test_the_body_names_the_very_pod_and_the_kind_of_its_target() -> None:
    transport = Scripted()
    await outcome_of(transport, Bind(a_pod(), "n1", {"fairlead.dev/gpus": "0"}))
    (request,) = transport.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert request.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "uid-p",
            "annotations": {"fairlead.dev/gpus": "0"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        ("name", True),
        ("example.com/name", True),
        ("Example.COM/Name_1.x-y", True),
        ("a" * 63, True),
        ("a" * 64, False),
        (f"{'a.' * 126}a/x", True),
        (f"{'a.' * 127}a/x", False),
        ("", False),
        ("/x", False),
        ("example.com/", False),
        ("a/b/c", False),
        ("-x", False),
        ("x-", False),
        ("exa mple.com/x", False),
        ("ex_ample.com/x", False),
        ("naïve", False),
        ("x\n", False),
        ("İ", False),
    ],
)
def test_annotation_keys_are_those_of_kubernetes(key: str, fine: bool) -> None:
    assert (problem_with_annotations({key: ""}) == "") is fine


@pytest.mark.parametrize("value", ["a\0b", "a\rb", "\x1b[31m", "a\u202eb", "a\u200bb", "\ud800"])
def test_values_that_deceive_or_break_are_refused(value: str) -> None:
    assert "cannot be printed" in problem_with_annotations({"k": value})


def test_size_is_counted_in_bytes() -> None:
    assert problem_with_annotations({"k": "ü" * 32767}) == ""
    assert "65537 bytes" in problem_with_annotations({"k": "ü" * 32768})


def test_annotations_that_leave_no_room_for_a_kubelet_are_not_written() -> None:
    """Beyond 256 KiB the API server would refuse every later update of the pod."""
    own = {"note": "x" * (262_144 - 4 - 6)}
    assert problem_with_binding("n1", {"k": "12345"}, own) == ""
    assert "262145 bytes" in problem_with_binding("n1", {"k": "123456"}, own)
    assert problem_with_binding("n1", {}, {"note": "x" * 300_000}) == "", "nothing is added"
    assert problem_with_binding("n1", {"note": "short"}, own) == "", "it is replaced"


@pytest.mark.parametrize("node", ["", "N1", "n_1", ".n", "n" * 254, "n1\n", "ñ"])
def test_node_names_that_cannot_be_are_refused(node: str) -> None:
    assert "not a node name" in problem_with_binding(node, {})


# The queue


async def test_never_more_under_way_than_allowed_and_in_order() -> None:
    transport = Scripted(lambda _: asyncio.sleep(0.001, OK))
    async with binding(transport, max_in_flight=4) as (binder, reports):
        for number in range(20):
            binder.submit(Bind(a_pod(f"p{number}"), "n1"))
        assert binder.free_slots == 0
        assert not transport.requests, "submit must not wait for anything"
        await until(lambda: len(reports) == 20)
        assert binder.free_slots == 4
    assert transport.most_under_way == 4
    assert [r.body["metadata"]["name"] for r in transport.requests] == [f"p{n}" for n in range(20)]


async def test_free_slots_count_what_waits_and_what_is_under_way() -> None:
    gate = asyncio.Event()

    async def wait(_: Request) -> Reply:
        await gate.wait()
        return OK

    async with binding(Scripted(wait), max_in_flight=3) as (binder, reports):
        assert binder.free_slots == 3
        binder.submit(Bind(a_pod("a"), "n1"))
        assert binder.free_slots == 2
        await asyncio.sleep(0.01)
        assert binder.free_slots == 2
        gate.set()
        await until(lambda: reports)
        assert binder.free_slots == 3


async def test_stop_finishes_what_is_under_way_and_sends_no_more() -> None:
    gate = asyncio.Event()

    async def wait(_: Request) -> Reply:
        await gate.wait()
        return OK

    transport = Scripted(wait)
    async with binding(transport, max_in_flight=2) as (binder, reports):
        for name in "abcd":
            binder.submit(Bind(a_pod(name), "n1"))
        await until(lambda: transport.under_way == 2)
        asyncio.get_running_loop().call_later(0.02, gate.set)
        await binder.stop(grace_s=60)
    unsent = "not sent: the scheduler is stopping"
    assert reports == [
        BindFailed("uid-c", BindProblem.UNAVAILABLE, unsent),
        BindFailed("uid-d", BindProblem.UNAVAILABLE, unsent),
        BindDone("uid-a"),
        BindDone("uid-b"),
    ]
    assert binder.free_slots == 2


async def test_bind_after_stop_is_refused_but_not_from_inside_submit() -> None:
    async with binding(Scripted()) as (binder, reports):
        await binder.stop(grace_s=1)
        binder.submit(Bind(a_pod(), "n1"))
        assert not reports
        await until(lambda: reports)
    assert isinstance(reports[0], BindFailed)


async def test_stop_before_the_start_reports_what_was_submitted() -> None:
    reports: list[Outcome] = []
    binder = Binder(Scripted(), reports.append)
    binder.submit(Bind(a_pod(), "n1"))
    await binder.stop(grace_s=1)
    assert len(reports) == 1
    await binder.run()


async def test_broken_worker_breaks_the_run() -> None:
    """A binder that works with half its workers would be slow and nobody would know why."""

    def explode(_: Outcome) -> None:
        raise ZeroDivisionError

    binder = Binder(Scripted(), explode)
    binder.submit(Bind(a_pod(), "n1"))
    with pytest.raises(ZeroDivisionError):
        await binder.run()


# Certainty


async def test_conflict_that_hides_an_error_of_etcd_is_tried_again() -> None:
    """The binding handler says 409 to whatever goes wrong in etcd."""
    posts = in_turn(ETCD_TROUBLE, then=OK)
    transport = Scripted(lambda r: posts(r) if r.method == "POST" else as_json(a_pod()))
    assert await outcome_of(transport, Bind(a_pod(), "n1")) == BindDone("uid-p")


async def test_trouble_that_lasts_is_reported_only_when_nothing_can_come_of_it() -> None:
    transport = Scripted(lambda r: ETCD_TROUBLE if r.method == "POST" else as_json(a_pod()))
    started = asyncio.get_running_loop().time()
    outcome = await outcome_of(transport, Bind(a_pod(), "n1"))
    assert isinstance(outcome, BindFailed)
    assert outcome.problem is BindProblem.UNAVAILABLE
    assert asyncio.get_running_loop().time() - started >= QUICK.in_flight_s
    assert len(transport.sent("POST")) == QUICK.tries


async def test_a_bind_that_is_carried_out_during_the_last_read_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reply to a read takes so long that no earlier try can be under way when it comes."""
    loop, skipped_s = asyncio.get_running_loop(), 0.0
    real_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_s() + skipped_s)
    posts = in_turn(ReplyLost("cut"), then=status(403, "denied"))
    reads = 0

    def answer(request: Request) -> Reply | Exception:
        nonlocal reads, skipped_s
        if request.method == "POST":
            return posts(request)
        reads += 1
        if reads == 2:
            skipped_s = 90.0
        return as_json(a_pod() if reads <= 2 else replace(a_pod(), node="n1"))

    patient = replace(QUICK, in_flight_s=60.0)
    outcome = await outcome_of(Scripted(answer), Bind(a_pod(), "n1"), patience=patient)
    assert outcome == BindDone("uid-p")


async def test_each_lost_reply_is_waited_for_twice_as_long() -> None:
    """Else a webhook slower than our patience would be asked for ever and never heard."""
    lost = ReplyLost("timeout")
    transport = Scripted(lambda r: lost if r.method == "POST" else as_json(a_pod()))
    await outcome_of(transport, Bind(a_pod(), "n1"))
    waited = [request.timeout_s for request in transport.sent("POST")]
    assert waited == [min(4.5 * 2**n, 5.05) for n in range(QUICK.tries)]


async def test_between_two_tries_is_the_pause_that_was_asked_for() -> None:
    sent_s: list[float] = []

    def answer(_: Request) -> Reply:
        sent_s.append(asyncio.get_running_loop().time())
        return status(503) if len(sent_s) == 1 else OK

    patient = replace(QUICK, first_pause_s=0.02, longest_pause_s=1.0)
    await outcome_of(Scripted(answer), Bind(a_pod(), "n1"), patience=patient)
    assert sent_s[1] - sent_s[0] > 0.019


async def test_credentials_that_expire_say_nothing_about_the_pod() -> None:
    outcome = await outcome_of(Scripted(lambda _: status(401, "who?")), Bind(a_pod(), "n1"))
    assert outcome == BindFailed("uid-p", BindProblem.UNAVAILABLE, "who?")


async def test_server_that_comes_back_may_not_know_yet_who_may_bind() -> None:
    """kube-apiserver answers before it has read who has which rights."""
    transport = Scripted(in_turn(Unreachable("none"), status(403, "forbidden"), then=OK))
    patient = replace(QUICK, unreachable_s=60.0)
    outcome = await outcome_of(transport, Bind(a_pod(), "n1"), patience=patient)
    assert outcome == BindDone("uid-p")
    denied = await outcome_of(Scripted(lambda _: status(403, "forbidden")), Bind(a_pod(), "n1"))
    assert denied == BindFailed("uid-p", BindProblem.DENIED, "forbidden")


async def test_unreadable_pod_is_looked_at_again() -> None:
    bound = replace(a_pod(), node="n1")
    gets = in_turn(Reply(200, b"{"), Reply(200, b"[]"), then=as_json(bound))
    lost = ReplyLost("cut")
    transport = Scripted(lambda r: lost if r.method == "POST" else gets(r))
    assert await outcome_of(transport, Bind(a_pod(), "n1")) == BindDone("uid-p")


class UnreliableServer:
    """Keeps one pod, and treats each request in some random way that a real server might."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.pod = a_pod()
        self.late: list[asyncio.TimerHandle] = []

    def __call__(self, request: Request) -> Reply | Exception:
        return self._get() if request.method == "GET" else self._post()

    def _get(self) -> Reply | Exception:
        trouble = (status(503), status(500), ReplyLost("cut"), Unreachable("none"))
        return self.rng.choice((as_json(self.pod), as_json(self.pod), *trouble))

    def _post(self) -> Reply | Exception:
        deed = self.rng.choice(("now", "never", "never", "later", "refuse"))
        if deed == "now":
            return self.rng.choice((self._apply(), ReplyLost("cut"), status(504), status(500)))
        if deed == "later":
            # A reply of 500 would mean that the request is over, so it is lost or 504.
            loop = asyncio.get_running_loop()
            self.late.append(loop.call_later(self.rng.uniform(0, 0.02), self._apply))
            return self.rng.choice((ReplyLost("cut"), status(504), status(502)))
        if deed == "never":
            trouble = (ReplyLost("cut"), Unreachable("none"), status(503), status(500))
            return self.rng.choice((*trouble, status(504), status(429), ETCD_TROUBLE))
        return status(403, "denied")

    def _apply(self) -> Reply:
        if self.pod.node:
            return status(409, "already assigned")
        self.pod = replace(self.pod, node="n1")
        return OK


@given(seed=st.integers(0, 2**32))
@examples(100)
def test_what_is_reported_stays_true(seed: int) -> None:
    """Done means bound; failed means unbound, now and ever after."""

    async def check() -> None:
        server = UnreliableServer(random.Random(seed))
        outcome = await outcome_of(Scripted(server), Bind(a_pod(), "n1"))
        if isinstance(outcome, BindDone):
            assert server.pod.node == "n1"
            return
        assert not server.pod.node
        await asyncio.sleep(0.03)
        assert not server.pod.node, f"bound after {outcome} was reported"

    asyncio.run(check())
