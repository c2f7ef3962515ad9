"""What several pods request together, in the amounts of a queue."""

from collections.abc import Sequence

from fairlead.model.pods import Amounts


def least_sum(kinds: Sequence[tuple[Amounts, int]], needed: int) -> Amounts:
    """Of each resource the least that so many of the pods request; a kind has so many pods."""
    if len(kinds) == 1:
        (asked, count), *_ = kinds
        return tuple((name, amount * min(needed, count)) for name, amount in asked)
    each = [(dict(asked), count) for asked, count in kinds]
    names = dict.fromkeys(name for asked, _ in kinds for name, _ in asked)
    return tuple((name, _least(name, each, needed)) for name in names)


def _least(name: str, kinds: Sequence[tuple[dict[str, int], int]], needed: int) -> int:
    found, left = 0, needed
    for amount, count in sorted((asked.get(name, 0), count) for asked, count in kinds):
        taken = min(left, count)
        found += taken * amount
        left -= taken
    return found
