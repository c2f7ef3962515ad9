"""Preemption without limits: whenever a job comes or ends, all jobs are placed again in order.

This is how the artifact of Muri (SIGCOMM'22) simulates SRTF and SRSF. Each running job pays its
restart cost at every such moment, whether it moves or not, and moving is free.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.sim.virtual.cluster import VirtualCluster


def replace_all(cluster: "VirtualCluster") -> None:
    for run in list(cluster.running.values()):
        assert run.since_s is not None
        worked_s = max(cluster.now_s - run.since_s - run.job.restart_s, 0.0)
        cluster.interrupt(run, worked_s)
