"""Plain tables that fit: the least important columns go first, then the last one is cut."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:  # it loads slowly, and commands that print plain lines do without it
    from rich.text import Text

_GAP = 2
#: The last column is worth having from this width on.
_LEAST_LAST = 12


@dataclass(frozen=True, slots=True)
class Column:
    """One column, and how soon it is left out: 0 never, 9 first."""

    title: str
    cells: "Sequence[str | Text]"
    right: bool = False
    leaves: int = 0

    @property
    def width(self) -> int:
        return max(len(self.title), *(_width(cell) for cell in self.cells), 0)


def plain_lines(columns: Sequence[Column]) -> list[str]:
    """A line of titles, then the rows, as wide as it takes and without colours."""
    rows = [[column.title for column in columns]]
    rows += [[str(column.cells[n]) for column in columns] for n in range(len(columns[0].cells))]
    return [_plain_line(row, columns) for row in rows]


def _plain_line(row: Sequence[str], columns: Sequence[Column]) -> str:
    pairs = zip(row, columns, strict=True)
    padded = (
        cell.rjust(column.width) if column.right else cell.ljust(column.width)
        for cell, column in pairs
    )  # fmt: skip
    return (" " * _GAP).join(padded).rstrip()


def lines(columns: Sequence[Column], width: int | None) -> "list[Text]":
    """A line of titles, then the rows; None: as wide as it takes."""
    from rich.text import Text

    kept = list(columns) if width is None else _fitting(columns, width)
    rows = [[Text(column.title, "bold") for column in kept]]
    rows += [[_text(column.cells[n]) for column in kept] for n in range(len(kept[0].cells))]
    return [_line(row, kept, width) for row in rows]


def _fitting(columns: Sequence[Column], width: int) -> list[Column]:
    kept = list(columns)
    while _taken(kept) > width and any(column.leaves for column in kept):
        kept.remove(max(kept, key=lambda column: column.leaves))
    return kept


def _taken(columns: Sequence[Column]) -> int:
    """The last may be cut, if it does not run along the right edge."""
    last = columns[-1]
    end = last.width if last.right else min(last.width, _LEAST_LAST)
    return sum(column.width + _GAP for column in columns[:-1]) + end


def _line(row: "Sequence[Text]", columns: Sequence[Column], width: int | None) -> "Text":
    from rich.text import Text

    line = Text(no_wrap=True, overflow="ellipsis")
    for number, (cell, column) in enumerate(zip(row, columns, strict=True)):
        missing = " " * (column.width - cell.cell_len)
        last = number == len(columns) - 1
        line.append(missing if column.right else "")
        line.append(cell)
        line.append("" if last else (" " * _GAP if column.right else missing + " " * _GAP))
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def _text(cell: "str | Text") -> "Text":
    from rich.text import Text

    return Text(cell) if isinstance(cell, str) else cell.copy()


def _width(cell: "str | Text") -> int:
    return len(cell) if isinstance(cell, str) else cell.cell_len
