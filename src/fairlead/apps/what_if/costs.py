"""What a change costs, and whom: delays and lost work by team, in GPU-hours."""

from collections.abc import Iterable

from fairlead.apps.what_if.outlook import UnitChange, UnitOutlook
from fairlead.model.lazy_dataclass import dataclass


@dataclass(slots=True)
class TeamCost:
    """A team is a queue, or a namespace where there is no queue."""

    earlier: int = 0
    later: int = 0
    evicted: int = 0
    #: GPU-seconds by which its units start later than without the change; negative: earlier.
    delay_gpu_s: float = 0.0
    #: GPU-seconds of work that evictions lose.
    lost_gpu_s: float = 0.0

    @property
    def is_touched(self) -> bool:
        return bool(self.earlier or self.later or self.evicted)


def team_costs(changes: Iterable[UnitChange], until_s: float) -> dict[str, TeamCost]:
    """By team, those that lose most first; a unit that does not start waits until then."""
    found: dict[str, TeamCost] = {}
    for change in changes:
        _add(found.setdefault(_team(change), TeamCost()), change, until_s)
    touched = ((team, cost) for team, cost in found.items() if cost.is_touched)
    return dict(sorted(touched, key=lambda each: -(each[1].delay_gpu_s + each[1].lost_gpu_s)))


def _team(change: UnitChange) -> str:
    """A name of a gang begins with its dialect."""
    if change.any.queue:
        return change.any.queue
    parts = change.name.split("/")
    return f"namespace {parts[1] if len(parts) > 2 else parts[0]}"


def _add(cost: TeamCost, change: UnitChange, until_s: float) -> None:
    before, after = change.before, change.after
    if before is None or after is None:
        return
    if change.effect == "evicted":
        cost.evicted += 1
        cost.lost_gpu_s += before.at_stake_s
        again_s = after.again_s if after.evictions else after.start_s
        cost.delay_gpu_s += before.gpus * (until_s if again_s is None else again_s)
        return
    cost.earlier += change.effect in ("earlier", "starts")
    cost.later += change.effect in ("later", "does not start")
    cost.delay_gpu_s += before.gpus * (_start_s(after, until_s) - _start_s(before, until_s))


def _start_s(unit: UnitOutlook, until_s: float) -> float:
    return until_s if unit.start_s is None else min(unit.start_s, until_s)
