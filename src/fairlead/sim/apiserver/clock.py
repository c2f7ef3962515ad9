"""Time as Kubernetes writes it."""

import time
from datetime import UTC, datetime
from functools import lru_cache


def now_text(after_s: float = 0) -> str:
    return _second_text(int(time.time() + after_s))


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    return as_text(datetime.fromtimestamp(second, UTC))


def as_text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_since(text: str | None) -> float | None:
    """Seconds since a timestamp; None when there is none or it cannot be read."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(str(text))).total_seconds()
    except ValueError:
        return None


def age(text: str | None) -> str:
    """A timestamp as `kubectl get` shows it: `5d`, `3m20s`, `<unknown>`."""
    seconds = seconds_since(text)
    return "<unknown>" if seconds is None else duration(seconds)


def duration(total: float) -> str:
    """A length of time in two units at most, as kubectl rounds it."""
    seconds = int(total)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
