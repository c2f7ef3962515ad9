"""Where in the server's history we are."""


class OutOfStep(Exception):
    """What the server says does not continue what it said before: a new sync must settle it."""


class Position:
    """From which revision to watch, or how new a sync must be at least.

    Revisions are opaque but for two purposes: a server that was restored from a backup gives
    smaller ones than before, and a list that is newer than our watch must be waited for. Nothing
    else would show either.
    """

    __slots__ = ("_number", "resume", "since")

    def __init__(self) -> None:
        #: Watch from here; None when a sync must come first.
        self.resume: str | None = None
        #: A sync must be at least this new; "" asks for the newest.
        self.since = ""
        self._number = -1

    def start(self, version: str) -> None:
        """A sync is complete as of this revision, be it older than the last."""
        self.resume = self.since = version
        self._number = _number(version)

    def advance(self, version: str) -> None:
        """An event of this revision came. Raises OutOfStep if it lies in the past."""
        number = _number(version)
        if number < self._number:
            if number >= 0:
                raise OutOfStep(f"revision {version} after {self.resume}")
            return  # no number: it cannot be compared, nor trusted to resume from
        self._number = number
        self.resume = version

    def is_ahead_of(self, version: str) -> bool:
        """Whether we have seen a later revision than the newest one there is."""
        return 0 <= _number(version) < self._number

    def has_reached(self, version: str) -> bool:
        """Whether everything up to this revision has come; revisions are compared as numbers."""
        return self.resume is not None and 0 <= _number(version) <= self._number

    def sync_from_here(self) -> None:
        """The server cannot continue from here, but it can list what is not older."""
        self.since, self.resume = self.resume or self.since, None

    def sync_anew(self) -> None:
        """Nothing that we know of the server's history counts any more."""
        self.since, self.resume = "", None


def _number(version: str) -> int:
    try:
        return int(version)
    except ValueError:
        return -1
