"""How much the object of a queue may say.

Users write them, and the API server accepts nearly everything. Beyond these limits a queue is
invalid: its pods wait with a sentence that names the limit, and nothing else of it is kept.
"""

import math
from collections.abc import Mapping

from fairlead.base.durations import DurationError, length_s
from fairlead.model import quantities
from fairlead.model.errors import FairleadError, QuantityError
from fairlead.model.pods import Amounts
from fairlead.model.quantities import LARGEST, amount
from fairlead.model.queue_amounts import counts_gpus, shown_amount

MOST_RESOURCES = 64
MOST_NAMESPACES = 1000
LONGEST_NAME = 253
LONGEST_RESOURCE = 317
HEAVIEST = 1_000_000.0
#: Of a status that is kept in memory.
LONGEST_STATUS_BYTES = 16 << 10
#: A run time that is longer protects for ever.
LONGEST_RUN_S = 366 * 86_400.0

#: Amounts as they are written: quantities, or whole numbers.
WireAmounts = Mapping[str, str | int]


def queue_amounts(field: str, found: WireAmounts) -> Amounts:
    """Amounts of resources as queues count them, sorted by name."""
    if len(found) > MOST_RESOURCES:
        raise FairleadError(f"{field} has {len(found)} resources; the limit is {MOST_RESOURCES}")
    return tuple(sorted((name, _amount(field, name, text)) for name, text in found.items()))


def _amount(field: str, name: str, text: str | int) -> int:
    if not name or len(name) > LONGEST_RESOURCE:
        raise FairleadError(f"{field} has a resource without a proper name: {name[:64]!r}")
    try:
        number = thousandths(str(text)) if counts_gpus(name) else amount(name, str(text))
    except QuantityError as error:
        raise FairleadError(f"{field}[{name[:64]}]: {error}") from error
    if number < 0:
        raise FairleadError(f"{field}[{name[:64]}] is {str(text)[:32]}; write 0 or more")
    return number


def thousandths(text: str) -> int:
    value = quantities.parse(text) * 1000
    return max(-LARGEST, min(LARGEST, -(-value.numerator // value.denominator)))


def written_amounts(amounts: Amounts) -> dict[str, str]:
    """The same for the status of an object: GPUs as 12.5, memory as 4Gi."""
    return {name: shown_amount(name, number) for name, number in amounts}


def weight_of(field: str, value: float) -> float:
    if not (math.isfinite(value) and 0 <= value <= HEAVIEST):
        raise FairleadError(f"{field} is {value:g}; write a number from 0 to {HEAVIEST:,.0f}")
    return value


def name_of_queue(field: str, text: str) -> str:
    """A name by which a queue is looked up; / separates the parts of keys."""
    if not text or len(text) > LONGEST_NAME:
        said = "empty" if not text else f"longer than {LONGEST_NAME} characters"
        raise FairleadError(f"{field} is {said}; write the name of a queue")
    if "/" in text:
        raise FairleadError(f"{field} is {text[:64]!r}; the name of a queue has no /")
    return text


def run_time_of(field: str, text: str) -> float:
    """How long a unit may run before it is evicted."""
    try:
        found = length_s(text)
    except DurationError as error:
        raise FairleadError(f"{field}: {error}") from error
    return min(found, LONGEST_RUN_S)


def check_limit(guaranteed: Amounts, limit: Amounts, *, above: str, below: str) -> None:
    """Raises FairleadError where the limit (the field `below`) is less than what is guaranteed."""
    limits = dict(limit)
    for name, number in guaranteed:
        most = limits.get(name)
        if most is not None and most < number:
            raise FairleadError(
                f"{below}[{name}] is {shown_amount(name, most)}, less than {above}[{name}], "
                f"which is {shown_amount(name, number)}; raise the one or lower the other"
            )
