"""Where `fairlead up` logs to: standard error, or a file while a live view has the terminal."""

import logging
import os
from pathlib import Path

import structlog

from fairlead.apps import logs

_LEVEL = "warning"


def set_up(*, live: bool) -> None:
    if not live:
        logs.set_up(os.environ.get("LOG_LEVEL") or _LEVEL)
        return
    path = log_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=path, filemode="w", level=logging.WARNING, force=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(path.open("a", encoding="utf-8", buffering=1)),
        cache_logger_on_first_use=True,
    )


def log_file() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("FAIRLEAD_CACHE") or Path(xdg) / "fairlead") / "up.log"
