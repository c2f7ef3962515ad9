"""What units took in the past, by what they have in common; bounded, however many there are."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from fairlead.engine.run_forecasts import SHARES, RunForecast, forecast
from fairlead.engine.run_record import RunRecord
from fairlead.model.run_times import LONGEST_S
from fairlead.model.unit_kinds import (
    DECLARED_LEVELS,
    LEVELS,
    UnitKind,
    declared_keys,
    level_keys,
    space_key,
)

#: Kinds that are kept, in all and of one namespace.
MOST_KINDS = 2048
MOST_OF_NAMESPACE = 256
#: Forecasts, and factors of declared run times, that are kept until something is learned.
MOST_FORECASTS = 1024
#: Shorter runs are mistakes and tests.
SHORTEST_S = 60.0
#: Runs of a kind that a forecast needs.
ENOUGH_RUNS = 4
#: Declared run times that an owner is judged by.
ENOUGH_DECLARED = 3
_MOST_RATIO = 1e6

_Records = OrderedDict[bytes, RunRecord]
#: What declared run times have come to, as factors: at least, half of them, at most.
Ratios = tuple[float, float, float]


class RunHistory:
    """Learns from runs that have ended. The least recently taught kinds go first."""

    def __init__(self) -> None:
        self._spaces: dict[bytes, _Records] = {}
        self._count = 0
        self._forecasts: dict[UnitKind, RunForecast | None] = {}
        self._ratios: dict[UnitKind, Ratios | None] = {}
        #: Grows with each change.
        self.version = 0

    def __len__(self) -> int:
        """Kinds that are kept."""
        return self._count

    def spaces(self) -> Iterator[tuple[bytes, Iterable[tuple[bytes, RunRecord]]]]:
        """All that is kept, by namespace; the least recently taught first."""
        return ((space, records.items()) for space, records in self._spaces.items())

    def learn(self, kind: UnitKind, ran_s: float) -> None:
        """A unit has ended by itself, after so long."""
        if not SHORTEST_S <= ran_s <= LONGEST_S:
            return
        self._judge(kind, ran_s)
        for level, key in zip(LEVELS, level_keys(kind), strict=True):
            record = self.record(_space(kind, level), key)
            if len(record) >= ENOUGH_RUNS:
                record.score(ran_s)
            record.add(ran_s)

    def learn_declared(self, kind: UnitKind, declared_s: float, ran_s: float) -> None:
        """What was declared, and what it came to."""
        ratio = min(max(ran_s / declared_s, 1 / _MOST_RATIO), _MOST_RATIO)
        for level, key in zip(DECLARED_LEVELS, declared_keys(kind), strict=True):
            self.record(_space(kind, level), key).add(ratio)

    def forecast(self, kind: UnitKind) -> RunForecast | None:
        """None: nothing is known."""
        try:
            return self._forecasts[kind]
        except KeyError:
            pass
        if len(self._forecasts) >= MOST_FORECASTS:
            self._forecasts.clear()
        enough = self._enough(kind)
        made = self._forecasts[kind] = forecast(enough) if enough else None
        return made

    def beyond(self, kind: UnitKind, ran_s: float) -> float | None:
        """What a run takes that has taken so long already; None: too few have."""
        for _, record in self._enough(kind):
            if record.above(ran_s) >= ENOUGH_RUNS:
                return record.quantile(0.5, ran_s)
        return None

    def ratios(self, kind: UnitKind) -> Ratios | None:
        """What declared run times have come to, as factors: a range of 8 in 10; None: unknown."""
        try:
            return self._ratios[kind]
        except KeyError:
            pass
        if len(self._ratios) >= MOST_FORECASTS:
            self._ratios.clear()
        made = self._ratios[kind] = self._ratios_of(kind)
        return made

    def _ratios_of(self, kind: UnitKind) -> Ratios | None:
        for level, key in zip(DECLARED_LEVELS, declared_keys(kind), strict=True):
            record = self._find(_space(kind, level), key)
            if record is not None and len(record) >= ENOUGH_DECLARED:
                low, middle, high = (record.quantile(share) or 0.0 for share in SHARES)
                return low, middle, high
        return None

    def record(self, space: bytes, key: bytes) -> RunRecord:
        """That of a kind, which becomes the most recently taught one."""
        records = self._spaces.setdefault(space, OrderedDict())
        found = records.get(key)
        if found is None:
            found = records[key] = RunRecord()
            self._count += 1
            self._shrink(space)
        else:
            records.move_to_end(key)
        self.version += 1
        self._forecasts.clear()
        self._ratios.clear()
        return found

    def _judge(self, kind: UnitKind, ran_s: float) -> None:
        """Whether the forecast held that would have been made."""
        made, enough = self.forecast(kind), self._enough(kind)
        if made is not None and enough:
            enough[0][1].judge(held=made.least_s <= ran_s <= made.most_s)

    def _enough(self, kind: UnitKind) -> list[tuple[int, RunRecord]]:
        """Records with enough runs, with their levels, the most specific first."""
        found = []
        for number, (level, key) in enumerate(zip(LEVELS, level_keys(kind), strict=True)):
            record = self._find(_space(kind, level), key)
            if record is not None and len(record) >= ENOUGH_RUNS:
                found.append((number, record))
        return found

    def _find(self, space: bytes, key: bytes) -> RunRecord | None:
        records = self._spaces.get(space)
        return None if records is None else records.get(key)

    def _shrink(self, space: bytes) -> None:
        """A namespace with many kinds loses its own, not those of others."""
        if len(self._spaces[space]) > MOST_OF_NAMESPACE:
            self._drop(space)
        if self._count > MOST_KINDS:
            self._drop(max(self._spaces, key=lambda each: len(self._spaces[each])))

    def _drop(self, space: bytes) -> None:
        records = self._spaces[space]
        records.popitem(last=False)
        self._count -= 1
        if not records:
            del self._spaces[space]


def _space(kind: UnitKind, level: tuple[bool, ...]) -> bytes:
    return space_key(kind.namespace if level[0] else "")
