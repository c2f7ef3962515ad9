"""Times of objects as seconds since 1970."""

from datetime import UTC, datetime


def seconds_of(text: str) -> float:
    """0 if it is no time as the API server writes it."""
    try:
        return datetime.fromisoformat(text[:40]).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def text_of_time(at_s: float) -> str:
    """To the second."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
