#!/usr/bin/env python3
"""Small faults put into src one by one: does a test notice each of them?

    make mutants                       # 300 mutants with the plain tests; less than an hour
    make mutants ARGS="--area gangs"   # those of one area; --only 17,18 for single ones
    make mutants ARGS=--again          # from the beginning; without it, it goes on
    make mutants-server                # those still alive, with the server tests, 4 minutes each
    .venv/bin/python scripts/mutants.py compare     # killed before, and not now
    .venv/bin/python scripts/mutants.py draw        # writes tests/mutants/list.csv anew

tests/mutants/list.csv has the mutants, before.csv the results with the tests as they were when the
list was drawn, after.csv the last ones. Which tests come to a mutant is recorded once, in
build/mutants, and again with --again.
"""

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from scripts.suite.parts import LIVE, LIVE_OPTIONS, PLAIN, PLAIN_OPTIONS  # noqa: E402

from mutants import covering, drawing, mutant  # noqa: E402
from mutants.copies import Copy  # noqa: E402
from mutants.results import KILLED, Results, lost, read  # noqa: E402
from mutants.trying import Trial  # noqa: E402

WORK = ROOT / "build" / "mutants"
TESTS = ROOT / "tests" / "mutants"
SUITES = {"plain": (PLAIN, *PLAIN_OPTIONS), "server": (LIVE, *LIVE_OPTIONS)}


def main() -> int:
    options = _options()
    if options.what == "draw":
        mutant.write(drawing.drawn())
        return 0
    if options.what in SUITES:
        _try(options)
    return _compare(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["draw", *SUITES, "compare"])
    parser.add_argument("--out", type=Path, default=TESTS / "after.csv", help="the results")
    parser.add_argument("--area", choices=list(drawing.AREAS), help="only this one")
    parser.add_argument("--only", default="", help="numbers of mutants")
    parser.add_argument("--group", type=int, default=25, help="mutants together, at the end")
    parser.add_argument("--marks", help="record only tests with these: 'server and not slow'")
    parser.add_argument("--again", action="store_true", help="forget what was recorded")
    return parser.parse_args()


def _try(options: argparse.Namespace) -> None:
    mutants = mutant.read()
    copy = Copy(WORK / "copy", mutants)
    cover = _cover(copy, options)
    if options.again and options.what == "plain":
        options.out.unlink(missing_ok=True)
    results = Results(options.out)
    for each in mutants:
        if each.number in copy.gone:
            results.add(replace(results[each], result="gone", test=copy.gone[each.number]))
    before = {each.number: each.test for each in read(TESTS / "before.csv")}
    trial = Trial(copy, cover, results, before, by=options.what)
    if options.what == "plain":
        trial.plain(_chosen(mutants, options), options.group)
    else:
        trial.server(_chosen(mutants, options))


def _chosen(mutants: list[mutant.Mutant], options: argparse.Namespace) -> list[mutant.Mutant]:
    numbers = {int(number) for number in options.only.split(",") if number}
    chosen = [each for each in mutants if not numbers or each.number in numbers]
    return [each for each in chosen if options.area in (None, each.area)]


def _cover(copy: Copy, options: argparse.Namespace) -> covering.Cover:
    file = WORK / f"{options.what}.jsonl"
    if options.again or not file.exists():
        print("recording which tests come to which mutants, in one run of them", flush=True)
        marks, *how = SUITES[options.what]
        ended = covering.record(copy, file, ["-m", options.marks or marks, *how])
        print(*ended.output.splitlines()[-1:], flush=True)
    cover = covering.Cover(file)
    print(f"{len(cover.cases)} tests; {len(cover.others)} that fail or skip are left out")
    return cover


def _compare(options: argparse.Namespace) -> int:
    """Counts, and what was killed before and is not now."""
    before, after = read(TESTS / "before.csv"), read(options.out)
    for area in drawing.AREAS:
        counts = Counter(each.word for each in after if each.area == area)
        print(f"{area:24}", ", ".join(f"{word} {counts[word]}" for word in sorted(counts)))
    for each in after:
        if each.result not in KILLED:
            print(f"{each.word:16} {each.number} {each.file}:{each.line} {each.operator}")
    gone = lost(before, after)
    for was, now in gone:
        print(f"{was.number} was {was.word}: {was.test}\n    now {now.word} {now.test}")
    print(f"{len(after)} have a result; {len(gone)} were killed before and are not now")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
