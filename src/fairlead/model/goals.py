"""Goals in units, not in points, and how a profile weighs them against each other."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from fairlead.model.lazy_dataclass import dataclass


class GoalUnit(StrEnum):
    """What a goal counts; less is better. All but seconds: for as long as the pod runs."""

    MONEY = "money/h"
    TIME_LOST = "s/h"  #: seconds that are lost in an hour of run time
    CARBON = "g/h"
    POWER = "W"
    SECONDS = "s"  #: before the work of the pod begins, once


#: What one of each unit is in the unit that a rate is for: hours, kg and kW.
_PER_RATE: Mapping[str, float] = {
    GoalUnit.MONEY: 1.0,
    GoalUnit.TIME_LOST: 1 / 3600,
    GoalUnit.CARBON: 1 / 1000,
    GoalUnit.POWER: 1 / 1000,
    GoalUnit.SECONDS: 1 / 3600,
}


@dataclass(frozen=True, slots=True)
class GoalRates:
    """What the units are worth in money; None: they are not compared with money."""

    #: An hour that a job loses.
    hour: float | None = None
    #: A kilogram of CO2.
    kg: float | None = None
    #: A kilowatt hour.
    kwh: float | None = None
    #: What is lost once is spread over a run of so many hours.
    run_hours: float = 1.0

    def money_of(self, unit: str) -> float | None:
        """What one of the unit is worth, for an hour."""
        rates: dict[str, float | None] = {
            GoalUnit.MONEY: 1.0,
            GoalUnit.TIME_LOST: self.hour,
            GoalUnit.CARBON: self.kg,
            GoalUnit.POWER: self.kwh,
            GoalUnit.SECONDS: None if self.hour is None else self.hour / self.run_hours,
        }
        rate = rates.get(unit)
        return None if rate is None else rate * _PER_RATE[unit]


@dataclass(frozen=True, slots=True)
class GoalCount:
    """What one goal counts on one node."""

    goal: str
    #: A `GoalUnit`, or that of a reading.
    unit: str
    amount: float
    #: What it is made of; empty if the goal does not say.
    detail: str = ""

    @property
    def text(self) -> str:
        return f"{self.goal} {self.amount:.4g} {self.unit}"


@dataclass(frozen=True, slots=True)
class GoalOption:
    """A node, and what the goals count there."""

    node: str
    counts: tuple[GoalCount, ...]
    #: By level: what counts there, in its unit or in money.
    levels: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.node}: " + ", ".join(count.text for count in self.counts)


@dataclass(frozen=True, slots=True)
class GoalReport:
    """What the goals of a profile say about the nodes that fit a pod."""

    #: The node that they prefer, and the next best.
    best: GoalOption
    runner_up: GoalOption | None = None
    #: Nodes than which no other is better for one goal and no worse for the rest; few of them.
    pareto: tuple[GoalOption, ...] = field(default=())
    #: Nodes of which a figure is not known.
    unknown: int = 0
