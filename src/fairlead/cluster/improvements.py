"""What changed in favour of waiting pods since it was last asked."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import Bits


class Improvements:
    """The one channel from the cluster to the requeuer.

    Every change of the cluster after which a refused pod may fit adds its aspects here; views
    follow `ChangeLog` instead, which also has the changes that take room away.
    """

    def __init__(self) -> None:
        self._bits: Bits = 0
        #: Grows with each of them.
        self.count = 0

    def add(self, aspects: Aspect) -> None:
        self._bits |= int(aspects)
        self.count += 1

    def drain(self) -> Bits:
        """The aspects that were added since the last call."""
        bits, self._bits = self._bits, 0
        return bits

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """What is added meanwhile does not count: it is undone, or reported by the caller."""
        kept = self._bits, self.count
        try:
            yield
        finally:
            self._bits, self.count = kept
