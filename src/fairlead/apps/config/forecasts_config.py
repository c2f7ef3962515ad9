"""`goals.forecasts:` of the configuration: what starts are chosen by.

goals:
  forecasts:
    - {window: low-carbon, kind: configmap, configMap: kube-system/carbon-intensity}
    - {window: cheap, kind: file, file: tariff.csv, unit: EUR/kWh}
"""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.base.durations import seconds
from fairlead.model.errors import ConfigError
from fairlead.model.start_times import Window

if TYPE_CHECKING:
    from fairlead.telemetry.figures.forecast_sources import ForecastPlan

#: Which key each kind needs, and how old its forecasts may be where nothing else is said.
_NEEDS = {"file": "file", "configmap": "config_map", "prometheus": "url"}
_AGES_S = {"file": inf, "configmap": 86_400.0, "prometheus": 3600.0}
_NAMES = {"config_map": "configMap"}


class ForecastConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    window: Literal["cheap", "low-carbon"]
    kind: Literal["file", "configmap", "prometheus"]
    name: str = ""
    unit: str = ""
    location: str = ""
    file: str = ""
    config_map: str = ""
    url: str = ""
    query: str = ""
    token_file: str = ""
    ca_file: str = ""
    every: str = "5m"
    timeout: str = "5s"
    max_age: str = ""

    def plan(self, base: Path, currency: str) -> "ForecastPlan":
        from fairlead.telemetry.figures.forecast_sources import ForecastPlan  # where there is one

        self._check()
        window = Window(self.window)
        namespace, _, name = self.config_map.partition("/")
        unit = f"{currency}/kWh" if window is Window.CHEAP else "g/kWh"
        return ForecastPlan(
            window=window,
            kind=self.kind,
            name=self.name or self.kind,
            unit=self.unit or unit,
            location=self.location,
            file=str(base / self.file) if self.file else "",
            config_map=(namespace, name),
            url=self.url,
            query=self.query,
            token_file=self.token_file,
            ca_file=self.ca_file,
            timeout_s=_seconds("timeout", self.timeout),
            every_s=_seconds("every", self.every),
            max_age_s=_seconds("maxAge", self.max_age) if self.max_age else _AGES_S[self.kind],
        )

    def _check(self) -> None:
        for kind, key in _NEEDS.items():
            there = bool(getattr(self, key))
            if there != (kind == self.kind):
                verb = "needs" if kind == self.kind else "takes no"
                raise ConfigError(f"kind {self.kind} {verb} {_NAMES.get(key, key)}")
        if self.kind == "prometheus" and not self.query:
            raise ConfigError("kind prometheus needs a query that returns one series")
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(f"{self.url!r} is not a valid URL; use http://… or https://…")
        namespace, _, name = self.config_map.partition("/")
        if self.config_map and (not namespace or not name or "/" in name):
            raise ConfigError(
                f"configMap is {self.config_map!r}; write a namespace and a name such as "
                "kube-system/carbon-intensity"
            )


def forecast_plans(
    found: Sequence[ForecastConfig], base: Path, currency: str
) -> "tuple[ForecastPlan, ...]":
    plans = []
    for number, source in enumerate(found):
        try:
            plans.append(source.plan(base, currency))
        except ConfigError as error:
            place = f"goals: forecast {number + 1} ({source.kind})"
            raise ConfigError(f"{place}: {error}") from error
    names = [(plan.window, plan.name) for plan in plans]
    twice = [name for window, name in names if names.count((window, name)) > 1]
    if twice:
        raise ConfigError(f"goals: two forecasts have the name {twice[0]!r}; give each a name")
    return tuple(plans)


def _seconds(key: str, text: str) -> float:
    found = seconds(text)
    if found is None or found <= 0:
        raise ConfigError(f"{key}: {text!r} is not a time; use a value such as 15s or 1m")
    return found
