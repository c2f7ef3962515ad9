"""Regular expressions of RE2, in time that grows with the text only, whatever the pattern is.

Python's own need exponential time for some patterns and differ in what they match. This is the
simulation of an automaton: all states at once, those of the first choice before the others.
"""

from collections.abc import Callable

from fairlead.cel.regex_program import MATCH, Program
from fairlead.cel.regex_syntax import program_of

Charge = Callable[[int], None]
_Thread = tuple[int, int]
#: States that are charged for at once; patterns have a thousand.
_CHARGED = 32


class Pattern(str):
    """The text of a pattern, with what runs it."""

    __slots__ = ("program",)
    program: Program

    def first(self, text: str, at: int, charge: Charge) -> tuple[int, int] | None:
        """Where the leftmost match from here begins and ends."""
        current: list[_Thread] = []
        best: tuple[int, int] | None = None
        for index in range(at, len(text) + 1):
            if best is None:
                current.append((0, index))
            ready = self._followed(current, text, index, charge)
            current = []
            for place, begin in ready:
                kind, value = self.program[place][:2]
                if kind == MATCH:
                    best = (begin, index)
                    break
                if index < len(text) and value(text[index]):
                    current.append((place + 1, begin))
            if not current and best is not None:
                break
        return best

    def _followed(
        self, threads: list[_Thread], text: str, index: int, charge: Charge
    ) -> list[_Thread]:
        """The threads that read a letter or match, after all steps that read none."""
        seen: set[int] = set()
        ready = []
        stack = threads[::-1]
        while stack:
            place, begin = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            if not len(seen) % _CHARGED:
                charge(_CHARGED // 2)
            kind, value, *other = self.program[place]
            if kind == "jump":
                stack.append((value, begin))
            elif kind == "split":
                stack.extend(((other[0], begin), (value, begin)))
            elif kind == "assert":
                if value(text, index):
                    stack.append((place + 1, begin))
            else:
                ready.append((place, begin))
        charge(1 + len(seen) % _CHARGED // 2)
        return ready

    def all(self, text: str, limit: int, charge: Charge) -> list[tuple[int, int]]:
        """Matches that do not overlap; an empty one right after another does not count."""
        found: list[tuple[int, int]] = []
        at = 0
        while at <= len(text) and len(found) != limit:
            span = self.first(text, at, charge)
            if span is None:
                break
            start, end = span
            if end > start or not found or found[-1][1] != start:
                found.append(span)
            at = end if end > start else end + 1
        return found


def compiled(text: str) -> Pattern:
    """Raises CelEvaluationError."""
    if isinstance(text, Pattern):
        return text
    pattern = Pattern(text)
    pattern.program = program_of(text)
    return pattern
