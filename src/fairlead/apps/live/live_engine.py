"""An engine that knows a cluster as it is now, for commands that look and do not touch."""

import time
from collections.abc import Iterable

from fairlead.apps.config.run_plan import RunPlan
from fairlead.apps.live import live_cluster
from fairlead.cluster import reserving
from fairlead.engine.engine import Engine
from fairlead.kube.http.client import Client
from fairlead.model.behaviour import Behaviour
from fairlead.model.pods import PodField
from fairlead.placement.profile import Profile


async def live_engine(
    client: Client, planned: RunPlan, behaviour: Behaviour, asked: Iterable[Profile]
) -> Engine:
    """One that decides by the plan. What only profiles read that are not asked is not listed."""
    engine = Engine(
        planned.profiles, topology=planned.topology, reserves=True, backfill=planned.backfill
    )
    engine.wall_offset_s = time.time()  # it is fed at time 0
    selectors = any(profile.pod_fields & PodField.DEFAULT_SELECTOR for profile in asked)
    async for event in live_cluster.events(
        client, behaviour, selectors=selectors, gangs=planned.gang_dialects
    ):
        engine.handle(event, now=0.0)
    if not engine.cluster.reservations:  # the scheduler may not be allowed to make any
        reserving.switch(engine.cluster, on=False)
    return engine
