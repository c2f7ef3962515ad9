"""Thousands of random cases through kube-scheduler and Fairlead: do they agree?

    python bench/oracle.py --cases 2000 --seed 1     2,000 clusters, 8 pods each
    python bench/oracle.py --seed 17 --cases 1 --minimise
                                                     shrink what differs, keep it as a regression
    python bench/oracle.py --kubernetes 1.37         against another version
    python bench/oracle.py --scheduler packs         one configuration, instead of all in turn
    python bench/oracle.py --claims --cases 300      devices of drivers and resource claims

Prints every difference as it is found, and at the end the branches of the rules that were taken.
Exits with 1 if there was a difference.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ground import ROOT, assets, say

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]  # the suite is the tests' own

from oracle.arena import Arena, Result  # noqa: E402
from oracle.configurations import ARGUMENTS, DEFAULT, in_turn  # noqa: E402
from oracle.coverage import Coverage, shown  # noqa: E402
from oracle.generate import ALL_FEATURES, FEATURES, generate  # noqa: E402
from oracle.generate_claims import CLAIMS, generate_claims  # noqa: E402
from oracle.minimise import REGRESSIONS, minimise  # noqa: E402


def main() -> None:
    options = _options()
    programs = assets("--kubernetes", options.kubernetes) if options.kubernetes else assets()
    features = [CLAIMS] if options.claims else sorted(options.features)
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-oracle-") as folder,
        Arena.start(programs, Path(folder)) as arena,
    ):
        coverage = Coverage(features, arena.minor)
        say(f"Kubernetes 1.{arena.minor}, features: {', '.join(features)}")
        with _progress() as progress:
            _run(arena, options, coverage, progress)
        print("\n".join(coverage.lines()), flush=True)
    print(f"again: python bench/oracle.py {' '.join(sys.argv[1:])}")
    sys.exit(1 if coverage.differences else 0)


def _run(arena: Arena, options: argparse.Namespace, coverage: Coverage, progress: Progress) -> None:
    bar = progress.add_task("cases", total=options.cases, differences=0)
    for seed in range(options.seed, options.seed + options.cases):
        asked = options.scheduler or (in_turn(seed) if "arguments" in options.features else DEFAULT)
        case = (
            generate_claims(seed)
            if options.claims
            else generate(seed, options.features, calm=options.calm, scheduler=asked)
        )
        result = arena.run(case)
        coverage.add(result)
        _tell(progress.console, result)
        if options.minimise:
            _keep(arena, result)
        progress.update(bar, advance=1, differences=len(coverage.differences))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1000, help="of the first case")
    parser.add_argument("--kubernetes", metavar="X.Y", help="the version to build and run")
    parser.add_argument(
        "--scheduler", choices=sorted(ARGUMENTS), help="ask this one alone; else all in turn"
    )
    parser.add_argument("--claims", action="store_true", help="devices and resource claims instead")
    parser.add_argument("--calm", action="store_true", help="roomy clusters, where scores decide")
    parser.add_argument(
        "--minimise", action="store_true", help=f"keep differences in {REGRESSIONS}"
    )
    parser.add_argument(
        "--features",
        type=lambda text: frozenset(text.split(",")),
        default=FEATURES,
        help=f"comma-separated, of {', '.join(sorted(ALL_FEATURES))}",
    )
    options = parser.parse_args()
    if unknown := options.features - ALL_FEATURES:
        parser.error(
            f"no feature is named {', '.join(sorted(unknown))}; see --help for those there are"
        )
    return options


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[differences]} differences"),
        console=Console(stderr=True),
    )


def _tell(console: Console, result: Result) -> None:
    for found in result.differences:
        console.print(shown(result.case.name, found), markup=False, highlight=False, soft_wrap=True)


def _keep(arena: Arena, result: Result) -> None:
    """One regression for each kind of difference in the case."""
    for found in {found.kind: found for found in result.differences}.values():
        path = minimise(arena, result.case, found).write(REGRESSIONS)
        say(f"kept in {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
