"""Decides whether a source is used. `SourceRunner` acts on it."""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.sources.api import ReadCounts

#: Why values are rejected that a working source never sends.
_ABSURD = ("not a number", "negative", "too much", "twice", "labels", "another node")
#: So many absurd values are a mishap, whatever their share.
_MISHAPS = 8
#: So many takes in a row may fail before a source is cut off: a restart takes that long.
_PATIENCE = 3
_LONGEST_BREAK_S = 300.0


@dataclass(slots=True)
class SourceGuard:
    """Cuts off a source after three failures in a row, or at once if its values are impossible."""

    every_s: float
    failures: int = 0
    problem: str = field(default="")
    _implausible: bool = False

    @property
    def cut_off(self) -> bool:
        return self._implausible or self.failures >= _PATIENCE

    def wait_s(self) -> float:
        """Until it is asked again: longer and longer while it is cut off."""
        if not self.cut_off:
            return self.every_s
        doublings = min(max(self.failures - _PATIENCE, 0) + 1, 16)
        return max(self.every_s, min(self.every_s * 2.0**doublings, _LONGEST_BREAK_S))

    def taken(self, counts: ReadCounts, fault: str = "") -> None:
        """One take has ended, with a fault or with what the tally says."""
        problem = fault or failure(counts) or implausible(counts)
        if not problem:
            self.failures, self._implausible, self.problem = 0, False, ""
            return
        self.failures += 1
        self._implausible = bool(implausible(counts))
        self.problem = problem


def failure(counts: ReadCounts) -> str:
    """Why a take counts as failed; a few unreachable nodes are no failure."""
    if counts.asked and 2 * counts.failed > counts.asked:
        return f"{counts.failed} of {counts.asked} returned nothing, for example {counts.problem}"
    return ""


def implausible(counts: ReadCounts) -> str:
    """Why a source is not used at all; impossible values of one GPU are no reason."""
    absurd = {why: counts.rejected[why] for why in _ABSURD if counts.rejected[why]}
    if sum(absurd.values()) <= max(_MISHAPS, counts.believed):
        return ""
    listed = ", ".join(f"{count} {why}" for why, count in absurd.items())
    return f"most of its values are impossible: {listed}; {counts.believed} values are valid"
