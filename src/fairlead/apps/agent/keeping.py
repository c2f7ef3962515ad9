"""What the agent keeps equal to the state of its node: at each change, and now and then."""

import asyncio

import structlog

from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.writes.pauses import pause_s, spread
from fairlead.model.errors import FairleadError

log = structlog.get_logger(__name__)

#: How often it is looked at, if nothing changes here: something else may have changed it.
LOOK_S = 60.0
#: Of one request.
TIMEOUT_S = 10.0
_LONGEST_PAUSE_S = 30.0


class AgentPublisher:
    """`run` it in a task. Subclasses say how it is put right."""

    def __init__(self, failing: str, problem: str, look_s: float = LOOK_S) -> None:
        """`failing`: what to log then; `problem`: until it is looked at for the first time."""
        self._failing = failing
        self._look_s = look_s
        self._changed = asyncio.Event()
        self.problem = problem

    def look_again(self) -> None:
        """Something has changed: do not wait for the next look."""
        self._changed.set()

    async def run(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            problem = await self.publish()
            if problem != self.problem and problem:
                log.warning(self._failing, error=problem)
            self.problem = problem
            failures = failures + 1 if problem else 0
            await self._rest()
            if failures:
                await asyncio.sleep(pause_s(failures, longest_s=_LONGEST_PAUSE_S, first_s=0.1))
                continue
            try:
                async with asyncio.timeout(spread(self._look_s)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def publish(self) -> str:
        """Empty, or the sentence on why it is not what it should be."""
        try:
            return await self._put_right()
        except FairleadError as error:
            return str(error)
        except UNREADABLE as error:
            return f"an answer of the API server cannot be read: {error!r:.200}"

    async def _put_right(self) -> str:
        raise NotImplementedError

    async def _rest(self) -> None:
        """After each look."""


def refused_because(what: str, reply: Reply, doing: str, hints: dict[int, str]) -> str:
    """Why the API server refused a request, and what to do about it."""
    hint = hints.get(reply.status, "")
    return f"the {what} cannot be {doing}: {reply.message}{hint}"
