"""Carries out what must be done for pods before their binds, and reports once for each pod.

The steps of one pod are carried out in order; those of several pods at the same time. Nothing is
undone when a step fails: each step finds what it wrote before, so a restart at any point loses
nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from fairlead.engine.events import Prepared, PrepareFailed
from fairlead.engine.instructions import Prepare
from fairlead.kube.failures import Failures
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod
from fairlead.plugins.prepare import PrepareStep, failure_of

PrepareOutcome = Prepared | PrepareFailed


class StepFailed(FairleadError):
    """The step cannot be carried out; the text says why, in kube-scheduler's words."""


class StepWriter(Protocol):
    """Knows how to carry out one kind of step."""

    async def carry_out(self, pod: Pod, node: str, step: Any) -> None:
        """Returns when the step is done and the watches have shown it; raises StepFailed."""
        ...


class Preparer:
    """Takes work without blocking. `writers` has the writer for each kind of step."""

    def __init__(
        self,
        report: Callable[[PrepareOutcome], None],
        writers: Mapping[type[PrepareStep], StepWriter],
        *,
        failures: Failures | None = None,
    ) -> None:
        self._report = report
        self._writers = writers
        self._failures = failures or Failures()
        self._tasks: dict[str, asyncio.Task[PrepareOutcome]] = {}

    def submit(self, work: Prepare) -> None:
        """Takes the work; returns at once. Its outcome is reported later, never from here."""
        uid = work.pod.uid
        task = asyncio.create_task(self._outcome(work), name=f"prepare-{uid}")
        task.add_done_callback(partial(self._end, uid))  # also if it is cancelled before it begins
        self._tasks[uid] = task

    def abandon(self, uid: str) -> None:
        """The pod is gone: what it needed is not needed any more."""
        task = self._tasks.get(uid)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Ends at once, and reports no more: the next start sees what became of all."""
        self._report = lambda _: None
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, uid: str, task: asyncio.Task[PrepareOutcome]) -> None:
        del self._tasks[uid]
        gone = PrepareFailed(uid, "pod no longer exists")
        self._report(gone if task.cancelled() else task.result())

    async def _outcome(self, work: Prepare) -> PrepareOutcome:
        """Carries out the steps until one fails."""
        uid = work.pod.uid
        for step in work.steps:
            try:
                await self._writers[type(step)].carry_out(work.pod, work.node, step)
            except (StepFailed, msgspec.MsgspecError) as error:
                return PrepareFailed(uid, failure_of(step, str(error)))
            except Exception as error:
                said = self._failures.note(step.doing, work.pod.key, error)
                return PrepareFailed(uid, failure_of(step, said))
        return Prepared(uid)
