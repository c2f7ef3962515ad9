"""When units that were refused or failed are tried again without a change that could help."""

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RetryTimes:
    """kube-scheduler's, unless others are given."""

    first_backoff_s: float = 1.0
    longest_backoff_s: float = 10.0
    #: A unit that waited for so long is tried again whatever happened.
    longest_wait_s: float = 300.0

    def backoff_s(self, failures: int) -> float:
        """The pause after so many failures in a row."""
        doubled = self.first_backoff_s * 2.0 ** min(failures - 1, 10)
        return min(doubled, self.longest_backoff_s)


AS_KUBE_SCHEDULER = RetryTimes()
#: Only changes bring units back, at once. For simulations, where no change is ever missed.
ONLY_ON_CHANGE = RetryTimes(0.0, 0.0, float("inf"))
