"""Tries mutants: each with the tests that come to it, until one fails.

With plain tests first each alone, in forks of a process that has imported everything, the most
promising tests first. Of what is left many mutants are switched on together, for all their tests
in new processes: nearly all of them pass, and one run says so for all of these mutants. Then each
is tried alone with those that failed. A mutant is alive when all tests that come to it have passed.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import TypeVar

from mutants.copies import Copy, Ended, Fork, Forks
from mutants.covering import Case, Cover
from mutants.mutant import Mutant
from mutants.results import OPEN, Result, Results

#: Of tests of a mutant alone; what is left is tried with others together.
ALONE_S = 60.0
SERVER_S = 240.0
WORKERS = 2
_Worker = TypeVar("_Worker")


@dataclass(slots=True)
class Trial:
    """What all mutants are tried with."""

    copy: Copy
    cover: Cover
    results: Results
    before: dict[int, str]  # number of a mutant -> the test that killed it before
    by: str = "plain"

    def plain(self, mutants: Sequence[Mutant], group: int) -> None:
        new = [each for each in mutants if not self.results[each].result]
        if new:
            self._in_forks(new)
        left = [each for each in mutants if self.results[each].result == OPEN]
        for start in range(0, len(left), group):
            self._together(left[start : start + group])

    def server(self, mutants: Sequence[Mutant]) -> None:
        """Those that are alive, once."""
        left = [each for each in mutants if self.results[each].word == "alive"]
        self._each(left, [self.copy] * WORKERS, self._with_server)

    def _tests(self, mutant: Mutant) -> list[Case]:
        return self.cover.of(mutant, [self.before.get(mutant.number, "")])

    def _in_forks(self, mutants: Sequence[Mutant]) -> None:
        names = {test.name for each in mutants for test in first(self._tests(each), ALONE_S)}
        forks = Forks(self.copy, sorted(names), WORKERS)
        self._each(mutants, forks.all, self._in_fork)
        forks.end()

    def _in_fork(self, fork: Fork, mutant: Mutant) -> Result:
        tests = self._tests(mutant)
        few = first(tests, ALONE_S)
        if not tests:
            return replace(self.results[mutant], result="alive", test="no plain test comes to it")
        result = self._until_killed(
            mutant, few, lambda left: fork.run(mutant.number, _names(left), _limit_s(left))
        )
        is_open = result.result == "alive" and len(few) < len(tests)
        return replace(result, result=OPEN) if is_open else result

    def _together(self, mutants: Sequence[Mutant]) -> None:
        if len(mutants) == 1:
            self._finish(mutants[0], self._alone(mutants[0], self._tests(mutants[0])))
            return
        tests = {test.name: test for each in mutants for test in self._tests(each)}
        chosen = sorted(tests.values(), key=lambda test: test.name)
        print(f"{len(mutants)} mutants together, with {len(chosen)} tests", flush=True)
        ended = self._run(mutants, chosen, "-n", str(WORKERS), "--dist", "worksteal")
        if ended.in_time and all(self.cover[name] for name in ended.failed):
            self._one_by_one(mutants, set(ended.failed))
        else:  # of some file no test could be collected, or something hangs
            self._together(mutants[: len(mutants) // 2])
            self._together(mutants[len(mutants) // 2 :])

    def _one_by_one(self, mutants: Sequence[Mutant], failed: set[str]) -> None:
        print(f"{len(failed)} of them failed", flush=True)
        for mutant in mutants:
            suspects = [test for test in self._tests(mutant) if test.name in failed]
            self._finish(mutant, self._alone(mutant, suspects))

    def _with_server(self, _: Copy, mutant: Mutant) -> Result:
        tests = self._tests(mutant)
        few = first(tests, SERVER_S, slow_too=True)
        result = self._alone(mutant, few, SECONDS=str(SERVER_S))
        said = f"{len(few)} of {len(tests)} server tests that come to it"
        return replace(result, by=result.by or "server", test=result.test or said)

    def _alone(self, mutant: Mutant, tests: list[Case], **environment: str) -> Result:
        """What becomes of it with these tests in new processes."""

        def run(left: list[Case]) -> tuple[bool, str]:
            ended = self._run([mutant], left, "-x", **environment)
            in_time = ended.in_time and "Timeout (>" not in ended.output
            return in_time, (ended.failed or [""])[0]

        return self._until_killed(mutant, tests, run)

    def _until_killed(
        self, mutant: Mutant, tests: list[Case], run: Callable[[list[Case]], tuple[bool, str]]
    ) -> Result:
        """A test that fails once, and not again, has not killed it."""
        result = replace(self.results[mutant], result="alive", by="", test="")
        while tests:
            in_time, failed = run(tests)
            if not in_time:
                return replace(result, result="timeout", by=self.by, test=failed)
            if not failed:
                return result
            suspect = self.cover[failed]
            if suspect is None or run([suspect]) != (True, ""):
                self.cover.killed(failed)
                by = "slow" if suspect and suspect.slow else self.by
                return replace(result, result="killed", by=by, test=failed)
            tests = tests[tests.index(suspect) + 1 :]
        return result

    def _run(
        self, mutants: Sequence[Mutant], tests: list[Case], *arguments: str, **environment: str
    ) -> Ended:
        files = sorted({test.file for test in tests})
        environment |= {
            "MUTANTS": ",".join(str(each.number) for each in mutants),
            "PICKED": self.copy.picked(_names(tests)),
        }
        return self.copy.pytest([*arguments, *files], 300 + _limit_s(tests), **environment)

    def _each(
        self,
        mutants: Sequence[Mutant],
        workers: Sequence[_Worker],
        task: Callable[[_Worker, Mutant], Result],
    ) -> None:
        """With as many at a time as there are workers."""
        free: Queue[_Worker] = Queue()
        for worker in workers:
            free.put(worker)
        began, done = time.monotonic(), Queue[Result]()

        def one(mutant: Mutant) -> None:
            worker, start = free.get(), time.monotonic()
            try:
                result = task(worker, mutant)
            finally:
                free.put(worker)
            spent_s = self.results[mutant].seconds + time.monotonic() - start
            done.put(result)
            left_s = (time.monotonic() - began) / done.qsize() * (len(mutants) - done.qsize())
            print(f"{done.qsize()}/{len(mutants)}, {left_s / 60:.0f} min left:", end=" ")
            self._finish(mutant, replace(result, seconds=round(spent_s, 1)))

        with ThreadPoolExecutor(len(workers)) as pool:
            list(pool.map(one, mutants))

    def _finish(self, mutant: Mutant, result: Result) -> None:
        self.results.add(result)
        place = f"{Path(mutant.file).name}:{mutant.line} {mutant.operator}"
        print(f"{mutant.number} {place}: {result.word} {result.test}", flush=True)


def first(tests: list[Case], seconds: float, *, slow_too: bool = False) -> list[Case]:
    """The first of them that take no longer together, file by file."""
    chosen: list[Case] = []
    for test in tests:
        if (slow_too or not test.slow) and test.seconds <= seconds:
            chosen.append(test)
            seconds -= test.seconds
    files = list(dict.fromkeys(test.file for test in chosen))
    return sorted(chosen, key=lambda test: files.index(test.file))


def _names(tests: list[Case]) -> list[str]:
    return [test.name for test in tests]


def _limit_s(tests: list[Case]) -> float:
    """A multiple of the time that they take."""
    return 60 + 5 * sum(test.seconds for test in tests)
