"""Metrics of service classes, looked up when a Prometheus server asks.

Classes are those of the configuration, so the series are few.
"""

import time
from collections.abc import Callable, Sequence

from fairlead.engine.engine import Engine
from fairlead.engine.service_record import Attainment
from fairlead.model.service_classes import ServiceClass
from fairlead.telemetry.metrics import Metrics, Reading

#: Over which times burn rates are shown; Prometheus computes shorter ones from the counts.
_WINDOWS_S = {"1h": 3600.0, "6h": 6 * 3600.0, "3d": 3 * 86_400.0}


def expose_service_classes(
    classes: Sequence[ServiceClass], engine: Engine, metrics: Metrics
) -> None:
    found, gauge = _Classes(classes, engine), metrics.watch_gauge
    metrics.watch_counter(
        "fairlead_service_class_units",
        "Units that started within the wait goal of their class, and that did not.",
        ("class", "result"),
        found.totals,
    )
    gauge("fairlead_service_class_wait_goal_seconds", "Wait goal of the class.", ("class",),
          lambda: {(each.name,): each.wait_goal_s for each in classes})  # fmt: skip
    gauge("fairlead_service_class_target_ratio", "Share of units that are to start in time.",
          ("class",), lambda: {(each.name,): each.target for each in classes})  # fmt: skip
    gauge("fairlead_service_class_attainment_ratio",
          "Share of units that started in time over the window of the class.",
          ("class",), found.by_class(lambda each: each.share))  # fmt: skip
    gauge("fairlead_service_class_budget_left_ratio",
          "Share of the units that may be late that is left; below 0 if more were late.",
          ("class",), found.by_class(lambda each: each.budget_left))  # fmt: skip
    gauge("fairlead_service_class_burn_rate",
          "Late units of the last hours in proportion to those that may be late.",
          ("class", "window"), found.burn_rates)  # fmt: skip
    gauge("fairlead_service_class_pending_units",
          "Units that wait, and that can still start in time or are late.",
          ("class", "state"), found.pending)  # fmt: skip


class _Classes:
    def __init__(self, classes: Sequence[ServiceClass], engine: Engine) -> None:
        self._classes, self._engine = classes, engine

    def totals(self) -> Reading:
        totals = self._engine.service_record.totals
        keys = ((each.name, result) for each in self._classes for result in ("met", "missed"))
        return {key: float(totals.get(key, 0)) for key in keys}

    def by_class(self, of: Callable[[Attainment], float | None]) -> Callable[[], Reading]:
        def read() -> Reading:
            now_s, record = time.time(), self._engine.service_record
            found = {(each.name,): of(record.of(each, now_s)) for each in self._classes}
            return {key: value for key, value in found.items() if value is not None}

        return read

    def burn_rates(self) -> Reading:
        now_s, record = time.time(), self._engine.service_record
        return {
            (each.name, window): record.of(each, now_s, over_s).burn_rate
            for each in self._classes
            for window, over_s in _WINDOWS_S.items()
        }

    def pending(self) -> Reading:
        names = [each.name for each in self._classes]
        states = "in_time", "late"
        found: dict[tuple[str, ...], float] = {(n, state): 0.0 for n in names for state in states}
        now_s = time.time()
        for name, due_s in self._engine.service_goals.pending():
            found[name, "late" if due_s < now_s else "in_time"] += 1.0
        return found
