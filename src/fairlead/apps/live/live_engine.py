"""An engine that knows a cluster as it is now, for commands that look and do not touch."""

import time
from collections.abc import Iterable

from fairlead.apps.config.run_plan import RunPlan
from fairlead.apps.live import live_cluster
from fairlead.apps.live.claim_templates import with_live_claims
from fairlead.apps.live.data_once import data_events
from fairlead.apps.live.goal_events import goal_events
from fairlead.apps.live.learned import learned_events
from fairlead.cluster import reserving
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, ServiceClassesSeen
from fairlead.kube.http.client import Client
from fairlead.model.behaviour import Behaviour
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodField
from fairlead.placement.profile import Profile


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """All that a look at a cluster needs, read once."""

    behaviour: Behaviour
    events: list[Event]
    #: Why what the scheduler has learned about run times is not known; empty: it is.
    not_learned: str = ""


async def read_cluster(client: Client, planned: RunPlan) -> ClusterReading:
    """The events that show it to an engine of the plan."""
    behaviour = await live_cluster.ask_behaviour(client)
    planned.meet(behaviour)
    learned, problem = await learned_events(client, planned)
    listed = live_cluster.events(
        client, behaviour, gangs=planned.gang_dialects, queues=planned.queue_dialects
    )
    data = [event async for event in data_events(client, planned.profiles.values())]
    shown = await with_live_claims(client, [event async for event in listed])
    goals = await goal_events(client, planned)
    return ClusterReading(behaviour, [*goals, *learned, *data, *shown], problem)


async def live_engine(
    client: Client, planned: RunPlan, behaviour: Behaviour, asked: Iterable[Profile]
) -> Engine:
    """One that decides by the plan. What only profiles read that are not asked is not listed."""
    engine = Engine(
        planned.profiles,
        topology=planned.topology,
        reserves=True,
        backfill=planned.backfill,
        tenants=planned.tenants,
    )
    engine.wall_offset_s = time.time()  # it is fed at time 0
    if planned.service_classes:
        engine.handle(ServiceClassesSeen(planned.service_classes), now=0.0)
    for event in (await learned_events(client, planned))[0]:
        engine.handle(event, now=0.0)
    asked = tuple(asked)
    selectors = any(profile.pod_fields & PodField.DEFAULT_SELECTOR for profile in asked)
    async for event in live_cluster.events(
        client, behaviour, selectors=selectors, gangs=planned.gang_dialects
    ):
        engine.handle(event, now=0.0)
    async for event in data_events(client, asked):
        engine.handle(event, now=0.0)
    while engine.counted.is_active and engine.counted.books.partial:
        engine.counted.books.go_on()
    if not engine.cluster.reservations:  # the scheduler may not be allowed to make any
        reserving.switch(engine.cluster, on=False)
    return engine
