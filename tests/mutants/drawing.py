"""Draws the mutants of the list: as many for each area, from its own seed, one in a function.

A line of code within a function is drawn first, and then one of the changes that it allows. So
the operators are as frequent as the lines that have them.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path

from mutants.changes import Change, changes
from mutants.mutant import ROOT, Mutant, functions

SEED = 35
IN_EACH = 25
#: Below src/fairlead. A file belongs to the first area that names it.
AREAS = {
    "gangs": (
        "engine/*gang*", "kube/gangs/*", "model/gang*", "model/leader_groups*", "placement/gang*",
        "cluster/gang*", "apps/run/gang*", "apps/explain/gangs*",
    ),
    "queues": (
        "queue/*", "queue/quotas/*", "kube/queues/*", "engine/*queue*", "model/queue*",
        "apps/queues/*", "apps/run/queue*", "apps/explain/queues*",
    ),
    "claims": (
        "claims/*", "kube/claims/*", "engine/*claim*", "cluster/*claim*", "placement/*claim*",
        "model/*claim*", "plugins/*claim*", "plugins/dynamic_resources*", "apps/run/claim*",
        "engine/backfill/*claim*",
    ),
    "ledger": ("cluster/*", "engine/in_flight*", "engine/held_*"),
    "writes": ("kube/writes/*", "kube/bind_encoder*", "apps/run/carrying_out*"),
    "leadership and mirror": ("kube/leadership/*", "kube/mirror/*"),
    "admission": ("kube/admission/*", "apps/webhook/*", "telemetry/admission*"),
    "agent": ("apps/agent/**/*", "telemetry/nvml/*", "telemetry/agent*"),
    "telemetry": ("telemetry/**/*",),
    "configuration": ("apps/config/**/*",),
    "simulator": ("sim/**/*", "apps/simulate/*"),
    "engine": ("engine/**/*", "placement/*", "plugins/*"),
}  # fmt: skip


def drawn(root: Path = ROOT, seed: int = SEED, in_each: int = IN_EACH) -> list[Mutant]:
    """The mutants of all areas, numbered."""
    taken: set[Path] = set()
    mutants: list[Mutant] = []
    for area, patterns in AREAS.items():
        files = sorted(_files(root / "src" / "fairlead", patterns) - taken)
        taken.update(files)
        chosen = _of_area(files, random.Random(f"{seed} {area}"), in_each)
        for file, function, change in sorted(chosen, key=lambda one: (one[0], one[2].line)):
            mutants.append(_mutant(len(mutants) + 1, area, file, function, change, root))
    return mutants


def _files(folder: Path, patterns: tuple[str, ...]) -> set[Path]:
    return {file for pattern in patterns for file in folder.glob(f"{pattern}.py")}


Place = tuple[Path, str, Change]


def _of_area(files: list[Path], draw: random.Random, number: int) -> list[Place]:
    lines = [line for file in files for line in _lines(file)]
    draw.shuffle(lines)
    seen: set[tuple[Path, str]] = set()
    chosen: list[Place] = []
    for line in lines:
        file, function, _ = line[0]
        if (file, function) not in seen and len(chosen) < number:
            seen.add((file, function))
            chosen.append(draw.choice(line))
    return chosen


def _lines(file: Path) -> Iterator[list[Place]]:
    """The lines of a file that can be changed, each with its changes."""
    source = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    names = {first: name for name, (first, _) in functions(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            by_line: dict[int, list[Place]] = {}
            for change in changes(node, lines):
                by_line.setdefault(change.line, []).append((file, names[node.lineno], change))
            yield from by_line.values()


def _mutant(
    number: int, area: str, file: Path, function: str, change: Change, root: Path
) -> Mutant:
    line = file.read_text(encoding="utf-8").splitlines()[change.line - 1]
    return Mutant(
        number=number,
        area=area,
        file=file.relative_to(root).as_posix(),
        function=function,
        line=change.line,
        column=change.start,
        operator=change.operator,
        original=line.strip(),
        changed=change.of(line).strip(),
    )
