"""The scheduler forecasts starts while it has nothing else to do."""

import asyncio
import time
from contextlib import suppress

from builders import a_node, a_pod
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.run.start_forecasting import StartForecasting
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.model.run_times import RunTime


class _Driver:
    def __init__(self, *, leads: bool = True) -> None:
        self.engine = Engine(plan(RunOptions()).profiles)
        self.engine.wall_offset_s = time.time()
        self.fed: list[events.Event] = []
        self._leads = leads
        for event in (
            events.NodeSeen(a_node("n", gpus=4)),
            events.PodSeen(a_pod("runs", gpus=4, node="n", run_time=RunTime(600.0))),
            events.PodSeen(a_pod("waits", gpus=4)),
        ):
            self.engine.handle(event, now=0.0)

    def feed(self, event: events.Event) -> None:
        self.fed.append(event)
        self.engine.handle(event, now=1.0)

    def run(self, turns: int) -> None:
        """Until so many turns have passed, or would have."""

        async def both() -> None:
            part = StartForecasting(self.engine, self.feed, self.leads, every_s=0.0)
            task = asyncio.create_task(part.run())
            while self.asked < turns:
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.asked = 0
        asyncio.run(both())

    def leads(self) -> bool:
        self.asked += 1
        return self._leads


def test_nothing_is_forecast_while_a_pod_is_to_be_tried() -> None:
    driver = _Driver()
    driver.run(2)
    assert driver.fed == []


def test_what_waits_is_forecast_and_more_of_it_if_that_is_quick() -> None:
    driver = _Driver()
    driver.engine.decide(now=0.0)
    driver.run(3)
    depths = [event.depth for event in driver.fed if isinstance(event, events.ForecastDue)]
    assert depths[0] == 1
    assert driver.engine.start_record


def test_a_standby_forecasts_nothing() -> None:
    driver = _Driver(leads=False)
    driver.engine.decide(now=0.0)
    driver.run(3)
    assert driver.fed == []
