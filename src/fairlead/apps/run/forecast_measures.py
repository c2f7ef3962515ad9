"""Metrics about forecasts, and about units that wait for their start."""

import time

from fairlead.apps.run.forecast_feed import ForecastFeed
from fairlead.engine.engine import Engine
from fairlead.telemetry.figures.forecast_sources import ForecastSource
from fairlead.telemetry.metrics import Metrics

_Values = dict[tuple[str, ...], float]


def expose_forecasts(feed: ForecastFeed, engine: Engine, metrics: Metrics) -> None:
    gauge = metrics.watch_gauge
    labels = ("window", "source")
    gauge(
        "fairlead_forecast_age_seconds",
        "Seconds since the forecast was written or taken.",
        labels,
        lambda: _ages(feed),
    )
    gauge(
        "fairlead_forecast_end_seconds",
        "Until when the forecast has values, in seconds from now.",
        labels,
        lambda: _ends(feed),
    )
    gauge(
        "fairlead_forecast_problem",
        "1 while the forecast, or a part of it, is not used.",
        labels,
        lambda: {_key(source): float(bool(source.status.problem)) for source in feed.sources},
    )
    gauge(
        "fairlead_units_waiting_for_window",
        "Units that wait for their start.",
        (),
        lambda: {(): float(engine.start_windows.waiting)},
    )


def _ages(feed: ForecastFeed) -> _Values:
    now_s = time.time()
    found = ((_key(source), source.status.issued_s) for source in feed.sources)
    return {key: now_s - issued_s for key, issued_s in found if issued_s is not None}


def _ends(feed: ForecastFeed) -> _Values:
    now_s = time.time()
    return {_key(source): source.end_s - now_s for source in feed.sources if source.end_s}


def _key(source: ForecastSource) -> tuple[str, str]:
    return source.plan.window.value, source.plan.name
