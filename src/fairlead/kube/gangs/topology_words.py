"""The annotation `fairlead.dev/gang-topology`: rules, separated by semicolons.

required: topology.kubernetes.io/zone; preferred: rack, patience 10m; sets of 8: hostname
"""

import re

from fairlead.base.durations import DurationError, length_s
from fairlead.base.names import label_name_problems
from fairlead.kube.gangs.limits import MOST_PODS, MOST_RULES
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import TopologyRule

_LONGEST = 2048
_SETS = re.compile(r"sets of (\d{1,6})", re.ASCII)
_EXAMPLE = (
    "write for example 'required: topology.kubernetes.io/zone; preferred: rack, patience 10m'"
)


def rules_of(
    field: str, text: str
) -> tuple[tuple[TopologyRule, ...], int, tuple[TopologyRule, ...]]:
    """The rules of the gang, and the size and the rule of its sets."""
    if len(text) > _LONGEST:
        raise FairleadError(f"{field} is longer than {_LONGEST} characters")
    rules: list[TopologyRule] = []
    size = 0
    of_sets: tuple[TopologyRule, ...] = ()
    for said in filter(None, (part.strip() for part in text.split(";"))):
        kind, colon, rest = (each.strip() for each in said.partition(":"))
        if sets := _SETS.fullmatch(kind):
            if of_sets:
                raise FairleadError(f"{field} has two sizes of sets; write one")
            size, of_sets = _size(field, int(sets[1])), (_rule(field, True, rest),)
        elif kind in ("required", "preferred") and colon:
            rules.append(_rule(field, kind == "required", rest))
        else:
            raise FairleadError(f"{field} has {said[:64]!r}; {_EXAMPLE}")
    if len(rules) > MOST_RULES:
        raise FairleadError(f"{field} has {len(rules)} rules; the limit is {MOST_RULES}")
    if not rules and not of_sets:
        raise FairleadError(f"{field} is empty; {_EXAMPLE}")
    return tuple(rules), size, of_sets


def _size(field: str, size: int) -> int:
    if not 1 < size <= MOST_PODS:
        raise FairleadError(f"{field} has sets of {size}; write a number from 2 to {MOST_PODS}")
    return size


def _rule(field: str, required: bool, text: str) -> TopologyRule:
    level, *more = (part.strip() for part in text.split(","))
    if label_name_problems(level):
        raise FairleadError(
            f"{field} has the level {level[:64]!r}; write a node label or the name of a level"
        )
    patience: float | None = None
    for option in more:
        word, _, value = option.partition(" ")
        if word != "patience":
            raise FairleadError(f"{field} has {option[:64]!r}; write for example 'patience 10m'")
        patience = _patience(field, value.strip())
    return TopologyRule(level, required=required, patience_s=patience)


def _patience(field: str, text: str) -> float:
    try:
        found = length_s(text)
    except DurationError as error:
        raise FairleadError(f"{field}: {error}") from error
    if found < 1:
        raise FairleadError(f"{field} has a patience of {text}; write 1s or more")
    return found
