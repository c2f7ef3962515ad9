"""The syntax of RE2. What it has and this has not is refused: classes of Unicode, and quoting."""

import string

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.regex_program import (
    MATCH,
    WORD,
    Program,
    Ranges,
    either,
    joined,
    reads,
    repeated,
    requires,
)

_DEEPEST = 24
_MOST_REPEATS = 1000
_LAST = chr(0x10FFFF)
_CLASSES: dict[str, Ranges] = {
    "d": [("0", "9")],
    "s": [("\t", "\n"), ("\f", "\r"), (" ", " ")],
    "w": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
}
_POSIX: dict[str, Ranges] = {
    "alnum": [("0", "9"), ("A", "Z"), ("a", "z")],
    "alpha": [("A", "Z"), ("a", "z")],
    "ascii": [("\x00", "\x7f")],
    "blank": [("\t", "\t"), (" ", " ")],
    "cntrl": [("\x00", "\x1f"), ("\x7f", "\x7f")],
    "digit": [("0", "9")],
    "graph": [("!", "~")],
    "lower": [("a", "z")],
    "print": [(" ", "~")],
    "punct": [("!", "/"), (":", "@"), ("[", "`"), ("{", "~")],
    "space": [("\t", "\r"), (" ", " ")],
    "upper": [("A", "Z")],
    "word": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
    "xdigit": [("0", "9"), ("A", "F"), ("a", "f")],
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def program_of(pattern: str) -> Program:
    """Raises CelEvaluationError."""
    parser = _Parser(pattern)
    found = parser.alternatives(frozenset(), 0)
    if parser.at < len(pattern):
        raise _error("unexpected )", pattern)
    return [*found, (MATCH, None)]


def _error(reason: str, part: str) -> CelEvaluationError:
    return CelEvaluationError(f"error parsing regexp: {reason}: `{part}`")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    @property
    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, part: str) -> bool:
        found = self.text.startswith(part, self.at)
        self.at += len(part) * found
        return found

    def alternatives(self, flags: frozenset[str], depth: int) -> Program:
        if depth > _DEEPEST:
            raise _error("expression nests too deeply", self.text[:32])
        branches: list[Program] = [[]]
        while self.next and self.next != ")":
            if self.skip("|"):
                branches.append([])
                continue
            if self.text.startswith("(?", self.at) and (found := self._flags(flags)) is not None:
                flags = found
                continue
            branches[-1] = joined(branches[-1], self._item(flags, depth))
        found_program = branches.pop()
        while branches:
            found_program = either(branches.pop(), found_program)
        return found_program

    def _flags(self, flags: frozenset[str]) -> frozenset[str] | None:
        """Flags up to `)` change what follows; None: they open a group."""
        end = self.at + 2
        while self.text[end : end + 1] in tuple("imsU-"):
            end += 1
        words = self.text[self.at + 2 : end]
        if self.text[end : end + 1] != ")" or not words:
            return None
        self.at = end + 1
        return self._changed(flags, words)

    def _changed(self, flags: frozenset[str], words: str) -> frozenset[str]:
        on, dash, off = words.partition("-")
        if "-" in off or (dash and not off):
            raise _error("invalid or unsupported Perl syntax", f"(?{words}")
        return (flags | set(on)) - set(off)

    def _item(self, flags: frozenset[str], depth: int) -> Program:
        begin = self.at
        body = self._atom(flags, depth)
        again = False
        while (span := self._count()) is not None:
            least, most = span
            if again:
                raise _error("invalid nested repetition operator", self.text[begin : self.at])
            greedy = self.skip("?") is ("U" in flags)
            again = True
            body = repeated(body, least, most, greedy=greedy)
        return body

    def _count(self) -> tuple[int, int | None] | None:
        for sign, span in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.skip(sign):
                return span
        return self._braces() if self.next == "{" else None

    def _braces(self) -> tuple[int, int | None] | None:
        """{n}, {n,}, {n,m}; other braces are letters."""
        end = self.text.find("}", self.at, self.at + 12)
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        numbers = [low, *([high] if high else [])]
        if end < 0 or not all(each.isascii() and each.isdigit() for each in numbers):
            return None
        part = self.text[self.at : end + 1]
        most = int(high) if high else None if comma else int(low)
        if int(low) > _MOST_REPEATS or (most is not None and not int(low) <= most <= _MOST_REPEATS):
            raise _error("invalid repeat count", part)
        self.at = end + 1
        return int(low), most

    def _atom(self, flags: frozenset[str], depth: int) -> Program:
        letter = self.next
        self.at += 1
        match letter:
            case "(":
                return self._group(flags, depth)
            case "[":
                return self._class(flags)
            case "\\":
                return self._escape(flags)
            case ".":
                return reads([] if "s" in flags else [("\n", "\n")], frozenset(), negated=True)
            case "^":
                return requires("line start" if "m" in flags else "start")
            case "$":
                return requires("line end" if "m" in flags else "end")
            case "*" | "+" | "?":
                raise _error("missing argument to repetition operator", letter)
        return reads([(letter, letter)], flags)

    def _group(self, flags: frozenset[str], depth: int) -> Program:
        begin = self.at - 1
        if self.skip("?"):
            flags = self._group_kind(flags, begin)
        body = self.alternatives(flags, depth + 1)
        if not self.skip(")"):
            raise _error("missing closing )", self.text)
        return body

    def _group_kind(self, flags: frozenset[str], begin: int) -> frozenset[str]:
        for opening in ("P<", "<"):
            if self.skip(opening):
                name, end, _ = self.text[self.at :].partition(">")
                if not end or not name or not set(name) <= WORD:
                    raise _error("invalid named capture", self.text[begin:])
                self.at += len(name) + 1
                return flags
        words, colon, _ = self.text[self.at :].partition(":")
        if not colon or not set(words) <= set("imsU-"):
            part = self.text[begin : self.at + 1]
            raise _error("invalid or unsupported Perl syntax", part)
        self.at += len(words) + 1
        return self._changed(flags, words) if words else flags

    def _escape(self, flags: frozenset[str]) -> Program:
        letter = self.next
        if letter in ("A", "z", "b", "B"):
            self.at += 1
            return requires({"A": "start", "z": "end"}.get(letter, letter))
        if letter.lower() in _CLASSES and letter:
            self.at += 1
            return reads(_CLASSES[letter.lower()], frozenset(), negated=letter.isupper())
        found = self._escaped()
        return reads([(found, found)], flags)

    def _escaped(self) -> str:
        letter = self.next
        self.at += 1
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "x":
            return self._hexadecimal()
        if letter and letter.isascii() and not letter.isalnum():
            return letter
        reason = "invalid escape sequence" if letter else "trailing backslash at end of expression"
        raise _error(reason, f"\\{letter}")

    def _hexadecimal(self) -> str:
        begin = self.at
        if self.skip("{"):
            end = self.text.find("}", self.at, self.at + 9)
            digits, after = self.text[self.at : max(end, self.at)], end + 1
        else:
            digits, after = self.text[self.at : self.at + 2], self.at + 2
            digits = digits if len(digits) == 2 else ""
        if not digits or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise _error("invalid escape sequence", f"\\x{self.text[begin : begin + 2]}")
        self.at = after
        return chr(int(digits, 16))

    def _class(self, flags: frozenset[str]) -> Program:
        begin = self.at - 1
        negated = self.skip("^")
        ranges: Ranges = []
        first = True
        while first or self.next != "]":
            if not self.next:
                raise _error("missing closing ]", self.text[begin:])
            ranges += self._class_item()
            first = False
        self.at += 1
        return reads(ranges, flags, negated=negated)

    def _class_item(self) -> Ranges:
        if self.skip("[:"):
            name, end, _ = self.text[self.at :].partition(":]")
            if not end or name.removeprefix("^") not in _POSIX:
                raise _error("invalid character class range", f"[:{name}:]")
            self.at += len(name) + 2
            found = _POSIX[name.removeprefix("^")]
            return _inverted(found) if name.startswith("^") else found
        following = self.text[self.at + 1 : self.at + 2]
        if self.next == "\\" and following and following.lower() in _CLASSES:
            self.at += 2
            found = _CLASSES[following.lower()]
            return _inverted(found) if following.isupper() else found
        return [self._range()]

    def _range(self) -> tuple[str, str]:
        begin = self.at
        low = self._class_letter()
        if self.next != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return low, low
        self.at += 1
        high = self._class_letter()
        if high < low:
            raise _error("invalid character class range", self.text[begin : self.at])
        return low, high

    def _class_letter(self) -> str:
        if self.skip("\\"):
            return self._escaped()
        self.at += 1
        return self.text[self.at - 1]


def _inverted(ranges: Ranges) -> Ranges:
    found, low = [], "\x00"
    for start, end in ranges:
        if start > low:
            found.append((low, chr(ord(start) - 1)))
        low = chr(ord(end) + 1)
    return [*found, (low, _LAST)]
