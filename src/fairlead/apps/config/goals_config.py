"""`goals:` of the configuration: figures of nodes, such as prices; and of a profile: its goals.

goals:
  currency: USD
  prices:
    - kind: table
      rows:
        - {model: H100, capacityType: spot, perGpu: 1.9}
        - {model: H100, perGpu: 3.9}
    - kind: opencost
      url: http://prometheus.monitoring.svc:9090
"""

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from fairlead.apps.config import plugin_files
from fairlead.apps.config.forecasts_config import ForecastConfig
from fairlead.apps.config.service_classes_config import ServiceClassConfig
from fairlead.base.durations import seconds
from fairlead.model.errors import ConfigError
from fairlead.model.goals import GoalRates
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_figures import CAPACITY, HIGHEST, LABEL, Figure, FigureRule
from fairlead.plugins.api import Goal
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import GOALS
from fairlead.plugins.named_readings import ReadingGoal
from fairlead.plugins.registry import Registry

if TYPE_CHECKING:
    from fairlead.telemetry.figures.figure_sources import FigurePlan

_ZONE, _REGION, _TYPE = (
    f"{LABEL}topology.kubernetes.io/zone",
    f"{LABEL}topology.kubernetes.io/region",
    f"{LABEL}node.kubernetes.io/instance-type",
)
#: What is asked where the configuration names no query.
_QUERIES = {
    "opencost": "node_total_hourly_cost",
    "karpenter": "karpenter_cloudprovider_instance_type_offering_price_estimate",
}
_FILES = "opencost-csv"
_Amount = Annotated[float, msgspec.Meta(ge=0, le=HIGHEST)]


class _Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    pass


class FigureRow(_Strict):
    """Nodes that have all of this, and their figure, or that of each of their GPUs."""

    model: str = ""
    capacity_type: Literal["", "spot", "on-demand", "reserved", "unknown"] = ""
    zone: str = ""
    region: str = ""
    instance_type: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    per_node: _Amount | None = None
    per_gpu: _Amount | None = None

    def rules(self) -> Iterator[FigureRule]:
        if self.per_node is None and self.per_gpu is None:
            raise ConfigError("a row has neither perNode nor perGpu; write one of them, or both")
        said = {CAPACITY: self.capacity_type, _ZONE: self.zone, _REGION: self.region}
        said |= {_TYPE: self.instance_type}
        said |= {LABEL + key: value for key, value in self.labels.items()}
        match = tuple((key, value) for key, value in said.items() if value)
        if self.per_node is not None:
            yield FigureRule(match, self.per_node, model=self.model)
        if self.per_gpu is not None:
            yield FigureRule(match, self.per_gpu, per_gpu=True, model=self.model)


class FigureSourceConfig(_Strict):
    kind: Literal["table", "label", "opencost-csv", "opencost", "karpenter", "prometheus"]
    name: str = ""
    rows: list[FigureRow] = msgspec.field(default_factory=list)
    key: str = ""
    file: str = ""
    url: str = ""
    query: str = ""
    currency: str = ""
    token_file: str = ""
    ca_file: str = ""
    every: str = "1m"
    timeout: str = "5s"
    max_age: str = ""

    def plan(self, figure: Figure, currency: str, base: Path) -> "FigurePlan":
        from fairlead.telemetry.figures.figure_sources import FigurePlan  # where there is one

        self._check(figure, currency)
        query = self.query or _QUERIES.get(self.kind, "")
        return FigurePlan(
            figure=figure,
            kind=self.kind,
            name=self.name or self.kind,
            rules=tuple(rule for row in self.rows for rule in row.rules()),
            label=self.key,
            file=str(base / self.file) if self.file else "",
            url=self.url,
            query=query,
            token_file=self.token_file,
            ca_file=self.ca_file,
            timeout_s=_seconds("timeout", self.timeout),
            every_s=_seconds("every", self.every),
            max_age_s=self._max_age_s(),
            currency=currency,
        )

    def _max_age_s(self) -> float:
        """A price sheet stays valid until it is replaced, unless the configuration says else."""
        if self.max_age:
            return _seconds("maxAge", self.max_age)
        return 600.0 if self.url else inf

    def _check(self, figure: Figure, currency: str) -> None:
        needed = {"table": "rows", "label": "key", _FILES: "file"}.get(self.kind, "url")
        for key in ("rows", "key", "file", "url"):
            there = bool(getattr(self, key))
            if there != (key == needed):
                verb = "needs" if key == needed else "takes no"
                raise ConfigError(f"kind {self.kind} {verb} {key}")
        if self.kind in (_FILES, *_QUERIES) and figure is not Figure.PRICE:
            raise ConfigError(f"kind {self.kind} has prices; use table, label or prometheus")
        if self.kind == "prometheus" and not self.query:
            raise ConfigError("kind prometheus needs a query with a sample for each node")
        if self.currency and self.currency.upper() != currency.upper():
            raise ConfigError(
                f"its currency is {self.currency}, and that of goals {currency}; convert it in "
                "a query, or change goals.currency"
            )
        if self.url and (urlsplit(self.url).scheme not in ("http", "https")):
            raise ConfigError(f"{self.url!r} is not a valid URL; use http://… or https://…")


class GoalsConfig(_Strict):
    currency: Annotated[str, msgspec.Meta(min_length=1, max_length=16)] = "USD"
    prices: list[FigureSourceConfig] = msgspec.field(default_factory=list)
    watts: list[FigureSourceConfig] = msgspec.field(default_factory=list)
    carbon: list[FigureSourceConfig] = msgspec.field(default_factory=list)
    bandwidth: list[FigureSourceConfig] = msgspec.field(default_factory=list)
    forecasts: list[ForecastConfig] = msgspec.field(default_factory=list)
    classes: list[ServiceClassConfig] = msgspec.field(default_factory=list)

    def plans(self, base: Path) -> "tuple[FigurePlan, ...]":
        found = []
        for figure, sources in self._by_figure().items():
            for number, source in enumerate(sources):
                try:
                    found.append(source.plan(figure, self.currency, base))
                except ConfigError as error:
                    place = f"goals: source {number + 1} of {figure} ({source.kind})"
                    raise ConfigError(f"{place}: {error}") from error
        names = [(plan.figure, plan.name) for plan in found]
        twice = [name for figure, name in names if names.count((figure, name)) > 1]
        if twice:
            raise ConfigError(f"goals: two sources have the name {twice[0]!r}; give each a name")
        return tuple(found)

    def _by_figure(self) -> dict[Figure, list[FigureSourceConfig]]:
        return {
            Figure.PRICE: self.prices, Figure.WATTS: self.watts, Figure.CARBON: self.carbon,
            Figure.BANDWIDTH: self.bandwidth,
        }  # fmt: skip


# -- goals of a profile --------------------------------------------------------------------------


class GoalConfig(_Strict):
    goal: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class GoalLevelConfig(_Strict):
    sum: Annotated[list[str | GoalConfig], msgspec.Meta(min_length=1, max_length=16)]
    #: A share of the best such as 5%, or an amount in the unit of the level.
    tolerance: str | float = 0.0
    #: Pods wait so long for a node that counts at most this much.
    at_most: _Amount | None = None
    patience: str = ""


class RatesConfig(_Strict):
    hour: _Amount | None = None
    kg: _Amount | None = None
    kwh: _Amount | None = msgspec.field(default=None, name="kWh")
    #: How long a pod runs: what is lost once is spread over this.
    run: str = "1h"
    #: What one of its unit is worth for an hour, by reading.
    readings: dict[str, _Amount] = msgspec.field(default_factory=dict)

    def rates(self) -> GoalRates:
        return GoalRates(self.hour, self.kg, self.kwh, _seconds("rates.run", self.run) / 3600)


class ProfileGoalsConfig(_Strict):
    order: Annotated[list[GoalLevelConfig], msgspec.Meta(min_length=1, max_length=16)]
    rates: RatesConfig = msgspec.field(default_factory=RatesConfig)

    def goals(self, base: Path, units: Mapping[str, str]) -> Goals:
        """`units` are those of readings, by name."""
        maker = _GoalMaker(Registry(GOALS.values()), base, self.rates, units)
        return Goals(tuple(_level(level, maker) for level in self.order))


def _level(level: GoalLevelConfig, maker: "_GoalMaker") -> GoalLevel:
    goals = [maker.goal(item) for item in level.sum]
    weighed = tuple((goal, maker.rate(goal, alone=len(goals) == 1)) for goal in goals)
    share, slack = _tolerance(level.tolerance)
    if (level.at_most is None) != (not level.patience):
        raise ConfigError("goals: atMost and patience belong together; write both, or none")
    patience_s = _seconds("patience", level.patience) if level.patience else 0.0
    return GoalLevel(weighed, share, slack, level.at_most, patience_s)


@dataclass(frozen=True, slots=True)
class _GoalMaker:
    """Makes the goals that one profile names."""

    registry: Registry
    base: Path
    rates: RatesConfig
    units: Mapping[str, str]

    def goal(self, item: str | GoalConfig) -> Goal:
        reference, options = (item, {}) if isinstance(item, str) else (item.goal, item.options)
        if reference.startswith(_OF_READING):
            name = reference.removeprefix(_OF_READING)
            unit = self.units.get(name, "")
            return cast("Goal", ReadingGoal(name, reference, unit))  # its name is its own
        found = plugin_files.make(self.registry, reference, options, self.base)
        if not isinstance(found, Goal):
            raise ConfigError(f"{reference!r} is not a goal; give it a unit and count()")
        return found

    def rate(self, goal: Goal, *, alone: bool) -> float:
        if isinstance(goal, ReadingGoal) and goal.reading in self.rates.readings:
            return self.rates.readings[goal.reading]
        return _rate(goal, self.rates.rates(), alone=alone)


#: In front of the name of a reading that is a goal.
_OF_READING = "readings."
_RATE_KEYS = {"s/h": "hour", "s": "hour", "g/h": "kg", "W": "kWh"}


def _rate(goal: Goal, rates: GoalRates, *, alone: bool) -> float:
    found = rates.money_of(goal.unit)
    if found is not None:
        return found
    if alone:
        return 1.0
    key = _RATE_KEYS.get(goal.unit, goal.name)
    raise ConfigError(
        f"goals: {goal.name} counts {goal.unit} and is added to others; set rates.{key}, or give "
        "it a level of its own"
    )


def _tolerance(said: str | float) -> tuple[float, float]:
    """As a share of the best, and as an amount."""
    if isinstance(said, str):
        percent = said.strip().removesuffix("%")
        if percent != said.strip() and percent.replace(".", "", 1).isdigit():
            return float(percent) / 100, 0.0
    elif 0 <= said <= HIGHEST:
        return 0.0, float(said)
    raise ConfigError(f"goals: tolerance is {said!r}; write a share such as 5%, or an amount")


def _seconds(key: str, text: str) -> float:
    found = seconds(text)
    if found is None or found <= 0:
        raise ConfigError(f"{key}: {text!r} is not a time; use a value such as 15s or 1m")
    return found
