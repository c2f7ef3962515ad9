"""Keeps one unhappy pod from filling etcd with events."""

from fairlead.kube.writes.recent import Recent
from fairlead.model.lazy_dataclass import dataclass

NS_PER_S = 1_000_000_000

# As client-go: many at first, for they are news; then one in five minutes, for they are not.
BURST = 25
REFILL_S = 300.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_ns: int


class SpamFilter:
    """A token bucket for each pod, the most recent `limit` of them."""

    def __init__(
        self, *, burst: int = BURST, refill_s: float = REFILL_S, limit: int = 10_000
    ) -> None:
        self._burst = burst
        self._refill_ns = refill_s * NS_PER_S
        self._buckets: Recent[str, _Bucket] = Recent(limit)

    def allows(self, uid: str, now_ns: int) -> bool:
        """Whether one more event about this pod may be written; counts it if so."""
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = _Bucket(self._burst, now_ns)
            self._buckets.put(uid, bucket)
        passed_ns = max(0, now_ns - bucket.filled_ns)  # a wall clock may be set back
        bucket.tokens = min(self._burst, bucket.tokens + passed_ns / self._refill_ns)
        bucket.filled_ns = now_ns
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
