"""An engine that knows a cluster, to be run forward in virtual time."""

from collections.abc import Iterable

from fairlead.apps.config.run_plan import RunPlan
from fairlead.cluster import reserving
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, PricesComputed, ServiceClassesSeen
from fairlead.model.backfill import BackfillTerms
from fairlead.placement.prices import compute
from fairlead.placement.profile import without_solver
from fairlead.queue.order import QueueOrder
from fairlead.queue.retry_times import ONLY_ON_CHANGE


def engine_ahead(
    events: Iterable[Event],
    planned: RunPlan,
    wall_s: float,
    *,
    order: QueueOrder | None = None,
    backfill: BackfillTerms | None = None,
) -> Engine:
    """As the plan says, but for the order and the backfill that are given.

    The events show the cluster at `wall_s`, in seconds since 1970: the engine's time 0.
    """
    engine = Engine(
        without_solver(planned.profiles),
        order=order,
        topology=planned.topology,
        tenants=planned.tenants,
        reserves=True,
        retries=ONLY_ON_CHANGE,
        backfill=backfill or planned.backfill,
    )
    engine.wall_offset_s = wall_s
    if planned.service_classes:
        engine.handle(ServiceClassesSeen(planned.service_classes), now=0.0)
    for event in events:
        engine.handle(event, now=0.0)
    if not engine.cluster.reservations:  # the scheduler may not be allowed to make any
        reserving.switch(engine.cluster, on=False)
    if (prices := compute(engine.basis())) is not None:
        engine.handle(PricesComputed(prices), now=0.0)
    return engine
