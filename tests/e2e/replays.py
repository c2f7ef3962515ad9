"""`fairlead replay` of the decision log of a scheduler."""

import subprocess
from pathlib import Path

from fairleads import FAIRLEAD, PATIENCE_S


def replayed(directory: Path, seed: str, *options: str) -> str:
    done = subprocess.run(
        [str(FAIRLEAD), "replay", str(directory), *options],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PYTHONHASHSEED": seed},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout
