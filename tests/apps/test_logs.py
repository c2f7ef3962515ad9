"""Logs: a readable line on a terminal, JSON anywhere else."""

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from fairlead.apps import logs
from fairlead.model.errors import ConfigError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def written(monkeypatch: pytest.MonkeyPatch, out: io.StringIO) -> str:
    monkeypatch.setattr(sys, "stderr", out)
    logs.set_up("info")
    log = structlog.get_logger("test")
    log.debug("left out")
    log.info("bound", pod="ns/p", node="n1", gpus=["GPU-0", "GPU-1"], ms=12.5)
    log.warning("not scheduled", message="0/1 nodes\x1b[2J are available")
    return out.getvalue()


def test_on_a_terminal_a_line_is_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    first, second = written(monkeypatch, Terminal()).splitlines()
    assert first[8:] == " info    bound pod=ns/p node=n1 gpus=GPU-0,GPU-1 ms=12.5"
    assert second[8:] == r" warning not scheduled message='0/1 nodes\x1b[2J are available'"


def test_a_warning_stands_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    first, second = written(monkeypatch, Terminal()).splitlines()
    assert "\x1b" not in first
    assert "\x1b[33mwarning\x1b[0m not scheduled" in second


def test_elsewhere_a_line_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = map(json.loads, written(monkeypatch, io.StringIO()).splitlines())
    assert first.items() >= {"event": "bound", "level": "info", "gpus": ["GPU-0", "GPU-1"]}.items()
    assert first["timestamp"].endswith("Z")


@pytest.mark.parametrize("out", [Terminal(), io.StringIO()])
def test_an_exception_comes_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, out: io.StringIO
) -> None:
    monkeypatch.setattr(sys, "stderr", out)
    logs.set_up("info")
    try:
        int("oops\x1b[2J")
    except ValueError as error:
        structlog.get_logger("test").error("internal error", exc_info=error)
    assert "test_logs.py" in out.getvalue()
    assert "ValueError: invalid literal" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


def test_a_level_that_is_not_known() -> None:
    with pytest.raises(ConfigError, match="'loud' is unknown; use one of debug, info"):
        logs.set_up("loud")
