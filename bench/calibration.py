"""The simulator against figures of the Muri traces: average completion times, to the second.

python bench/calibration.py DATA [--traces trace3 …] [--policies srtf …]

SRTF and SRSF are raw results of the artifact (SIGCOMM'22). The others were computed by a program
that shares no code with the simulator. Exits with 1 if a figure differs by a second or more.
"""

import argparse
import sys
from pathlib import Path

from fairlead.apps.simulate import SimOptions, runs_of

#: Average completion times in seconds on traces 1, 3 and 4.
PUBLISHED = {
    "srtf": {"trace1": 1_370_603, "trace3": 193_082, "trace4": 581_983},
    "srsf": {"trace1": 980_141, "trace3": 185_022, "trace4": 487_167},
    "fifo-strict": {"trace1": 11_255_042, "trace3": 1_053_201, "trace4": 4_239_384},
    "fifo": {"trace1": 5_748_126, "trace3": 520_028, "trace4": 3_025_482},
    "sjf": {"trace1": 1_942_222, "trace3": 247_466, "trace4": 788_903},
    "ssf-easy": {"trace1": 1_322_941, "trace3": 241_679, "trace4": 577_575},
    # Trace 1 by the program of tests/sim/test_exact_starts.py; another one came to 7,035,643.
    "fifo-easy": {"trace1": 7_040_940, "trace3": 455_281, "trace4": 2_203_046},
}


def main() -> int:
    options = _options()
    wrong = 0
    for trace in options.traces:
        chosen = SimOptions([f"muri/{trace}"], options.policies, options.data)
        for run in runs_of(chosen):
            published = PUBLISHED[run.policy][trace]
            differs = abs(run.figures.jct_s - published) > 1.0
            wrong += differs
            print(
                f"{run.trace}  {run.policy:12} {run.figures.jct_s:14,.1f} {published:12,}  "
                f"{'DIFFERS' if differs else 'agrees'}  {run.events_per_s:,} events/s",
                flush=True,
            )
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder that contains muri/")
    parser.add_argument("--traces", nargs="+", default=["trace1", "trace3", "trace4"])
    parser.add_argument("--policies", nargs="+", choices=PUBLISHED, default=list(PUBLISHED))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
