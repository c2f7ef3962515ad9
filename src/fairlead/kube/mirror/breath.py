"""When other tasks get their turn while many objects are read."""

#: Small objects that are read in one turn.
_MOST_OBJECTS = 64
#: Reading takes up to 60 ms for each MiB, of tolerations for example.
_MOST_BYTES = 256 * 2**10


class Breath:
    """Counts what was read since other tasks last had a turn."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._bytes = self._objects = 0

    def is_due(self, length: int) -> bool:
        """Whether others should have a turn now that one more object of that length was read."""
        self._bytes += length
        self._objects += 1
        if self._bytes < _MOST_BYTES and self._objects < _MOST_OBJECTS:
            return False
        self._bytes = self._objects = 0
        return True
