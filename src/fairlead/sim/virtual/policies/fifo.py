"""First in, first out; jobs that find no room are skipped, as kube-scheduler skips pods."""

from typing import TYPE_CHECKING

from fairlead.sim.virtual.policies.policy import SimPolicy

if TYPE_CHECKING:
    from fairlead.sim.virtual.runs import JobRun


def arrival(run: "JobRun") -> float:
    return float(run.number)


FIFO = SimPolicy("fifo", "by arrival; jobs that find no room are skipped", "nothing", arrival)
