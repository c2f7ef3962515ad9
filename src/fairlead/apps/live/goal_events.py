"""Service classes and forecasts, for looks ahead: units wait for their windows there, too."""

import time

from fairlead.apps.config.run_plan import RunPlan
from fairlead.engine.events import Event, ServiceClassesSeen
from fairlead.kube.http.client import Client


async def goal_events(client: Client, planned: RunPlan) -> list[Event]:
    """What the configuration has of both; sources that cannot be read say nothing."""
    found: list[Event] = []
    if planned.service_classes:
        found.append(ServiceClassesSeen(planned.service_classes))
    if planned.forecasts:
        from fairlead.apps.run.forecast_feed import ForecastFeed  # few have forecasts

        await ForecastFeed(planned.forecasts, client, found.append).take(
            time.monotonic(), time.time()
        )
    return found
