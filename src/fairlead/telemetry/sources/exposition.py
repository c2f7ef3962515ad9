"""Prometheus' text and OpenMetrics, as far as a few wanted series go, fast.

A node with eight GPUs has two hundred series of which we read sixty, and there are thousands
of nodes. One regular expression finds those; the labels of a GPU are understood once and then
known by their bytes, which are the same for all of its series and in every answer.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from fairlead.model.sizes import Kept, weigh

Known = TypeVar("Known")

Labels = Mapping[str, str]
#: Name of the series, labels as they stand in the text, value, what follows the value.
Found = tuple[bytes, bytes, bytes, bytes]

#: No series of a GPU has a longer line; more would be kept until its end comes.
LONGEST_LINE = 16 * 2**10
_KNOWN_BYTES = 256 << 20

_LABEL = re.compile(
    rb'\s*([a-zA-Z_:][\w:.]*|"(?:[^"\\]|\\.)*")\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)', re.ASCII
)
_AFTER_NAME = re.compile(rb'((?:[^"}]|"(?:[^"\\]|\\.)*")*)\} ?([^ }]+)(.*)')
_ESCAPE = re.compile(r'\\([\\"n])')


class Scanner:
    """Finds the wanted series in a text that comes in pieces."""

    def __init__(self, names: Iterable[str]) -> None:
        wanted = b"|".join(re.escape(name).encode() for name in sorted(names))
        self._line = re.compile(rb"\n(" + wanted + rb")\{([^\n]*)\} ?([^ \n}]+)([^\n}]*)(?=\n)")

    def scan(self, text: bytes, end: int) -> list[Found]:
        """In the lines before `end`; the text starts with a line feed."""
        return self._line.findall(text, 0, end)


def exactly(line: Found) -> Found:
    """A line with an exemplar after its value, whose labels were taken to end at the last brace."""
    name, block, value, rest = line
    found = _AFTER_NAME.fullmatch(block + b"} " + value + rest)
    return (name, found[1], found[2], found[3]) if found else line


class LineBuffer:
    """Puts lines together that were cut in two on their way. The last one counts if it ended."""

    def __init__(self, scanner: Scanner, on_found: Callable[[list[Found]], None]) -> None:
        self._scanner = scanner
        self._on_found = on_found
        self._rest: list[bytes] = []
        self._waiting = 0
        #: Lines that were cut short or far too long.
        self.broken = 0

    def put(self, piece: bytes) -> None:
        if not self._waiting and not piece.startswith(b"#"):
            piece = b"\n" + piece  # wanted lines follow a line feed; a comment is not wanted
        self._rest.append(piece)
        self._waiting += len(piece)
        if self._waiting >= _ENOUGH:
            self._scan()

    def end(self) -> None:
        self._scan()
        if self._waiting > 1:  # more than the line feed that ended the last line
            self.broken += 1

    def _scan(self) -> None:
        text = self._rest[0] if len(self._rest) == 1 else b"".join(self._rest)
        cut = text.rfind(b"\n")
        if cut > 0:
            found = self._scanner.scan(text, cut + 1)
            if found:
                self._on_found(found)
        rest = text[cut:]
        if len(rest) > LONGEST_LINE:
            self.broken += 1
            rest = b"\n#"  # what is still to come of that line is no line of its own
        self._rest, self._waiting = [rest], len(rest)


#: Scanning less at a time costs more than it saves; more is kept in memory for nothing.
_ENOUGH = 64 * 2**10


class LabelCache(Generic[Known]):
    """What labels mean, by their bytes. Holds what was understood, and forgets all when full."""

    def __init__(self, understand: Callable[[bytes], Known | None]) -> None:
        self._understand = understand
        self._known: Kept[bytes, Known | None] = Kept(_KNOWN_BYTES)

    def of(self, block: bytes) -> Known | None:
        """None if they mean nothing."""
        try:
            return self._known[block]
        except KeyError:
            pass
        known = self._understand(block)
        return self._known.keep(block, known, weigh(block, known))


def book_of(whose: Callable[[Labels], Known | None]) -> LabelCache[Known]:
    """A book of the labels of a text."""

    def understand(block: bytes) -> Known | None:
        labels = parse_labels(block)
        return None if labels is None else whose(labels)

    return LabelCache(understand)


def parse_labels(block: bytes) -> Labels | None:
    r"""What stands between the braces; None if it cannot be read to its end.

    >>> parse_labels(b'gpu="0",modelName="a \\"b\\"",')
    {'gpu': '0', 'modelName': 'a "b"'}
    >>> parse_labels(b'gpu="0" modelName="x"') is None
    True
    """
    labels: dict[str, str] = {}
    at = 0
    while at < len(block):
        found = _LABEL.match(block, at)
        if found is None or (not found[3] and found.end() < len(block)):
            return None
        at = found.end()
        try:
            name, value = found[1].decode().strip('"'), found[2].decode()
        except UnicodeDecodeError:
            return None
        if name in labels:
            return None
        labels[name] = _unescaped(value) if "\\" in value else value
    return labels


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def timestamp_s(rest: bytes) -> float | None:
    """When a sample was taken, if its line says so: milliseconds, or seconds with a point.

    OpenMetrics writes seconds and an exemplar after them, the older format milliseconds.
    """
    said = rest.partition(b"#")[0].strip()
    if not said:
        return None
    try:
        at = float(said)
    except ValueError:
        return None
    return at / 1000 if at > _YEAR_5000_S else at


_YEAR_5000_S = 1e11
