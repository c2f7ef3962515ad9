"""The numbers of the rules that start units by their service: GPUs times run time."""

from math import inf, isinf
from math import pow as power

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StartTerms:
    """The defaults are those of EASY backfill: one planned start, which no other unit delays."""

    #: The unit with the smallest run time times GPUs to this power comes first.
    weight: float = 1.0
    #: How much later than first planned a unit may start because of others, as a part of the time
    #: that it was to wait.
    give: float = 0.0
    #: A start is planned for a unit that has waited for so many times its run time.
    patience: float = 0.0
    #: A unit that runs past a planned start is started before it only if its service is at most so
    #: many times what all GPUs give until then.
    outlast: float = inf

    def key(self, run_s: float, gpus: float) -> float:
        """The smaller comes first."""
        return run_s * power(gpus, self.weight) if gpus else 0.0

    def has_waited(self, waited_s: float, run_s: float) -> bool:
        """Whether a start is planned for the unit if it is the first."""
        return not self.patience or waited_s >= self.patience * run_s

    def latest_s(self, start_s: float, first_start_s: float, since_s: float) -> float:
        """Until when others may put a start off; `first_start_s` was planned at `since_s`."""
        if not self.give:
            return start_s
        return max(start_s, first_start_s + self.give * (first_start_s - since_s))

    def may_outlast(self, service_s: float, all_gpus: float, until_s: float) -> bool:
        """Whether a unit with this service may run past a start that is `until_s` away."""
        return isinf(self.outlast) or service_s <= self.outlast * all_gpus * until_s


EASY_TERMS = StartTerms()

#: Found on the Muri and Philly traces and on copies with other run times (docs/adr/0051).
SHORT_FIRST_TERMS = StartTerms(weight=0.85, give=0.64, patience=1.2, outlast=0.56)
