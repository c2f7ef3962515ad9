"""Who leads, as one candidate sees it. No I/O; the time is an argument.

Times of others are never compared with ours. A record counts for as long as its holder said, from
the moment we saw it change; our own counts from the moment we began to write it, and for less, so
that this one has stopped before another may start.
"""

import math
from dataclasses import replace

from fairlead.model.lazy_dataclass import dataclass

#: What `leaseTransitions` can hold.
_MOST_TRANSITIONS = 2**31
#: As in client-go, the deadline must be longer than this many pauses.
_PAUSES = 1.2


@dataclass(frozen=True, slots=True)
class Terms:
    """Which Lease, and for how long; names and defaults are those of kube-scheduler's flags."""

    name: str = "fairlead"
    namespace: str = "kube-system"
    #: How long others leave a leader alone that they hear nothing from.
    lease_s: float = 15.0
    #: How long a leader goes on that cannot renew its lease.
    renew_s: float = 10.0
    retry_s: float = 2.0

    def problem(self) -> str:
        """One sentence on why these options cannot work; empty if they can."""
        if self.lease_s < 1 or self.retry_s <= 0:
            return "leaseDuration must be 1s or longer, and retryPeriod longer than nothing"
        if self.lease_s <= self.renew_s:
            return "leaseDuration must be longer than renewDeadline"
        if self.renew_s <= _PAUSES * self.retry_s:
            return f"renewDeadline must be longer than {_PAUSES:g} times retryPeriod"
        return ""


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """What a Lease says about its leader. The times are for people, and stay texts."""

    holder: str = ""
    lease_s: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


class Election:
    """One candidate's view of the election."""

    def __init__(self, identity: str, terms: Terms) -> None:
        self.identity = identity
        self._terms = terms
        self._record: LeaderRecord | None = None
        self._seen_s = -math.inf
        self._held_until_s = -math.inf

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last seen; empty if there was none."""
        return self._record.holder if self._record else ""

    @property
    def epoch(self) -> str:
        """This leader in this term and no other: it goes with every bind.

        The number alone is not enough: it starts again when the Lease is deleted.
        """
        return f"{self._record.transitions if self._record else 0}/{self.identity}"

    def observe(self, record: LeaderRecord | None, now_s: float) -> None:
        """The Lease says this now; None: there is no Lease.

        A Lease that was deleted still counts: its holder may not know of it yet.
        """
        if record is not None and record != self._record:
            self._record, self._seen_s = record, now_s

    def free_at_s(self) -> float:
        """When the lease may be taken, unless its holder renews it before."""
        if self._record is None or self._record.holder in ("", self.identity):
            return -math.inf
        return self._seen_s + (self._record.lease_s or self._terms.lease_s)

    def claim(self, now: str) -> LeaderRecord:
        """What to write in order to take the lease, or to keep it."""
        lease_s = math.ceil(self._terms.lease_s)
        if self._record is not None and self._record.holder == self.identity:
            return replace(self._record, renewed=now, lease_s=lease_s)
        transitions = 0
        if self._record is not None:
            transitions = (self._record.transitions + 1) % _MOST_TRANSITIONS
        return LeaderRecord(self.identity, lease_s, now, now, transitions)

    def written(self, record: LeaderRecord, began_s: float) -> None:
        """The record stands in the Lease, by a write that began at this time."""
        self._record, self._seen_s = record, began_s
        self._held_until_s = began_s + self._terms.renew_s

    def time_left_s(self, now_s: float) -> float:
        """How much longer we lead if no renewal succeeds; zero or less when we do not lead."""
        if self.holder != self.identity:
            return 0.0
        return self._held_until_s - now_s

    def release(self, now: str) -> LeaderRecord:
        """What to write so that the next may start at once."""
        transitions = self._record.transitions if self._record else 0
        return LeaderRecord("", 1, now, now, transitions)
