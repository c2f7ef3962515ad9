#!/usr/bin/env python3
"""The tests of tests/peers: controllers of other projects, as they are released, beside Fairlead.

    make test-peers                   # builds each of them once, several minutes each
    make test-peers ARGS="-k volcano" # arguments go to pytest

A controller that cannot be built is named, and its tests are skipped. Cluster Autoscaler is not
built: $FAIRLEAD_CLUSTER_AUTOSCALER names its program, with the KWOK provider, or its tests are
skipped.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "controlplane"))

from parts import PEER_PARTS  # noqa: E402


def main(arguments: Sequence[str]) -> int:
    folders = {name: folder for name in PEER_PARTS if (folder := _built(name))}
    programs = [f"{folder}/{name}" for name, folder in folders.items()]
    os.environ["FAIRLEAD_PEERS"] = ",".join([*programs, *_given()])
    command = [sys.executable, "-m", "pytest", "tests/peers", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _given() -> list[str]:
    """Programs of others that cannot be built here."""
    autoscaler = os.environ.get("FAIRLEAD_CLUSTER_AUTOSCALER", "")
    if not os.access(autoscaler, os.X_OK):
        print("test-peers: FAIRLEAD_CLUSTER_AUTOSCALER names no program; its tests are skipped")
        return []
    return [autoscaler]


def _built(name: str) -> str:
    began = time.monotonic()
    command = [sys.executable, str(ROOT / "controlplane" / "build.py"), name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"test-peers: {name} is not built; its tests are skipped")
        return ""
    print(f"test-peers: {name} is there, after {time.monotonic() - began:.0f} s", flush=True)
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
