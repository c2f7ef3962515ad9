"""Writes that may wait, without a server: order, bounds, retries and the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from fairlead.kube.writes.outbox import Outbox, WriteCounts
from fairlead.kube.writes.recent import Recent
from fairlead.kube.writes.spam import NS_PER_S, SpamFilter
from scripted import until


class Post:
    """Delivers when its gate is open; an item that is a number wants that many tries more."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun: list[Any] = []
        self.delivered: list[Any] = []

    async def __call__(self, item: Any, tries: int) -> float | None:
        self.begun.append(item)
        await self.gate.wait()
        if item == "bad":
            raise ZeroDivisionError
        if isinstance(item, int) and tries < item:
            return 0.001
        self.delivered.append(item)
        return None


@contextlib.asynccontextmanager
async def an_outbox(post: Post, **options: int) -> AsyncIterator[tuple[Outbox[Any], WriteCounts]]:
    tally = WriteCounts()
    outbox: Outbox[Any] = Outbox(post, tally, **{"limit": 100, "workers": 1, **options})
    running = asyncio.create_task(outbox.run())
    yield outbox, tally
    await outbox.stop(grace_s=60)
    await running


async def test_newer_item_takes_the_place_of_one_not_sent_yet() -> None:
    post = Post()
    async with an_outbox(post) as (outbox, tally):
        for item in ("old", "new"):
            outbox.put("key", item)
        outbox.put("other", "x")
    assert post.delivered == ["new", "x"]
    assert tally.superseded == 1


async def test_two_of_one_key_are_never_under_way_together() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post, workers=3) as (outbox, tally):
        outbox.put("key", "first")
        await until(lambda: post.begun)
        for item in ("second", "third"):
            outbox.put("key", item)
        await asyncio.sleep(0.01)
        assert post.begun == ["first"]
        post.gate.set()
    assert post.delivered == ["first", "third"]
    assert tally.superseded == 1


async def test_retry_lets_others_pass() -> None:
    post = Post()
    async with an_outbox(post) as (outbox, tally):
        outbox.put("stubborn", 3)
        outbox.put("easy", "x")
        await until(lambda: len(post.delivered) == 2)
    assert post.delivered == ["x", 3]
    assert tally.retried == 3


async def test_newer_item_ends_the_retries_of_the_older() -> None:
    post = Post()
    async with an_outbox(post) as (outbox, _):
        outbox.put("key", 10**6)
        await until(lambda: len(post.begun) > 2)
        outbox.put("key", "new")
        await until(lambda: post.delivered)
    assert post.delivered == ["new"]


async def test_withdrawn_item_is_not_sent() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post) as (outbox, _):
        outbox.put("a", "first")
        await until(lambda: post.begun)
        outbox.put("a", "successor")
        outbox.put("b", "waiting")
        assert outbox.holds("a")
        assert outbox.holds("b")
        for key in "ab":
            outbox.withdraw(key)
        assert not outbox.holds("b")
        post.gate.set()
    assert post.delivered == ["first"]


async def test_full_outbox_drops_the_oldest() -> None:
    post = Post()
    async with an_outbox(post, limit=3) as (outbox, tally):
        for number in range(5):
            outbox.put(f"k{number}", f"i{number}")
        assert len(outbox) == 3
    assert post.delivered == ["i2", "i3", "i4"]
    assert tally.dropped == 2


async def test_items_that_wait_for_another_try_count_too() -> None:
    post = Post()
    async with an_outbox(post, limit=2) as (outbox, _):
        for number in range(50):
            outbox.put(f"k{number}", 10**6)
            await asyncio.sleep(0.0005)
            assert len(outbox) <= 2
        for number in range(50):
            outbox.withdraw(f"k{number}")


async def test_what_was_withdrawn_is_not_waited_for() -> None:
    async with an_outbox(Post()) as (outbox, _):
        outbox.put("key", 10**6)
        await until(lambda: len(outbox) == 1 and outbox.holds("key"))
        await asyncio.sleep(0.003)
        outbox.withdraw("key")
        async with asyncio.timeout(60):
            await outbox.stop(grace_s=60)


async def test_memory_does_not_grow_with_what_is_superseded_or_dropped() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post, limit=5) as (outbox, tally):
        for number in range(1000):
            outbox.put("same", number)
            outbox.put(f"k{number}", "x")
        await asyncio.sleep(0)
        assert outbox._keys.qsize() <= 20
        post.gate.set()
    assert tally.superseded + tally.dropped >= 1990


async def test_memory_does_not_grow_with_what_is_withdrawn_while_the_server_is_away() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post, limit=10) as (outbox, _):
        outbox.put("stuck", "first")
        await until(lambda: post.begun == ["first"])
        for number in range(1000):
            outbox.put(f"key-{number}", "x")
            if number < 995:
                outbox.withdraw(f"key-{number}")
        assert outbox._keys.qsize() <= 21
        post.gate.set()
    assert post.delivered == ["first", *"xxxxx"]


async def test_bug_in_one_delivery_does_not_silence_the_others() -> None:
    post = Post()
    with capture_logs() as logs:
        async with an_outbox(post) as (outbox, tally):
            for item in ("bad", "good"):
                outbox.put(item, item)
    assert post.delivered == ["good"]
    assert tally.dropped == 1
    assert [line["event"] for line in logs] == ["write dropped"]


async def test_stop_delivers_what_it_can_and_counts_the_rest() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post) as (outbox, tally):
        for number in range(4):
            outbox.put(f"k{number}", f"i{number}")
        await until(lambda: post.begun)
        await outbox.stop(grace_s=0.02)
    assert tally.dropped == 4


async def test_what_is_to_be_tried_again_later_is_dropped_once_at_the_end() -> None:
    async def deliver(_: str, tries: int) -> float:
        return 60.0

    tally = WriteCounts()
    outbox = Outbox(deliver, tally, limit=9, workers=1)
    running = asyncio.create_task(outbox.run())
    outbox.put("key", "item")
    for _ in range(2):
        await outbox.stop(grace_s=0.01)
        assert (len(outbox), outbox.holds("key"), tally.dropped) == (0, False, 1)
    await running


async def test_stop_after_a_cancelled_run_does_not_wait() -> None:
    post, tally = Post(), WriteCounts()
    outbox: Outbox[Any] = Outbox(post, tally, limit=9, workers=1)
    running = asyncio.create_task(outbox.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    outbox.put("k", "i")
    async with asyncio.timeout(180):
        await outbox.stop(grace_s=3600)
    assert (tally.dropped, post.delivered) == (1, [])


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans())), st.integers(1, 4))
def test_recent_keeps_the_last_used(steps: list[tuple[str, bool]], limit: int) -> None:
    recent: Recent[str, int] = Recent(limit)
    used: list[str] = []
    for number, (key, write) in enumerate(steps):
        if write:
            recent.put(key, number)
        if write or key in used:
            assert (recent.get(key) is None) is (key not in used and not write)
            used = [*(other for other in used if other != key), key][-limit:]
    assert [key for key, _ in recent.items()] == used
    assert len(recent) == len(recent.values()) == len(used)


# The spam filter


def test_spam_many_at_first_then_one_in_five_minutes() -> None:
    spam = SpamFilter()
    assert sum(spam.allows("pod", 0) for _ in range(100)) == 25
    assert not spam.allows("pod", 299 * NS_PER_S)
    assert spam.allows("pod", 301 * NS_PER_S)
    assert not spam.allows("pod", 302 * NS_PER_S)
    assert spam.allows("another", 302 * NS_PER_S)


def test_spam_filter_survives_a_clock_set_back() -> None:
    spam = SpamFilter()
    assert sum(spam.allows("pod", 3600 * NS_PER_S) for _ in range(30)) == 25
    assert not spam.allows("pod", 0)
    assert spam.allows("pod", 301 * NS_PER_S)


def test_spam_filter_remembers_only_so_many_pods() -> None:
    spam = SpamFilter(burst=1, limit=2)
    assert [spam.allows(pod, 0) for pod in "abcba"] == [True, True, True, False, True]


async def test_what_is_urgent_goes_before_what_waits() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post, workers=1) as (outbox, _):
        for name in ("a", "b", "c"):
            outbox.put(name, name)
        await until(lambda: post.begun == ["a"])
        outbox.put("c", "c again", urgent=True)
        outbox.put("d", "d", urgent=True)
        outbox.put("e", "e", urgent=True)
        outbox.withdraw("e")
        post.gate.set()
        await until(lambda: len(post.delivered) == 4)
    assert post.delivered == ["a", "c again", "d", "b"]


async def test_one_can_wait_until_items_are_sent_or_withdrawn_but_not_for_ever() -> None:
    post = Post()
    post.gate.clear()
    async with an_outbox(post, workers=1) as (outbox, _):
        await outbox.settled(["none"], within_s=60.0)
        outbox.put("a", 1)  # it needs a second try
        outbox.put("b", "b")
        await outbox.settled(["a", "b"], within_s=0.001)
        assert not post.delivered
        waiting = asyncio.create_task(outbox.settled(["a", "b"], within_s=60.0))
        await until(lambda: post.begun)
        outbox.withdraw("b")
        post.gate.set()
        await waiting
        assert post.delivered == [1]
