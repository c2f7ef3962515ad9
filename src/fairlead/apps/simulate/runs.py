"""One trace under one policy, and what came of it."""

from dataclasses import asdict, dataclass
from math import isfinite

from fairlead.sim.virtual.figures import SimFigures
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

    @property
    def events_per_s(self) -> int:
        return round(self.figures.events / self.cpu_s) if self.cpu_s else 0

    def as_dict(self) -> dict[str, object]:
        named = {"trace": self.trace, "policy": self.policy, "placement": self.placement}
        measured = {"cpu_s": round(self.cpu_s, 3), "events_per_s": self.events_per_s}
        return {**named, "knows": self.knows, **asdict(self.figures), **measured}


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
