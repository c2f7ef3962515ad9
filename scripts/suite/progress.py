"""A pytest plug-in for long runs: a line every five seconds, and each failure as it happens.

`pytest -p scripts.suite.progress`. With several workers it speaks for all of them. Without it,
pytest prints a dot a test, which in a log is nothing until a line is full.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import pytest

EVERY_S = 5.0


#: Why a test is left out: the first of these that it has.
_REASONS = ("slow", "server", "program")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(LeftOut(), "fairlead-left-out")
    else:
        config.pluginmanager.register(Progress(), "fairlead-progress")


class LeftOut:
    """In a worker: counts the tests that are not picked, and says so to the process above it."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            marks = (mark for mark in _REASONS if item.get_closest_marker(mark))
            self._reasons[next(marks, "not asked for")] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.config.workeroutput["left out"] = dict(self._reasons)  # type: ignore[attr-defined]


class Progress:
    """Counts reports, and prints from a thread of its own, so that a long test is seen as well."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._total = self._done = self._failed = 0
        self._left_out: dict[str, int] = {}
        self._running: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self._total = len(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._left_out = getattr(node, "workeroutput", {}).get("left out", self._left_out)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = ", ".join(f"{count} {reason}" for reason, count in self._left_out.items())
        if counts:
            terminalreporter.write_line(f"left out in these folders: {counts}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = len(session.items) or self._total

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._done += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed += 1
            self._print(f"FAILED {report.nodeid} ({report.when})")

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, tuple[str, str, Any]]:
        """No dots and no letters: the lines say how far it is."""
        category, _, word = yield
        return category, "", word

    def _speak(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._print(self._line())

    def _line(self) -> str:
        took = time.monotonic() - self._began
        if not self._total:
            return f"collecting, {took:.0f} s"
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._done} of {self._total}{failed}, {took:.0f} s{self._longest()}"

    def _longest(self) -> str:
        """The test that has run for longest, if a person would begin to wonder."""
        running = list(self._running.items())
        name, since = min(running, key=lambda one: one[1], default=("", 0.0))
        lasted = time.monotonic() - since
        return f"; {name.rpartition('/')[2]} for {lasted:.0f} s" if name and lasted > 10 else ""

    def _print(self, line: str) -> None:
        # pytest captures the standard output of tests, not the file behind it at its start.
        print(line, file=sys.__stdout__, flush=True)
