"""Structured logs to standard error: JSON for machines, aligned columns for a terminal."""

import logging
import sys

import structlog

from fairlead.model.errors import ConfigError

LEVELS = ("debug", "info", "warning", "error")


def set_up(level: str) -> None:
    if level.lower() not in LEVELS:
        raise ConfigError(f"LOG_LEVEL {level!r} is unknown; use one of {', '.join(LEVELS)}")
    people = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
