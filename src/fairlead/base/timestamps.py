"""Times as Kubernetes writes them."""

import time
from functools import lru_cache


def micro_time(now_ns: int) -> str:
    """Kubernetes' MicroTime: `2026-01-02T03:04:05.000006Z`."""
    seconds, rest_ns = divmod(now_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest_ns // 1000:06d}Z"


def second_time(now_ns: int) -> str:
    """Kubernetes' Time: `2026-01-02T03:04:05Z`."""
    return _second(now_ns // 1_000_000_000) + "Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
