"""Which unit holds the cluster, for how long, and how often in vain."""

from collections.abc import Iterable

from builders import a_pod
from fairlead.cluster.aspects import Aspect
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.quotas.ageing import AGED_S, FIRST_HOLD_S, MOST_FAILURES, REST, Ageing
from fairlead.queue.units import PodUnit, Unit


class Line:
    """Units that wait for room; their names begin with the name of their queue."""

    def __init__(self, *names: str, fit: bool = True) -> None:
        self.entries = [self._waits(name, float(came)) for came, name in enumerate(names)]
        self.fit = fit

    def _waits(self, name: str, came: float) -> Entry:
        entry = Entry(PodUnit(a_pod(name)), came, came, pool=Pool.WAITING)
        entry.woken_by = Aspect.USAGE
        return entry

    def waiting(self) -> Iterable[Entry]:
        return [entry for entry in self.entries if entry.pool is Pool.WAITING]

    def queue_of(self, unit: Unit) -> str:
        return unit.pod.name.partition("-")[0]

    def could_fit(self, unit: Unit) -> bool:
        return self.fit


def name_of(entry: Entry | None) -> str | None:
    return entry.unit.pod.name if entry else None


def test_the_oldest_holds_after_an_hour_until_it_starts() -> None:
    line = Line("a-1", "a-2", "b-1")
    ageing = Ageing(line)
    assert ageing.holder(AGED_S - 100) is None
    assert name_of(ageing.holder(AGED_S + 10)) == "a-1"
    line.entries[0].pool = Pool.ACTIVE
    assert name_of(ageing.holder(AGED_S + 20)) == "a-1", "it is being tried again"
    line.entries[0].pool = Pool.NONE
    assert name_of(ageing.holder(AGED_S + 30)) == "b-1", "one of each queue in an hour"
    line.entries[2].pool = Pool.NONE
    assert ageing.holder(AGED_S + 100) is None
    assert name_of(ageing.holder(2 * AGED_S + 200)) == "a-2"


def test_a_unit_that_waits_for_something_else_or_cannot_fit_holds_nothing() -> None:
    line = Line("a-1", "b-1")
    line.entries[0].held_back_by = "a"
    line.entries[1].woken_by = Aspect.LABELS
    assert Ageing(line).holder(10 * AGED_S) is None
    assert Ageing(Line("a-1", fit=False)).holder(10 * AGED_S) is None


def test_holds_in_vain_become_rare_and_end() -> None:
    ageing, held_s, holds, now, last = Ageing(Line("a-1")), 0.0, 0, 0.0, False
    while now < 5 * 86400.0:
        holds_now = ageing.holder(now) is not None
        held_s += 60.0 * holds_now
        holds += holds_now and not last
        last, now = holds_now, now + 60.0
    assert holds == MOST_FAILURES
    assert FIRST_HOLD_S <= held_s <= now / (1 + REST) * 1.05
