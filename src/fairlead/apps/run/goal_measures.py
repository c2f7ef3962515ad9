"""Metrics about figures of nodes and named readings: how old they are, what is not used."""

import time

import numpy as np

from fairlead.apps.run.named_readings import NamedReadingFeed
from fairlead.apps.run.node_figures import FigureFeed
from fairlead.engine.engine import Engine
from fairlead.model.capacity_types import CapacityType
from fairlead.model.node_figures import Figure
from fairlead.telemetry.metrics import Metrics


def expose_figures(feed: FigureFeed, engine: Engine, metrics: Metrics) -> None:
    gauge, counter = metrics.watch_gauge, metrics.watch_counter
    gauge(
        "fairlead_node_figure_age_seconds",
        "Seconds since figures of nodes were last taken from the source.",
        ("figure", "source"),
        lambda: _ages(feed),
    )
    gauge(
        "fairlead_node_figure_problem",
        "1 while some figures of the source are not used.",
        ("figure", "source"),
        lambda: {key: float(bool(problem)) for key, problem in _problems(feed).items()},
    )
    counter(
        "fairlead_node_figures_rejected",
        "Figures of a source that were rejected, by reason.",
        ("figure", "source", "why"),
        lambda: _rejected(feed),
    )
    gauge(
        "fairlead_nodes_without_figure",
        "Nodes of which no source has the figure.",
        ("figure",),
        lambda: _unknown(feed, engine),
    )
    gauge(
        "fairlead_nodes_price_per_hour",
        "What the nodes with a known price cost for an hour, by capacity type.",
        ("capacity_type",),
        lambda: _prices(engine),
    )


def expose_named(feed: NamedReadingFeed, engine: Engine, metrics: Metrics) -> None:
    gauge, sources = metrics.watch_gauge, feed.sources
    gauge(
        "fairlead_named_reading_age_seconds",
        "Seconds since values of the reading were last taken.",
        ("reading",),
        lambda: {
            (each.plan.terms.name,): time.monotonic() - each.status.taken_s
            for each in sources
            if each.status.taken_s is not None
        },
    )
    gauge(
        "fairlead_named_reading_problem",
        "1 while some values of the reading are not used.",
        ("reading",),
        lambda: {(each.plan.terms.name,): float(bool(each.status.problem)) for each in sources},
    )
    metrics.watch_counter(
        "fairlead_named_reading_rejected",
        "Values of a reading that were rejected, by reason.",
        ("reading", "why"),
        lambda: {
            (each.plan.terms.name, why): float(count)
            for each in sources
            for why, count in each.status.rejected.items()
        },
    )
    gauge(
        "fairlead_named_reading_values",
        "Nodes or GPUs for which the reading has a value.",
        ("reading",),
        lambda: {
            (each.plan.terms.name,): float(
                len(engine.cluster.columns.readings.values(each.plan.terms.name))
            )
            for each in sources
        },
    )


def _ages(feed: FigureFeed) -> dict[tuple[str, ...], float]:
    now_s = time.monotonic()
    return {
        (source.plan.figure.value, source.plan.name): now_s - source.status.taken_s
        for source in feed.sources
        if source.status.taken_s is not None
    }


def _problems(feed: FigureFeed) -> dict[tuple[str, ...], str]:
    return {
        (source.plan.figure.value, source.plan.name): source.status.problem
        for source in feed.sources
    }


def _rejected(feed: FigureFeed) -> dict[tuple[str, ...], float]:
    return {
        (source.plan.figure.value, source.plan.name, why): float(count)
        for source in feed.sources
        for why, count in source.status.rejected.items()
    }


def _unknown(feed: FigureFeed, engine: Engine) -> dict[tuple[str, ...], float]:
    columns = engine.cluster.columns
    present = columns.present[: columns.size]
    figures = dict.fromkeys(source.plan.figure for source in feed.sources)
    unknown = {each: np.isnan(columns.figures.known(each, columns.size)) for each in figures}
    return {(figure.value,): float((rows & present).sum()) for figure, rows in unknown.items()}


def _prices(engine: Engine) -> dict[tuple[str, ...], float]:
    columns = engine.cluster.columns
    known = columns.figures.known(Figure.PRICE, columns.size)
    there = columns.present[: columns.size] & ~np.isnan(known)
    types = columns.capacity_type[: columns.size]
    return {
        (kind.word,): float(known[there & (types == kind)].sum())
        for kind in CapacityType
        if (there & (types == kind)).any()
    }
