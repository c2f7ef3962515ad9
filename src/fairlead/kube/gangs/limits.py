"""How much the object of a gang, or a pod of it, may say.

Users write them, and the API server accepts nearly everything. Beyond these limits a gang waits
with a sentence that names the limit, and nothing of it is kept.
"""

from collections.abc import Iterator, Mapping, Sequence

from fairlead.model.errors import FairleadError, QuantityError
from fairlead.model.gangs import DEEPEST, MOST_GROUPS, GangSpec, Group
from fairlead.model.quantities import amount

#: Pods of one gang; no cluster that Kubernetes supports has more.
MOST_PODS = 100_000
MOST_RESOURCES = 64
MOST_RULES = 8
LONGEST_NAME = 253
#: Of a status that is kept in memory.
LONGEST_STATUS_BYTES = 16 << 10


def minimum_of(field: str, value: int | None, *, least: int = 1) -> int:
    """A number of pods or groups that a gang needs."""
    if value is None:
        raise FairleadError(f"{field} is missing; write how many pods must be placed together")
    if value < least:
        raise FairleadError(f"{field} is {value}; write {least} or more")
    if value > MOST_PODS:
        raise FairleadError(f"{field} is {value}; the limit is {MOST_PODS}")
    return value


def whole_number_of(field: str, text: str) -> int:
    """A number that was written as text; which numbers make sense is for the caller to say."""
    digits = text.strip()
    if not (digits.isascii() and digits.lstrip("-").isdecimal() and len(digits) <= 12):
        raise FairleadError(f"{field} is {text[:32]!r}; write a whole number such as 4")
    return int(digits)


def name_of(field: str, text: str) -> str:
    """A name by which an object is looked up."""
    if not text or len(text) > LONGEST_NAME:
        said = "empty" if not text else f"longer than {LONGEST_NAME} characters"
        raise FairleadError(f"{field} is {said}; write the name of a gang")
    return text


def rank_of(text: str | None) -> int | None:
    """The number that a controller gave a pod among its like; None if it is no such number."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 6 else None


def amounts_of(field: str, found: Mapping[str, str | int]) -> tuple[tuple[str, int], ...]:
    """Amounts of resources, sorted by name."""
    if len(found) > MOST_RESOURCES:
        raise FairleadError(f"{field} has {len(found)} resources; the limit is {MOST_RESOURCES}")
    try:
        return tuple(sorted((name, amount(name, str(text))) for name, text in found.items()))
    except QuantityError as error:
        raise FairleadError(f"{field}: {error}") from error


def checked_spec(spec: GangSpec) -> GangSpec:
    """The same, if its tree is within the limits."""
    _check_rules(len(spec.topology))
    names = set[str]()
    for number, (depth, group) in enumerate(_groups(spec.groups), start=1):
        if depth > DEEPEST:
            raise FairleadError(f"its groups are nested {depth} deep; the limit is {DEEPEST}")
        if number > MOST_GROUPS:
            raise FairleadError(f"it has more than {MOST_GROUPS} groups; write fewer")
        if group.name in names:
            name = group.name[:64]
            raise FairleadError(f"two of its groups are named {name!r}; give each its own name")
        names.add(group.name)
        _check_rules(len(group.topology) + len(group.set_topology))
    return spec


def _check_rules(count: int) -> None:
    if count > MOST_RULES:
        raise FairleadError(
            f"it has {count} topology rules in one place; the limit is {MOST_RULES}"
        )


def _groups(groups: Sequence[Group]) -> Iterator[tuple[int, Group]]:
    left = [(1, group) for group in reversed(groups)]
    while left:
        depth, group = left.pop()
        yield depth, group
        left += ((depth + 1, inner) for inner in reversed(group.groups))
