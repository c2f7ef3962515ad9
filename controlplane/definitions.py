"""The CustomResourceDefinitions of a controller, taken from its own module as it is built."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from failures import BuildError
from parts import Source


def definitions_of(program: Path) -> Path:
    """The folder of the definitions that belong to a built program."""
    return program.resolve().parent / "definitions"


def copy_definitions(src: Source, go: Path, store: Path, env: Mapping[str, str]) -> None:
    """Copies them from the cache of Go modules into the folder where the program is kept."""
    command = [str(go), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", src.part.module]
    done = subprocess.run(
        command, cwd=src.folder, env=env, capture_output=True, text=True, check=False
    )
    module = Path(done.stdout.strip() or "/nowhere")
    found = [path for pattern in src.part.definitions for path in sorted(module.glob(pattern))]
    if not found:
        raise BuildError(
            f"{src.part.module} {src.version} has no files {', '.join(src.part.definitions)}: "
            f"correct controlplane/parts.py. {done.stderr.strip()}"
        )
    folder = definitions_of(store / src.part.name)
    folder.mkdir(parents=True, exist_ok=True)
    for path in found:
        shutil.copyfile(path, folder / path.name)
