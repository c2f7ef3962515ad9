"""A plug-in of pytest in the copy: which tests run, in which order, and what they come to.

PICKED         file with the tests to run, one a line, in this order; all others are left out
FAILED         file for the names of the tests that fail
SECONDS        no test begins later than this many seconds after the first one
MUTANTS_FOUND  folder to record in which tests come to which mutants
TASKS          pairs of pipes: tasks come in, and their results go out; see Tasks
"""

import contextlib
import json
import os
import resource
import select
import signal
import time
from pathlib import Path

import pytest
from mutant_switch import hits, in_pytest, switch_on

#: A mutant may ask for memory without end.
_MEMORY_BYTES = 8 << 30
_PASSED = "passed"
_LATE = "\nlate"


def pytest_configure(config):
    said, plugins = os.environ, config.pluginmanager
    if "FAILED" in said and not hasattr(config, "workerinput"):
        plugins.register(Failures(Path(said["FAILED"])))
    if "SECONDS" in said:
        plugins.register(Limit(float(said["SECONDS"])))
    if "MUTANTS_FOUND" in said:
        plugins.register(Record(Path(said["MUTANTS_FOUND"])))
    if "TASKS" in said:
        plugins.register(Tasks(said.pop("TASKS").split(" ")))


@pytest.hookimpl(trylast=True)  # after the order that fixtures ask for
def pytest_collection_modifyitems(items):
    if picked := os.environ.get("PICKED"):
        names = Path(picked).read_text(encoding="utf-8").splitlines()
        places = {name: place for place, name in enumerate(names)}
        chosen = [item for item in items if item.nodeid in places]
        items[:] = sorted(chosen, key=lambda item: places[item.nodeid])


class Failures:
    def __init__(self, file):
        self._file = file

    def pytest_collectreport(self, report):
        self.pytest_runtest_logreport(report)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(f"{report.nodeid}\n")


class Limit:
    def __init__(self, seconds):
        self._seconds = seconds
        self._began = None

    def pytest_runtest_protocol(self, item):
        self._began = self._began or time.monotonic()
        if time.monotonic() - self._began > self._seconds:
            pytest.exit(f"{self._seconds} s are over", returncode=0)


class Record:
    """One line for each test. What a shared fixture comes to counts for each test that uses it."""

    def __init__(self, folder):
        self._now = folder / f"{os.getpid()}.now"
        self._now.write_bytes(bytes(8))
        os.environ["MUTANTS_TEST"] = str(self._now)
        in_pytest()
        self._of_fixtures = {}
        self._row = {"number": 0}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._row = {
            "number": self._row["number"] + 1,
            "test": item.nodeid,
            "passed": True,
            "slow": item.get_closest_marker("slow") is not None,
        }
        self._began = time.monotonic()
        with self._now.open("r+b") as file:
            file.write(self._row["number"].to_bytes(8, "big"))
        hits.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        before = set(hits)
        hits.clear()
        try:
            return (yield)
        finally:
            self._of_fixtures.setdefault(fixturedef, set()).update(hits)
            hits.update(before)

    def pytest_runtest_logreport(self, report):
        if not report.passed:
            self._row["passed"] = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield)
        finally:
            shared = item._fixtureinfo.name2fixturedefs.values()
            used = [self._of_fixtures.get(one, ()) for group in shared for one in group]
            self._row["seconds"] = round(time.monotonic() - self._began, 3)
            self._row["mutants"] = sorted(set(hits).union(*used))
            with open(f"{self._now}.tests", "a", encoding="utf-8") as file:
                file.write(json.dumps(self._row) + "\n")


class Tasks:
    """Runs tests in forks of this process, which has imported everything and run nothing.

    A task is a line of JSON: the number of a mutant, names of tests, and the longest time that
    they may take. The answer is the name of the first test that failed, and whether this time and
    that of each test were enough.
    """

    def __init__(self, pairs):
        self._pairs = [tuple(map(int, pair.split(","))) for pair in pairs]
        self._failed: str | None = None

    def pytest_runtestloop(self, session):
        """Each pair has a process of its own that takes its tasks one after the other."""
        session.config._tmp_path_factory.getbasetemp()  # shared by all, and removed at the end
        items = {item.nodeid: item for item in session.items}
        for pair in self._pairs[1:]:
            if not os.fork():
                self._serve(*pair, items)
                os._exit(0)
        self._serve(*self._pairs[0], items)
        return True

    def _serve(self, incoming, outgoing, items):
        with os.fdopen(incoming) as tasks, os.fdopen(outgoing, "w", 1) as answers:
            for line in tasks:
                task = json.loads(line)
                chosen = [items[name] for name in task["tests"] if name in items]
                answers.write(json.dumps(self._forked(task, chosen)) + "\n")

    def pytest_runtest_logreport(self, report):
        if report.failed and not self._failed:
            self._failed = f"{report.nodeid}{_LATE if 'Timeout (>' in report.longreprtext else ''}"

    def _forked(self, task, items):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            self._run(task["mutant"], items, write)
        os.close(write)
        in_time = bool(select.select([read], [], [], task["limit_s"])[0])
        failed = os.read(read, 65536).decode() if in_time else _LATE
        failed = failed.removeprefix(_PASSED) or ("" if failed else "ended by the mutant")
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with the programs that tests have left
        os.waitpid(child, 0)
        return {"failed": failed.removesuffix(_LATE), "in_time": not failed.endswith(_LATE)}

    def _run(self, mutant, items, write):
        answer = "broken by the mutant"
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
            switch_on(mutant)
            answer = self._first_failure(items)
        finally:
            os.write(write, answer.encode())
            os._exit(0)

    def _first_failure(self, items):
        for item, following in zip(items, [*items[1:], None], strict=False):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                with contextlib.suppress(Exception):
                    item.session._setupstate.teardown_exact(None)
                break
        return self._failed or _PASSED
