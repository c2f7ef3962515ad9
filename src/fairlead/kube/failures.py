"""What to do with an exception that nothing expected: it is one object's failure, and no more."""

from collections import Counter

import structlog

log = structlog.get_logger(__name__)


class Failures:
    """Counts such exceptions by what was being done; read by what exports metrics."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, doing: str, about: str, error: Exception) -> str:
        """Counts and logs it. Returns a sentence for the object that it happened to."""
        self.counts[doing] += 1
        log.error(
            "internal error; only this object is affected; please report it",
            doing=doing,
            object=about,
            exc_info=error,
        )
        return f"internal error while {doing}: {error!r}; please report it as a defect of Fairlead"
