"""What to do with an exception that nothing expected: it is one object's failure, and no more."""

from collections import Counter
from types import TracebackType

import structlog

log = structlog.get_logger(__name__)

#: Places in the code of which the log has shown how they were reached.
_MOST_PLACES = 64


class Failures:
    """Counts such exceptions by what was being done; read by what exports metrics."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._shown: set[tuple[str, str, int]] = set()

    def note(self, doing: str, about: str, error: Exception) -> str:
        """Counts and logs it. Returns a sentence for the object that it happened to."""
        self.counts[doing] += 1
        said = f"{error!r:.300}"
        log.error(
            "internal error; only this object is affected; please report it",
            doing=doing,
            object=about,
            error=said,
            exc_info=error if self._is_new(error) else None,
        )
        return f"internal error while {doing}: {said}; please report it as a bug in Fairlead"

    def _is_new(self, error: Exception) -> bool:
        """A traceback takes long to write, and one of each kind is enough."""
        place = (type(error).__name__, *_origin(error.__traceback__))
        if place in self._shown or len(self._shown) >= _MOST_PLACES:
            return False
        self._shown.add(place)
        return True


def _origin(trace: TracebackType | None) -> tuple[str, int]:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace else ("", 0)
