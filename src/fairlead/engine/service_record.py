"""How many units of each service class started in time, by hour; bounded, and kept by the driver.

A unit is counted once: when it starts, or as soon as its goal has passed. So units that never start
are counted, too.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.service_classes import LONGEST_WINDOW_S, MOST_CLASSES, ServiceClass

HOUR_S = 3600.0
MOST_HOURS = round(LONGEST_WINDOW_S / HOUR_S)
#: Units that missed their goal and have not started yet.
MOST_MISSED = 4096


@dataclass(slots=True)
class HourCount:
    """Units of one class that were counted in one hour."""

    met: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Attainment:
    """What a class came to over some time."""

    met: int
    missed: int
    target: float

    @property
    def share(self) -> float | None:
        """The share that started in time; None: there were no units."""
        count = self.met + self.missed
        return self.met / count if count else None

    @property
    def budget_left(self) -> float:
        """Of the units that may be late, the share that is left; below 0 if more were."""
        allowed = (1.0 - self.target) * (self.met + self.missed)
        return 1.0 - self.missed / allowed if allowed else 1.0

    @property
    def burn_rate(self) -> float:
        """1: exactly as many are late as may be."""
        share = self.share
        return 0.0 if share is None else (1.0 - share) / (1.0 - self.target)


class ServiceRecord:
    """Outlives an engine that is built again."""

    def __init__(self) -> None:
        #: By class, then by hour since 1970; the oldest first.
        self.hours: dict[str, OrderedDict[int, HourCount]] = {}
        #: Hashes of units that were counted as missed and have not started; the oldest first.
        self.missed: OrderedDict[bytes, None] = OrderedDict()
        #: Since this process began.
        self.totals: dict[tuple[str, str], int] = {}
        #: Grows with each change.
        self.version = 0

    def count(self, name: str, at_s: float, *, met: bool) -> None:
        hour = self.hour(name, int(at_s // HOUR_S))
        if hour is not None:
            hour.met += met
            hour.missed += not met
        key = name, "met" if met else "missed"
        self.totals[key] = self.totals.get(key, 0) + 1
        self.version += 1

    def hour(self, name: str, number: int) -> HourCount | None:
        """That of a class, which is made if there is none; None: it is too old."""
        hours = self.hours.get(name)
        if hours is None:
            hours = self.hours[name] = OrderedDict()
            if len(self.hours) > MOST_CLASSES:  # of an earlier configuration
                others = (each for each in self.hours if each != name)
                del self.hours[min(others, key=lambda each: max(self.hours[each], default=0))]
        found = hours.get(number)
        if found is None:
            found = hours[number] = HourCount()
            if len(hours) > MOST_HOURS:
                del hours[min(hours)]
        return found if number in hours else None

    def miss(self, digest: bytes) -> bool:
        """Notes a unit that missed its goal; whether that was not known."""
        if digest in self.missed:
            return False
        self.missed[digest] = None
        if len(self.missed) > MOST_MISSED:
            self.missed.popitem(last=False)
        self.version += 1
        return True

    def of(self, class_: ServiceClass, now_s: float, over_s: float | None = None) -> Attainment:
        """Over the window of the class, or over the last so many seconds, in whole hours."""
        until = int(now_s // HOUR_S)
        since = until - max(1, round((over_s or class_.window_s) / HOUR_S))
        found = [each for at, each in self._hours_of(class_.name) if since < at <= until]
        met, missed = sum(each.met for each in found), sum(each.missed for each in found)
        return Attainment(met, missed, class_.target)

    def recent(self, class_: ServiceClass, now_s: float) -> Attainment:
        """In this hour and the one before it; takes no time."""
        hours, until = self.hours.get(class_.name), int(now_s // HOUR_S)
        found = [hours[at] for at in (until - 1, until) if at in hours] if hours else []
        met, missed = sum(each.met for each in found), sum(each.missed for each in found)
        return Attainment(met, missed, class_.target)

    def _hours_of(self, name: str) -> Iterator[tuple[int, HourCount]]:
        return iter(self.hours.get(name, {}).items())

    def take(self, other: "ServiceRecord") -> None:
        """What was kept, beside what was counted here."""
        for name, hours in other.hours.items():
            for number, kept in hours.items():
                hour = self.hour(name, number)
                if hour is not None:
                    hour.met += kept.met
                    hour.missed += kept.missed
        self.missed = OrderedDict.fromkeys((*other.missed, *self.missed))
        while len(self.missed) > MOST_MISSED:
            self.missed.popitem(last=False)
        self.version += 1


def digest_of(words: str) -> bytes:
    return blake2b(words.encode(), digest_size=8).digest()
