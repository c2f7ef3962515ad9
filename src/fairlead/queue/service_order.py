"""Units by their service: GPUs times run time, the smallest first."""

from collections.abc import Callable

from fairlead.model.gpu_parts import milli_of_request
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.model.start_terms import SHORT_FIRST_TERMS, StartTerms
from fairlead.queue.entries import Entry
from fairlead.queue.order import OrderKey
from fairlead.queue.units import Unit

#: How long a unit runs; None: nothing is known.
ExpectedOf = Callable[[Unit], float | None]


def gpus_of_unit(unit: Unit) -> float:
    """GPUs that its pods ask for, shares as parts of one."""
    return sum(_milli(pod.request) for pod in unit.pods) / WHOLE


def _milli(request: PodRequest) -> int:
    asked = request.gpu_request
    return WHOLE * request.amount(GPU) if asked is None else milli_of_request(asked, 0)


def service_key(
    entry: Entry, expected_of: ExpectedOf, terms: StartTerms = SHORT_FIRST_TERMS
) -> OrderKey:
    """By priority, then by service; those of which nothing is known come last."""
    unit, expected_s = entry.unit, expected_of(entry.unit)
    key = terms.key(float("inf") if expected_s is None else expected_s, gpus_of_unit(unit))
    return -unit.priority, key, entry.first_queued_s


class ServiceOrder:
    """The order of the mode short-first."""

    def __init__(self, expected_of: ExpectedOf) -> None:
        self._expected_of = expected_of

    def active(self, entry: Entry) -> OrderKey:
        return service_key(entry, self._expected_of)

    def backoff(self, entry: Entry) -> OrderKey:
        return self.active(entry)
