"""Draws docs/live-view.svg: runs `fairlead up` for a while, and saves its last screen."""

import re
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from fairlead.apps import up
from fairlead.apps.fast_loop import run_in_fast_loop
from fairlead.apps.up.view import render
from fairlead.apps.up.watching import Watching

_WIDTH, _HEIGHT = 130, 24
_HINT = "kubectl --kubeconfig ~/.cache/fairlead/up.kubeconfig get pods -o wide"


def main(out: Path, lasts: str = "60s") -> None:
    plan = up.prepare(up.UpOptions(headless=True, lasts=lasts))
    watching = Watching()
    with TemporaryDirectory() as folder:
        run_in_fast_loop(lambda: up._work_embedded(plan, watching, Path(folder) / "kubeconfig"))
    console = Console(record=True, width=_WIDTH, height=_HEIGHT, file=StringIO())
    console.print(render(watching.screen(_HINT), _WIDTH, _HEIGHT))
    picture = console.export_svg(title="fairlead up")
    # The font of the reader's machine will do: the picture loads nothing from elsewhere.
    out.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
