"""Structured logs to standard error: JSON for machines, a readable line for a terminal."""

import logging
import os
import sys
import time
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

from fairlead.base.timestamps import micro_time
from fairlead.model.errors import ConfigError

_with_trace = structlog.processors.format_exc_info
_encoder = msgspec.json.Encoder(enc_hook=str)
LEVELS = ("debug", "info", "warning", "error")
#: Names of methods that are not those of their level.
_LEVELS = {"exception": "error", "warn": "warning"}
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m"}
_PLAIN = "\x1b[0m"


def set_up(level: str) -> None:
    if level.lower() not in LEVELS:
        raise ConfigError(f"LOG_LEVEL {level!r} is unknown; use one of {', '.join(LEVELS)}")
    structlog.configure(
        processors=[_for_people if sys.stderr.isatty() else _as_json],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _as_json(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    # A line a pod: one step instead of structlog's four, and msgspec instead of json.
    if "exc_info" in event:
        event = _with_trace(logger, method, event)
    event["level"] = _LEVELS.get(method, method)
    event["timestamp"] = micro_time(time.time_ns())
    return _encoder.encode(event).decode()


def _for_people(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    event = _with_trace(logger, method, event)
    level = _LEVELS.get(method, method)
    colour = "" if "NO_COLOR" in os.environ else _COLOURS.get(level, "")
    shown = f"{colour}{level:<7}{_PLAIN}" if colour else f"{level:<7}"
    trace = str(event.pop("exception", ""))
    line = [time.strftime("%H:%M:%S"), shown, event.pop("event"), *map(_pair, event.items())]
    return "\n".join([" ".join(line), *map(_harmless, trace.splitlines())])


def _pair(item: tuple[str, Any]) -> str:
    """`key=value`, with quotes where there are spaces."""
    key, value = item
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{key}={text!r}" if not text or " " in text else f"{key}={_harmless(text)}"


def _harmless(text: str) -> str:
    """What users wrote may be in it: it must not control the terminal."""
    return text if text.isprintable() else repr(text)
