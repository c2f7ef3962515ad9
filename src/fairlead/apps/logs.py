"""Structured logs to standard error: JSON for machines, aligned columns for a terminal."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

from fairlead.model.errors import ConfigError

_encoder = msgspec.json.Encoder(enc_hook=str)
LEVELS = ("debug", "info", "warning", "error")


def set_up(level: str) -> None:
    if level.lower() not in LEVELS:
        raise ConfigError(f"LOG_LEVEL {level!r} is unknown; use one of {', '.join(LEVELS)}")
    people = sys.stderr.isatty()
    render = structlog.dev.ConsoleRenderer() if people else _as_json
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    # A refused backlog is a line a pod, and msgspec writes one in a tenth of json's time.
    return _encoder.encode(event).decode()
