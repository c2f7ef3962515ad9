"""The arena, shared by all of these tests, and what they covered, printed at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.arena import Arena, Result
from oracle.case import Case
from oracle.coverage import Coverage
from oracle.generate import FEATURES
from oracle.generate_claims import CLAIMS

COVERAGE = pytest.StashKey[Coverage]()


class Results:
    """Results by case; each runs once, whoever asks first."""

    def __init__(self, arena: Arena, coverage: Coverage) -> None:
        self.arena = arena
        self.coverage = coverage
        self._done: dict[str, Result] = {}

    def of(self, case: Case) -> Result:
        if case.name not in self._done:
            result = self._done[case.name] = self.arena.run(case)
            self.coverage.add(result)
        return self._done[case.name]


@pytest.fixture(scope="session")
def arena(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with Arena.start(assets, tmp_path_factory.mktemp("oracle")) as arena:
        yield arena


@pytest.fixture(scope="session")
def results(arena: Arena, pytestconfig: pytest.Config) -> Results:
    coverage = pytestconfig.stash[COVERAGE] = Coverage({*FEATURES, CLAIMS}, arena.minor)
    return Results(arena, coverage)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    coverage = config.stash.get(COVERAGE, None)
    if coverage is not None:
        terminalreporter.section("branches of kube-scheduler's rules that probes took")
        for line in coverage.lines():
            terminalreporter.write_line(line)
