"""Structured logs to standard error: JSON for machines, a readable line for a terminal."""

import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

from fairlead.model.errors import ConfigError

_encoder = msgspec.json.Encoder(enc_hook=str)
LEVELS = ("debug", "info", "warning", "error")
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m"}
_PLAIN = "\x1b[0m"


def set_up(level: str) -> None:
    if level.lower() not in LEVELS:
        raise ConfigError(f"LOG_LEVEL {level!r} is unknown; use one of {', '.join(LEVELS)}")
    people = sys.stderr.isatty()
    stamp = structlog.processors.TimeStamper(
        fmt="%H:%M:%S" if people else "iso", utc=not people
    )  # fmt: skip
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            _for_people if people else _as_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    # A line a pod, and msgspec writes one in a tenth of json's time.
    return _encoder.encode(event).decode()


def _for_people(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    level = str(event.pop("level"))
    colour = "" if "NO_COLOR" in os.environ else _COLOURS.get(level, "")
    shown = f"{colour}{level:<7}{_PLAIN}" if colour else f"{level:<7}"
    trace = str(event.pop("exception", ""))
    line = [event.pop("timestamp"), shown, event.pop("event"), *map(_pair, event.items())]
    return "\n".join([" ".join(line), *map(_harmless, trace.splitlines())])


def _pair(item: tuple[str, Any]) -> str:
    """`key=value`, with quotes where there are spaces."""
    key, value = item
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{key}={text!r}" if not text or " " in text else f"{key}={_harmless(text)}"


def _harmless(text: str) -> str:
    """What users wrote may be in it: it must not control the terminal."""
    return text if text.isprintable() else repr(text)
