"""Smallest service (GPUs times run time) first, without preemption."""

from typing import TYPE_CHECKING

from fairlead.sim.virtual.policies.policy import SimPolicy

if TYPE_CHECKING:
    from fairlead.sim.virtual.runs import JobRun


def service(run: "JobRun") -> float:
    return run.remaining_s * run.job.gpus


SSF = SimPolicy("ssf", "smallest GPUs times run time first, not preemptive", "exact", service)
