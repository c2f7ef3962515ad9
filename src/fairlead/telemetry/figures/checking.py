"""Which figures of a source are used: those that can be true, and that follow from the last ones.

A price that is a thousand times the last one is an error of its source more often than a price. It
is left out until it comes back, or until the last one is too old to compare with.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from fairlead.model.node_figures import HIGHEST, FigureRule

_JUMP = 1000.0
#: Of figures that do not age, such as those of a price sheet: a corrected one is used after this.
_AGE_S = 600.0
#: Rules of one source; beyond that the rest is left out.
MOST_RULES = 20_000
#: Figures that are remembered, and that are checked in one turn.
_MOST_KEPT = 2 * MOST_RULES
_AT_ONCE = 2000

_Key = tuple[tuple[tuple[str, str], ...], bool, str]


class FigureCheck:
    """One for each source."""

    def __init__(self, max_age_s: float) -> None:
        self._max_age_s = max_age_s if math.isfinite(max_age_s) else _AGE_S
        #: The figure that was last used, and when.
        self._last: dict[_Key, tuple[float, float]] = {}

    async def used(
        self, told: Iterable[tuple[FigureRule, str]], now_s: float
    ) -> tuple[tuple[FigureRule, ...], Counter[str]]:
        """The rules that are used, and how many are not, by why. Others get turns in between."""
        rejected: Counter[str] = Counter()
        found: dict[_Key, FigureRule] = {}
        for number, (rule, text) in enumerate(told):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            figure = _number(text)
            key = (rule.match, rule.per_gpu, rule.model)
            why = _fault(figure) or self._jump(key, figure, now_s)
            if not why and len(found) >= MOST_RULES:
                why = "too many"
            if why:
                rejected[why] += 1
            elif key not in found:
                found[key] = replace(rule, figure=figure)
        used = {key: (rule.figure, now_s) for key, rule in found.items()}
        self._last |= used
        self._forget(now_s)
        if len(self._last) > _MOST_KEPT:
            self._last = used
        return tuple(found.values()), rejected

    def _jump(self, key: _Key, figure: float, now_s: float) -> str:
        last, at_s = self._last.get(key, (0.0, -math.inf))
        if now_s - at_s > self._max_age_s or not last:
            return ""
        return "" if last / _JUMP < figure < last * _JUMP else "jump"

    def _forget(self, now_s: float) -> None:
        oldest_s = now_s - self._max_age_s
        self._last = {key: last for key, last in self._last.items() if last[1] >= oldest_s}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _fault(figure: float) -> str:
    if not math.isfinite(figure):
        return "not a number"
    if figure < 0:
        return "negative"
    return "too much" if figure > HIGHEST else ""
