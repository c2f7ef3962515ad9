"""One trace under one policy, and what came of it."""

from dataclasses import asdict, field
from math import isfinite

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.virtual.figures import SimFigures
from fairlead.sim.virtual.forecasts import GoalFigures
from fairlead.sim.virtual.jobs import JobRecord
from fairlead.sim.virtual.result import SimResult


@dataclass(frozen=True, slots=True)
class SimRun:
    """One trace under one policy."""

    trace: str
    policy: str
    placement: str
    knows: str
    figures: SimFigures
    result: SimResult
    #: CPU time of this machine, without reading the trace.
    cpu_s: float
    goals: GoalFigures = field(default_factory=GoalFigures)
    #: What the scheduler knows of the series; empty: there are none.
    forecast: str = ""

    @property
    def events_per_s(self) -> int:
        return round(self.figures.events / self.cpu_s) if self.cpu_s else 0

    def as_dict(self) -> dict[str, object]:
        named = {"trace": self.trace, "policy": self.policy, "placement": self.placement}
        measured = {"cpu_s": round(self.cpu_s, 3), "events_per_s": self.events_per_s}
        goals = asdict(self.goals) if self.forecast or self.goals.deadlines else {}
        told = {"forecast": self.forecast} if self.forecast else {}
        return {
            **named,
            **told,
            "knows": self.knows,
            **asdict(self.figures),
            **goals,
            **measured,
        }


def unit_dict(record: JobRecord) -> dict[str, object]:
    """Times are seconds from now; null: it does not happen, or nothing is known."""
    return {
        "name": record.name,
        "gpus": record.gpus,
        "run_s": record.run_s if isfinite(record.run_s) else None,
        "start_s": record.start_s,
        "end_s": record.end_s,
        "nodes": record.nodes,
        "evictions": record.evictions,
    }
