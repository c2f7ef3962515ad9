"""Has the solver answer questions of the engine, in a process of its own that is kept warm.

`python -m fairlead.apps.run.solving` reads questions as lines of JSON and answers in the same way.
A process that dies, hangs or answers nonsense is ended, and started again for a later question.
"""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, PlanComputed
from fairlead.model.errors import FairleadError
from fairlead.model.solver import SolverAnswer, SolverQuestion
from fairlead.placement.solver_program import solve_program
from fairlead.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.1
#: HiGHS ends a little after its limit.
_GRACE = 1.5
_GRACE_S = 0.2
#: To start and import the solver, on a busy machine.
_START_S = 60.0
#: After a fault, no question is asked for so long.
_REST_S = 10.0
_LONGEST_LINE = 64 << 20
_READY = b"ready\n"

_answers: msgspec.json.Decoder[SolverAnswer] = msgspec.json.Decoder(SolverAnswer)


class Solving:
    """Runs beside the scheduler. No decision waits for it."""

    def __init__(
        self,
        engine: Engine,
        feed: Callable[[Event], None],
        metrics: Metrics,
        command: tuple[str, ...] = (sys.executable, "-m", "fairlead.apps.run.solving"),
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._worker = Worker(command)
        self._results: Counter[tuple[str, ...]] = Counter()
        metrics.watch_counter(
            "fairlead_solver_answers",
            "Questions about gangs to the solver, by result.",
            ("result",),
            lambda: self._results,
        )

    async def run(self) -> None:
        try:
            await self._worker.warm()
            while True:
                await self.answer_next()
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            await self._worker.end()

    async def answer_next(self) -> None:
        """One question, if there is one."""
        questions = self._engine.solver_questions
        if not questions:
            return
        question, answer, result = questions[0], None, "none"
        try:
            answer = await self._worker.ask(question)
            result = "none" if answer is None else "plan"
        except FairleadError as error:
            result = "error"
            log.warning("solver failed", error=str(error))
        self._results[(result,)] += 1
        self._feed(PlanComputed(question.gang, question.number, answer))


class Worker:
    """The process, started before it is needed, and again when it has ended."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: Process | None = None
        self._rests_until_s = 0.0

    async def warm(self) -> None:
        """So that the first gang does not wait for the start."""
        try:
            await self._started()
        except (TimeoutError, OSError, ValueError) as error:
            await self.end()
            log.warning("solver failed", error=str(error) or "it did not start in time")

    async def ask(self, question: SolverQuestion) -> SolverAnswer:
        """Raises FairleadError."""
        if time.monotonic() < self._rests_until_s:
            raise FairleadError("the process failed a short time ago; it is started again later")
        try:
            process = await self._started()
            async with asyncio.timeout(_GRACE * question.budget_s + _GRACE_S):
                return _answers.decode(await _exchange(process, question))
        except (TimeoutError, OSError, ValueError, msgspec.MsgspecError) as error:
            await self.end()
            self._rests_until_s = time.monotonic() + _REST_S
            said = str(error) or f"no answer within {_GRACE} times its budget"
            raise FairleadError(said) from error

    async def _started(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE
            )
            async with asyncio.timeout(_START_S):
                if await _line(self._process) != _READY:
                    raise ValueError("it did not start")
            log.info("solver ready")
        return self._process

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _exchange(process: Process, question: SolverQuestion) -> bytes:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(question) + b"\n")
    await process.stdin.drain()
    return await _line(process)


async def _line(process: Process) -> bytes:
    assert process.stdout is not None
    found = await process.stdout.readline()
    if not found.endswith(b"\n"):
        raise ValueError("its process has ended")
    return found


def main() -> None:
    import highspy  # noqa: F401 - so that the first question need not wait for it

    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    questions = msgspec.json.Decoder(SolverQuestion)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(solve_program(questions.decode(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
