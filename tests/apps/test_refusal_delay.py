"""A refusal waits for our own watch if kube-scheduler may have seen more."""

import asyncio
from dataclasses import replace

from builders import a_pod
from fairlead.apps.extender.refusal_delay import RefusalDelay
from fairlead.engine import events

GONE = events.PodGone(a_pod("other", node="n"))
LEAVING = events.PodSeen(replace(GONE.pod, deleting=True))
#: Longer than any test may take.
LONG_S = 600.0


class Asked:
    """A question whose answer the test decides."""

    uid = "u"

    def __init__(self) -> None:
        self.fits = False

    def answer(self) -> tuple[bool, bytes]:
        return self.fits, b"fits" if self.fits else b"refused"


async def test_a_pod_that_is_asked_for_the_first_time_is_refused_at_once() -> None:
    assert await RefusalDelay(LONG_S).answer(Asked()) == b"refused"


async def test_after_a_change_it_is_refused_at_once() -> None:
    delay, asked = RefusalDelay(LONG_S), Asked()
    await delay.answer(asked)
    delay.note(GONE)
    assert await delay.answer(asked) == b"refused"


async def test_without_a_change_it_waits_for_one() -> None:
    """kube-scheduler saw a deletion, and asked before our watch showed it."""
    delay, asked = RefusalDelay(LONG_S), Asked()
    await delay.answer(asked)
    delay.note(LEAVING)
    answering = asyncio.create_task(delay.answer(asked))
    await asyncio.sleep(0)
    asked.fits = True
    delay.note(GONE)
    assert await answering == b"fits"


async def test_a_wait_without_a_change_is_followed_by_answers_at_once() -> None:
    delay, asked = RefusalDelay(0.0), Asked()
    await delay.answer(asked)
    await delay.answer(asked)
    delay._wait_s = LONG_S
    assert await delay.answer(asked) == b"refused"
