"""A mutant: one line of src, and what it is changed into."""

import ast
import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("list.csv")


@dataclass(frozen=True, slots=True)
class Mutant:
    """Lines are counted from 1 and columns from 0; the two texts are without their indentation."""

    number: int
    area: str
    file: str
    function: str
    line: int
    column: int
    operator: str
    original: str
    changed: str


class Gone(Exception):
    """The line of a mutant is no longer there, or no longer the only one."""


def read(file: Path = LIST) -> list[Mutant]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [
            Mutant(**{**row, **{name: int(row[name]) for name in ("number", "line", "column")}})
            for row in csv.DictReader(stream)
        ]


def write(mutants: Iterable[Mutant], file: Path = LIST) -> None:
    names = [field.name for field in fields(Mutant)]
    with file.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(names)
        rows.writerows([getattr(mutant, name) for name in names] for mutant in mutants)


def applied(mutant: Mutant, source: str) -> str:
    """The source with the mutant in it."""
    lines = source.splitlines(keepends=True)
    index = line_of(mutant, source) - 1
    lines[index] = lines[index].replace(mutant.original, mutant.changed, 1)
    return "".join(lines)


def line_of(mutant: Mutant, source: str) -> int:
    """Where the line is now: in its function, nearest to where it was, or alone in its file."""
    lines = enumerate(source.splitlines(), 1)
    same = [number for number, text in lines if text.strip() == mutant.original]
    spans = [span for name, span in functions(ast.parse(source)) if name == mutant.function]
    within = [number for number in same if any(first <= number <= end for first, end in spans)]
    if within:
        return min(within, key=lambda number: abs(number - mutant.line))
    if len(same) != 1:
        raise Gone(f"{mutant.file} has {len(same)} lines {mutant.original!r}")
    return same[0]


def functions(tree: ast.AST, prefix: str = "") -> Iterable[tuple[str, tuple[int, int]]]:
    """The functions of a module, with the lines they go from and to."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{node.name}".lstrip(".")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, (node.lineno, node.end_lineno or node.lineno)
        yield from functions(node, name)
