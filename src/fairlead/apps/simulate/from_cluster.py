"""`fairlead sim --from-cluster`: the waiting units of a live cluster under several policies."""

import time
from collections.abc import Iterable, Sequence

from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.live.engine_ahead import engine_ahead
from fairlead.apps.live.live_engine import read_cluster
from fairlead.apps.simulate.runs import SimRun
from fairlead.engine.events import Event
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.errors import ConfigError
from fairlead.sim.virtual.figures import figures_of
from fairlead.sim.virtual.live_state import AssumedRunTimes, begin_with
from fairlead.sim.virtual.policies.policy import SimPolicy
from fairlead.sim.virtual.policies.registry import find_policy
from fairlead.sim.virtual.runs import JobOrder

#: The scheduler as it is configured: its own order, queues and backfill.
CURRENT = "current"
_CLUSTER = "cluster"


async def runs_from_cluster(
    options: RunOptions, policies: Sequence[str], assumed: AssumedRunTimes
) -> list[SimRun]:
    """Reads the cluster once, and writes nothing to it."""
    chosen = [_policy(name) for name in policies]
    planned = plan(options)
    client = Client(load_access(options.kubeconfig, options.context))
    try:
        events = (await read_cluster(client, planned)).events
    finally:
        await client.close()
    wall_s = time.time()
    return [run_from(events, planned, policy, assumed, wall_s) for policy in chosen]


def _policy(name: str) -> SimPolicy | None:
    if name == CURRENT:
        return None
    found = find_policy(name)
    if found.strict or found.interrupt:
        raise ConfigError(f"the policy {name} works on traces only; leave out --from-cluster")
    return found


def run_from(
    events: Iterable[Event],
    planned: RunPlan,
    policy: SimPolicy | None,
    assumed: AssumedRunTimes,
    wall_s: float,
) -> SimRun:
    """The cluster that these events show, from `wall_s` (seconds since 1970) on."""
    began = time.process_time()
    order = JobOrder(policy) if policy and policy.orders else None
    backfill = policy.backfill if policy else None
    engine = engine_ahead(events, planned, wall_s, order=order, backfill=backfill)
    cluster = begin_with(engine, assumed=assumed, order=order)
    cluster.decide_now()
    result = cluster.run()
    name, knows = (policy.name, policy.knows) if policy else (CURRENT, "estimate")
    cpu_s = time.process_time() - began
    return SimRun(_CLUSTER, name, "as configured", knows, figures_of(result), result, cpu_s)
