"""What the API server answered: any status at all, with its body and its wish to be left alone."""

import time
from email.utils import mktime_tz, parsedate_tz

import msgspec

from fairlead.model.lazy_dataclass import dataclass

#: A server that asks for longer than this is asking for an outage of ours.
LONGEST_RETRY_AFTER_S = 300.0
#: What reading hostile JSON may raise.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_SHORT_CHARS = 300


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None


_statuses = msgspec.json.Decoder(_Status)


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer. Refusals are answers too: look at `status`."""

    status: int
    body: bytes
    retry_after_s: float | None = None

    @property
    def message(self) -> str:
        """The server's own words in one short line, for people."""
        return message_of(self.status, self.body)


def message_of(status: int, body: bytes) -> str:
    """The message of a Status object, or the first words of whatever else was sent."""
    try:
        said = _statuses.decode(body)
        text = said.message or said.reason or ""
    except UNREADABLE:
        text = body[:_SHORT_CHARS].decode("utf-8", "backslashreplace")
    words = " ".join(text.split())
    short = words if len(words) <= _SHORT_CHARS else words[: _SHORT_CHARS - 1] + "…"
    return short or f"HTTP {status}"


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a Retry-After header of seconds or of a date; None if it has no sense.

    >>> parse_retry_after("1"), parse_retry_after("soon"), parse_retry_after("86400")
    (1.0, None, 300.0)
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_RETRY_AFTER_S)
    date = parsedate_tz(text)
    if date is None:
        return None
    try:
        wait_s = mktime_tz(date) - time.time()
    except (OverflowError, ValueError):
        return None
    return min(max(wait_s, 0.0), LONGEST_RETRY_AFTER_S)
