"""Whether a source is worth listening to. It decides; whoever runs the source obeys."""

from dataclasses import dataclass, field

from fairlead.telemetry.sources.api import Tally

#: Why a value is not believed that a sound source never sends.
_ABSURD = ("not a number", "negative", "too much", "twice", "labels", "another node")
#: So many absurd values are a mishap, whatever their share.
_MISHAPS = 8
#: So many takes in a row may fail before a source is cut off: a restart takes that long.
_PATIENCE = 3
_LONGEST_BREAK_S = 300.0


@dataclass(slots=True)
class Guard:
    """Cuts a source off that fails three times in a row, and one that lies at once."""

    every_s: float
    failures: int = 0
    problem: str = field(default="")
    _lied: bool = False

    @property
    def cut_off(self) -> bool:
        return self._lied or self.failures >= _PATIENCE

    def wait_s(self) -> float:
        """Until it is asked again: longer and longer while it is cut off."""
        if not self.cut_off:
            return self.every_s
        doublings = min(max(self.failures - _PATIENCE, 0) + 1, 16)
        return max(self.every_s, min(self.every_s * 2.0**doublings, _LONGEST_BREAK_S))

    def taken(self, tally: Tally, fault: str = "") -> None:
        """One take has ended, with a fault or with what the tally says."""
        problem = fault or failure(tally) or lie(tally)
        if not problem:
            self.failures, self._lied, self.problem = 0, False, ""
            return
        self.failures += 1
        self._lied = bool(lie(tally))
        self.problem = problem


def failure(tally: Tally) -> str:
    """Why a take counts as failed; a few nodes that are away are no failure."""
    if tally.asked and 2 * tally.failed > tally.asked:
        return f"{tally.failed} of {tally.asked} returned nothing, for example {tally.problem}"
    return ""


def lie(tally: Tally) -> str:
    """Why a source cannot be believed at all; one card that errs is no lie."""
    absurd = {why: tally.rejected[why] for why in _ABSURD if tally.rejected[why]}
    if sum(absurd.values()) <= max(_MISHAPS, tally.believed):
        return ""
    listed = ", ".join(f"{count} {why}" for why, count in absurd.items())
    return f"most of its values are impossible: {listed}; {tally.believed} values are valid"
