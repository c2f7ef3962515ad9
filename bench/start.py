"""What it costs to start: CPU time and modules of the command line, and of the scheduler.

python bench/start.py [--rounds 5]

Each is imported in a fresh process, with bytecode, as an installed package has it. The least of the
rounds is shown.
"""

import argparse
import json
import os
import subprocess
import sys

from ground import compile_sources

#: As the command line does.
_FIRST = "from fairlead.apps.quick_start import load_aiohttp, load_structlog; load_structlog()"
STARTS = {
    "fairlead --help": "import fairlead.apps.cli",
    "fairlead run": f"{_FIRST}; load_aiohttp(); import fairlead.apps.run.run",
    "fairlead explain": f"{_FIRST}; import fairlead.apps.explain.explain",
    "fairlead queue": f"{_FIRST}; import fairlead.apps.queues.queue_command",
    "fairlead top": f"{_FIRST}; import fairlead.apps.top.top",
    "numpy, aiohttp, structlog alone": "import numpy, aiohttp, structlog",
}
_SCRIPT = """
import gc, time
gc.set_threshold(250_000, 4, 100)  # as fairlead.apps.entry does
begun = time.process_time()
{imports}
spent = time.process_time() - begun
import json, sys
ours = sum(name.startswith("fairlead") for name in sys.modules)
print(json.dumps([spent, len(sys.modules), ours]))
"""


def start(imports: str) -> tuple[float, int, int]:
    command = [sys.executable, "-c", _SCRIPT.format(imports=imports)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ)
    spent, modules, ours = json.loads(done.stdout)
    return spent, modules, ours


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    compile_sources()
    for name, imports in STARTS.items():
        spent, modules, ours = min(start(imports) for _ in range(rounds))
        print(f"{name:34}{1000 * spent:7.0f} ms CPU{modules:7} modules, {ours} of Fairlead")


if __name__ == "__main__":
    main()
