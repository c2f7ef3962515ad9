"""Shortest job first, without preemption."""

from typing import TYPE_CHECKING

from fairlead.sim.virtual.policies.policy import SimPolicy

if TYPE_CHECKING:
    from fairlead.sim.virtual.runs import JobRun


def run_time(run: "JobRun") -> float:
    return run.remaining_s


SJF = SimPolicy("sjf", "shortest run time first, not preemptive", "exact", run_time)
