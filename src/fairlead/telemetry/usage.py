"""What pods made of the GPUs that they held, added up from one look to the next.

Plain values in and out, and no clock: `fairlead run` adds up as readings come, `fairlead top` does
so from the history that a Prometheus server kept.
"""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

#: Less than this share of the time is no work: a monitor, or the driver itself.
IDLE = 0.05
#: A longer pause than this between two looks says nothing of what happened meanwhile, unless
#: a source says more.
LONGEST_GAP_S = 120.0
_BINS = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """What one pod had, and did with it, at one time. Amounts are in GPUs, parts counted."""

    held: float
    #: Of what is held, the part that is measured; and how much of it was at work.
    measured: float = 0.0
    used: float = 0.0
    #: On that of its GPUs where it takes most.
    memory_mib: float | None = None
    #: Which of its GPUs were at work, as bits in their order.
    busy_gpus: int = 0
    #: Told from GPUs that it shares with others: how much of it was its own is a guess.
    guessed: bool = False

    @property
    def level(self) -> float:
        """How much of what it holds was at work, at most all of it."""
        return min(1.0, self.used / self.measured) if self.measured else 0.0


@dataclass(slots=True)
class Use:
    """One pod over time. Times of GPUs are in GPU seconds: two GPUs for 5 s are 10."""

    last_s: float
    longest_gap_s: float = LONGEST_GAP_S
    #: Time for which it was measured.
    watched_s: float = 0.0
    held_s: float = 0.0
    measured_s: float = 0.0
    used_s: float = 0.0
    #: Held beyond what was at work, look by look; and held while nothing was at work at all.
    wasted_s: float = 0.0
    idle_s: float = 0.0
    idle_since_s: float | None = None
    memory_peak_mib: float | None = None
    busy_gpus: int = 0
    ever_guessed: bool = False
    latest: Sample = field(default_factory=lambda: Sample(0.0))
    #: Seconds at each level, in steps of a twentieth.
    _levels: list[float] = field(default_factory=lambda: [0.0] * _BINS)

    def add(self, sample: Sample, now_s: float) -> None:
        """A look at `now_s`; it holds for the time since the look before."""
        passed_s = now_s - self.last_s
        if passed_s < 0:
            return
        self.last_s, self.latest = now_s, sample
        self.held_s += sample.held * passed_s
        counted_s = passed_s if passed_s <= self.longest_gap_s else 0.0
        if sample.memory_mib is not None:
            self.memory_peak_mib = max(self.memory_peak_mib or 0.0, sample.memory_mib)
        if sample.measured:
            self._measure(sample, counted_s)
        else:
            self.idle_since_s = None

    def _measure(self, sample: Sample, counted_s: float) -> None:
        level = sample.level
        self.watched_s += counted_s
        self.measured_s += sample.measured * counted_s
        self.used_s += sample.used * counted_s
        self.wasted_s += max(0.0, sample.measured - sample.used) * counted_s
        self.busy_gpus |= sample.busy_gpus
        self.ever_guessed |= sample.guessed
        self._levels[min(_BINS - 1, int(level * _BINS))] += counted_s
        if level >= IDLE:
            self.idle_since_s = None
            return
        self.idle_s += sample.measured * counted_s
        if self.idle_since_s is None:
            self.idle_since_s = self.last_s - counted_s

    @property
    def mean(self) -> float | None:
        """How much of what it held was at work on the whole; above 1 if it took others' part."""
        return self.used_s / self.measured_s if self.measured_s else None

    def level_for(self, share: float) -> float | None:
        """It was no busier than this for that share of the time, to the next twentieth."""
        left_s = share * self.watched_s
        if not self.watched_s:
            return None
        for step, seconds in enumerate(self._levels):
            left_s -= seconds
            if left_s <= 1e-9:
                return (step + 1) / _BINS
        return 1.0


class UsageBook:
    """The use of every pod that is there, by uid."""

    def __init__(self, longest_gap_s: float = LONGEST_GAP_S) -> None:
        self.uses: dict[str, Use] = {}
        self._longest_gap_s = longest_gap_s

    def add(self, uid: str, sample: Sample, now_s: float) -> Use:
        use = self.uses.get(uid)
        if use is None:
            use = self.uses[uid] = Use(now_s, self._longest_gap_s)
        use.add(sample, now_s)
        return use
