"""What sources outside the API server say: about GPUs, nodes, named readings and hours."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fairlead.apps.run.measures import Measures
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.kube.http.client import Client
from fairlead.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from fairlead.apps.run.forecast_feed import ForecastFeed
    from fairlead.apps.run.named_readings import NamedReadingFeed
    from fairlead.apps.run.node_figures import FigureFeed
    from fairlead.apps.run.readings import Readings
    from fairlead.telemetry.figures.figure_sources import FigurePlan
    from fairlead.telemetry.figures.forecast_sources import ForecastPlan
    from fairlead.telemetry.figures.reading_sources import ReadingPlan
    from fairlead.telemetry.sources import SourcePlan

    SourceFeed = Readings | FigureFeed | NamedReadingFeed | ForecastFeed

_Feed = Callable[[events.Event], None]


class Feeds:
    """One for each kind of source that is configured, with its metrics; others are not loaded."""

    def __init__(self, engine: Engine, feed: _Feed, metrics: Metrics) -> None:
        self._engine, self._feed, self._metrics = engine, feed, metrics
        self.all: list[SourceFeed] = []

    def add_readings(self, sources: "Sequence[SourcePlan]", measures: Measures) -> None:
        """What GPUs do."""
        if sources:
            from fairlead.apps.run.readings import Readings

            self.all.append(readings := Readings(sources, self._engine, self._feed))
            measures.watch_readings(readings)

    def add_figures(self, figures: "Sequence[FigurePlan]") -> None:
        """What nodes cost, draw and emit."""
        if figures:
            from fairlead.apps.run.goal_measures import expose_figures
            from fairlead.apps.run.node_figures import FigureFeed

            self.all.append(found := FigureFeed(figures, self._feed))
            expose_figures(found, self._engine, self._metrics)

    def add_named(self, readings: "Sequence[ReadingPlan]") -> None:
        """What else the file names."""
        if readings:
            from fairlead.apps.run.goal_measures import expose_named
            from fairlead.apps.run.named_readings import NamedReadingFeed

            self.all.append(named := NamedReadingFeed(readings, self._feed))
            expose_named(named, self._engine, self._metrics)

    def add_forecasts(self, forecasts: "Sequence[ForecastPlan]", client: Client) -> None:
        """Which hours are cheap."""
        if forecasts:
            from fairlead.apps.run.forecast_feed import ForecastFeed
            from fairlead.apps.run.forecast_measures import expose_forecasts

            self.all.append(found := ForecastFeed(forecasts, client, self._feed))
            expose_forecasts(found, self._engine, self._metrics)
