"""What a decision log says about one pod: where it went and why, and what kept it waiting."""

from collections.abc import Iterable, Iterator
from typing import Any

from fairlead.model.goals import GoalUnit

#: An instruction as a log has it: its name, and its fields.
Plain = list[Any]


def about(pod: str, made: Iterable[Any]) -> Iterator[Plain]:
    """Of some instructions, those about the pod, by its namespace and name."""
    for each in made:
        if isinstance(each, list | tuple) and each[0] in _SAID and _key(each[1]) == pod:
            yield list(each)


def lines(now: float, decision: Plain) -> Iterator[str]:
    """In words; `now` is the time on the clock of the scheduler."""
    name, fields = decision
    for number, line in enumerate(_SAID[name](fields)):
        yield f"{now:12.3f}  {line}" if not number else f"{'':14}{line}"


def _key(fields: dict[str, Any]) -> str:
    key, _, _uid = str(fields.get("pod", "")).partition(" ")
    return key


def _bound(fields: dict[str, Any]) -> Iterator[str]:
    yield f"bound to {fields['node']}"


def _waits(fields: dict[str, Any]) -> Iterator[str]:
    yield f"{fields['reason']}: {fields['message']}"


def _decided(fields: dict[str, Any]) -> Iterator[str]:
    record = fields["record"][1]
    if not record["goals"]:
        yield f"chosen: {fields['node']}"
        return
    yield f"chosen: {fields['node']} counts {_counts(record['goals'])}"
    report = record["alternatives"][1] if record["alternatives"] else {}
    if next_ := report.get("runner_up"):
        yield f"  next: {next_[1]['node']} would have counted {_counts(next_[1]['counts'])}"
    shown = {fields["node"], next_[1]["node"] if next_ else ""}
    for _, option in report.get("pareto", ()):
        if option["node"] not in shown:
            yield f"  also not beaten: {option['node']} with {_counts(option['counts'])}"


def _counts(counts: Iterable[Plain]) -> str:
    return ", ".join(
        f"{each['goal']} {each['amount']:.4g} {_UNITS.get(each['unit'], each['unit'])}"
        for _, each in counts
    )


#: As a log names them.
_UNITS = {unit.name: unit.value for unit in GoalUnit}
_SAID = {"Bind": _bound, "AnnounceFailure": _waits, "Decided": _decided}
