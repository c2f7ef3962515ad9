"""Regular expressions that are matched in time linear in the name, whatever they say.

Python's `re` tries alternatives one after another, which takes exponential time for some patterns.
Here a pattern becomes a table of states: after each letter it is replaced by its derivative, the
pattern that the rest of the name has to match. A letter of a name then costs one look-up. What a
pattern may contain is RE2's syntax without Unicode classes, flags
and word boundaries.
"""

from collections.abc import Iterator

from fairlead.model.lazy_dataclass import dataclass

LONGEST_PATTERN = 256
#: States of one pattern; a pattern that needs more is refused.
MOST_STATES = 128
_MOST_REPEATS = 64
#: Letters of names of objects.
_ORDERED = "abcdefghijklmnopqrstuvwxyz0123456789-."
_LETTERS = frozenset(_ORDERED)
_CLASSES = {
    "d": frozenset("0123456789"),
    "w": frozenset("abcdefghijklmnopqrstuvwxyz0123456789"),
    "s": frozenset(),
}


class PatternError(ValueError):
    """Why a pattern cannot be used; the text is for its author."""


@dataclass(frozen=True, slots=True)
class _Letters:
    of: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Sequence:
    first: "_Expression"
    rest: "_Expression"


@dataclass(frozen=True, slots=True)
class _Either:
    of: frozenset["_Expression"]


@dataclass(frozen=True, slots=True)
class _Repeated:
    inner: "_Expression"
    least: int
    #: None: without an end.
    most: int | None


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the name."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The start of the name."""


_Expression = _Letters | _Sequence | _Either | _Repeated | _End | _Start
_NOTHING = _Either(frozenset())
_EMPTY = _Repeated(_NOTHING, 0, None)
_ANY = _Letters(_LETTERS)


class NamePattern:
    """A pattern that is found anywhere in a name, unless it has `^` or `$`."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        if len(text) > LONGEST_PATTERN:
            raise PatternError(f"it is longer than {LONGEST_PATTERN} characters")
        self.text = text
        inner = _Parser(text).parsed()
        # Only at the start of the name `_Start` matches.
        later = _sequence(_ANY, _sequence(_repeated(_ANY, 0, None), inner))
        self._class_of, letters = _letter_classes(inner)
        self._table, states = _table(_either([_at_start(inner), later]), letters)
        #: Of states after which the rest of the name does not matter.
        self._verdict = [
            False if state == _NOTHING else _may_end(state, at_end=False) or None
            for state in states
        ]
        self._ends = [_may_end(state, at_end=True) for state in states]
        #: What each name that it matches contains, as far as it begins with letters.
        self._literal = _literal(inner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, name: str) -> bool:
        """Whether it is found in a name of letters, digits, `-` and `.`."""
        if self._literal not in name:
            return False
        state, table, class_of, verdicts = 0, self._table, self._class_of, self._verdict
        for letter in name:
            if (verdict := verdicts[state]) is not None:
                return verdict
            state = table[state][class_of.get(letter, 0)]
        return self._ends[state]


def _literal(expression: _Expression) -> str:
    found = ""
    while isinstance(expression, _Sequence):
        first, expression = expression.first, expression.rest
        if isinstance(first, _Start) and not found:
            continue
        if not isinstance(first, _Letters) or len(first.of) != 1:
            return found
        found += min(first.of)
    return found


def _table(first: _Expression, letters: str) -> tuple[list[list[int]], list[_Expression]]:
    """The state after each state and letter, and what each state is."""
    states, numbers, table = [first], {first: 0}, []
    for state in states:  # it grows meanwhile
        row = []
        for letter in letters:
            following = _derivative(state, letter)
            if following not in numbers:
                numbers[following] = len(states)
                states.append(following)
            row.append(numbers[following])
        table.append(row)
        if len(states) > MOST_STATES:
            raise PatternError("it needs too many states; write it with fewer repetitions")
    return table, states


def _letter_classes(expression: _Expression) -> tuple[dict[str, int], str]:
    """A number for each letter, the same for letters that the pattern treats alike; one of each."""
    sets = sorted({*_letters_of(expression)}, key=sorted)
    numbers: dict[tuple[bool, ...], int] = {}
    class_of, letters = {}, ""
    for letter in _ORDERED:
        number = numbers.setdefault(tuple(letter in each for each in sets), len(numbers))
        class_of[letter] = number
        letters += letter if number == len(letters) else ""
    return class_of, letters


def _letters_of(expression: _Expression) -> Iterator[frozenset[str]]:
    match expression:
        case _Letters(of):
            yield of
        case _Sequence(first, rest):
            yield from _letters_of(first)
            yield from _letters_of(rest)
        case _Either(of):
            for each in of:
                yield from _letters_of(each)
        case _Repeated(inner):
            yield from _letters_of(inner)
        case _:
            return


# -- derivatives -----------------------------------------------------------------------------


def _either(options: list["_Expression"]) -> _Expression:
    found: set[_Expression] = set()
    for option in options:
        found |= option.of if isinstance(option, _Either) else {option}
    return next(iter(found)) if len(found) == 1 else _Either(frozenset(found))


def _sequence(first: _Expression, rest: _Expression) -> _Expression:
    if _NOTHING in (first, rest):
        return _NOTHING
    if first == _EMPTY:
        return rest
    if rest == _EMPTY:
        return first
    if isinstance(first, _Sequence):
        return _Sequence(first.first, _sequence(first.rest, rest))
    return _Sequence(first, rest)


def _repeated(inner: _Expression, least: int, most: int | None) -> _Expression:
    if most == 0 or inner in (_EMPTY, _NOTHING):
        return _EMPTY if not least or inner == _EMPTY else _NOTHING
    if (least, most) == (1, 1):
        return inner
    if isinstance(inner, _Repeated) and inner.least <= 1 and inner.most is None and most is None:
        return _Repeated(inner.inner, min(inner.least, least), None)
    return _Repeated(inner, least, most)


def _may_end(expression: _Expression, *, at_end: bool) -> bool:
    """Whether it matches the empty text, at the end of the name or within it."""
    match expression:
        case _Letters() | _Start():
            return False
        case _End():
            return at_end
        case _Sequence(first, rest):
            return _may_end(first, at_end=at_end) and _may_end(rest, at_end=at_end)
        case _Either(of):
            return any(_may_end(each, at_end=at_end) for each in of)
        case _Repeated(inner, least, _):
            return least == 0 or _may_end(inner, at_end=at_end)


def _derivative(expression: _Expression, letter: str) -> _Expression:
    match expression:
        case _Letters(of):
            return _EMPTY if letter in of else _NOTHING
        case _Start() | _End():
            return _NOTHING
        case _Sequence(first, rest):
            found = _sequence(_derivative(first, letter), rest)
            if not _may_end(first, at_end=False):
                return found
            return _either([found, _derivative(rest, letter)])
        case _Either(of):
            return _either([_derivative(each, letter) for each in of])
        case _Repeated(inner, least, most):
            following = _repeated(inner, max(least - 1, 0), None if most is None else most - 1)
            return _sequence(_derivative(inner, letter), following)


def _at_start(expression: _Expression) -> _Expression:
    """The same where `^` holds: at the start of the name."""
    match expression:
        case _Start():
            return _EMPTY
        case _Sequence(first, rest):
            begun = _at_start(first)
            found = _sequence(begun, rest)
            may_end = _may_end(begun, at_end=False)
            return _either([found, _at_start(rest)]) if may_end else found
        case _Either(of):
            return _either([_at_start(each) for each in of])
        case _Repeated(inner, least, most):
            return _repeated(_at_start(inner), least, most)
        case _:
            return expression


# -- reading ---------------------------------------------------------------------------------


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parsed(self) -> _Expression:
        found = self._options()
        if self._at < len(self._text):
            raise PatternError(f"it has a {self._text[self._at]!r} without a '('")
        return found

    def _options(self) -> _Expression:
        self._depth += 1
        if self._depth > 16:
            raise PatternError("its brackets are nested more than 16 deep")
        options = [self._terms()]
        while self._takes("|"):
            options.append(self._terms())
        self._depth -= 1
        return _either(options)

    def _terms(self) -> _Expression:
        terms: list[_Expression] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            terms.append(self._term())
        found: _Expression = _EMPTY
        for term in reversed(terms):
            found = _sequence(term, found)
        return found

    def _term(self) -> _Expression:
        found = self._atom()
        while self._at < len(self._text) and self._text[self._at] in "*+?{":
            least, most = self._times()
            self._takes("?")  # how much is taken first does not matter
            found = _repeated(found, least, most)
        return found

    def _times(self) -> tuple[int, int | None]:
        match self._next():
            case "*":
                return 0, None
            case "+":
                return 1, None
            case "?":
                return 0, 1
            case _:
                return self._counted()

    def _counted(self) -> tuple[int, int | None]:
        inner, brace, _ = self._text[self._at :].partition("}")
        low, comma, high = inner.partition(",")
        texts = [low, *([high] if high else [])]
        if not brace or not all(t.isascii() and t.isdecimal() and len(t) <= 3 for t in texts):
            raise PatternError("it has a '{' that is not like {3} or {1,3}")
        self._at += len(inner) + 1
        most = int(high) if high else (None if comma else int(low))
        if max(int(low), most or 0) > _MOST_REPEATS or (most is not None and most < int(low)):
            raise PatternError(f"it repeats {inner[:16]!r} times; the limit is {_MOST_REPEATS}")
        return int(low), most

    def _atom(self) -> _Expression:
        letter = self._next()
        match letter:
            case "(":
                return self._group()
            case "[":
                return _Letters(self._set())
            case ".":
                return _ANY
            case "^":
                return _Start()
            case "$":
                return _End()
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                raise PatternError(f"it has a {letter!r} with nothing before it")
            case _:
                return _Letters(frozenset(letter) & _LETTERS)

    def _group(self) -> _Expression:
        if self._takes("?") and not self._takes(":"):
            name = self._text[self._at :].partition(">")[0]
            if not name.startswith(("P<", "<")) or name.startswith(("<=", "<!")):
                raise PatternError("it has a '(?' other than '(?:' and '(?P<name>'")
            self._at += len(name) + 1
        found = self._options()
        if not self._takes(")"):
            raise PatternError("it has a '(' without a ')'")
        return found

    def _escaped(self) -> _Expression:
        letter = self._next()
        if letter == "A":
            return _Start()
        if letter == "z":
            return _End()
        return _Letters(_class_of(letter))

    def _set(self) -> frozenset[str]:
        inverted = self._takes("^")
        found: set[str] = set()
        first = True
        while first or not self._takes("]"):
            first = False
            found |= self._range()
        return _LETTERS - found if inverted else frozenset(found) & _LETTERS

    def _range(self) -> frozenset[str]:
        low = self._next()
        if low == "\\":
            return _class_of(self._next())
        if low == "[" and self._text[self._at : self._at + 1] == ":":
            raise PatternError("it has a named class such as [:alpha:]; write [a-z]")
        rest = self._text[self._at : self._at + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return frozenset(low)
        self._at += 2
        if rest[1] < low:
            raise PatternError(f"it has the range {low}{rest}, which ends before it begins")
        return frozenset(letter for letter in _LETTERS if low <= letter <= rest[1])

    def _takes(self, letter: str) -> bool:
        found = self._text.startswith(letter, self._at)
        self._at += found
        return found

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]


def _class_of(letter: str) -> frozenset[str]:
    """The letters that an escaped letter means, such as digits; otherwise the letter itself."""
    if letter.lower() in _CLASSES:
        of = _CLASSES[letter.lower()]
        return of if letter.islower() else _LETTERS - of
    if letter.isalnum():
        raise PatternError(f"it has \\{letter}, which is not known here")
    return frozenset(letter) & _LETTERS
