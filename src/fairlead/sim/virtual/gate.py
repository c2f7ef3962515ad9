"""Jobs that are kept from the engine until a rule starts them.

The rule sees how many GPUs are free on each node, and when running jobs are expected to end. The
engine then places each job that the rule starts, as any other.
"""

from collections.abc import Mapping

from fairlead.model.errors import FairleadError
from fairlead.queue.starts.by_service import StartsByService
from fairlead.queue.starts.room import GpuRoom
from fairlead.queue.starts.terms import StartTerms
from fairlead.sim.virtual.jobs import gpu_amount
from fairlead.sim.virtual.runs import JobRun


class GateError(FairleadError):
    """The rule does not apply to these nodes or jobs; the text says why."""


class JobGate:
    def __init__(self, terms: StartTerms, gpus_of_node: Mapping[str, int]) -> None:
        sizes = set(gpus_of_node.values())
        if len(sizes) != 1:
            raise GateError("this policy needs nodes that have the same number of GPUs")
        self._numbers = {name: number for number, name in enumerate(gpus_of_node)}
        self._starts = StartsByService(GpuRoom(len(gpus_of_node), sizes.pop()), terms)
        self._held: dict[int, JobRun] = {}
        self._ends: dict[int, float] = {}

    @property
    def waiting(self) -> int:
        """How many jobs it keeps."""
        return len(self._held)

    def came(self, run: JobRun, now_s: float) -> None:
        gpus = run.job.gpus
        if gpus < 1 or gpus != int(gpus):
            raise GateError(f"{run.job.name} needs {gpus:g} GPUs; this policy takes whole GPUs")
        self._held[run.number] = run
        self._starts.came(run.number, expected_s(run), int(gpus), now_s)

    def next(self, now_s: float) -> JobRun | None:
        """A job that the engine gets now."""
        number = self._starts.next(now_s) if self._held else None
        return None if number is None else self._held.pop(number)

    def started(self, run: JobRun, now_s: float) -> None:
        parts = ((self._numbers[p.node], int(gpu_amount(p.request))) for p in run.pods.values())
        end_s = self._ends[run.number] = now_s + expected_s(run)
        self._starts.room.start(run.number, tuple(parts), end_s)

    def ended(self, run: JobRun) -> None:
        self._starts.room.end(run.number, self._ends.pop(run.number))


def expected_s(run: JobRun) -> float:
    """What its pods declare."""
    declared = run.job.pods[0].run_time
    known = declared.expected_s if declared else None
    return run.job.run_s if known is None else known
