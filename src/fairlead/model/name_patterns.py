"""Regular expressions that are matched in time linear in the name, whatever they say.

Python's `re` tries alternatives one after another, which takes exponential time for some patterns.
Here a pattern becomes a table of states: a state is the set of places in the pattern that the next
letter may be at. A letter of a name then costs one look-up. To make the table takes a few
milliseconds at most, or the pattern is refused. What a pattern may contain is RE2's syntax without
Unicode classes, flags and word boundaries.
"""

from collections.abc import Collection, Iterator, Sequence

from fairlead.model.lazy_dataclass import dataclass

LONGEST_PATTERN = 256
#: States of one pattern; a pattern that needs more is refused.
MOST_STATES = 128
#: Places in a pattern, what is repeated counted as often as it may be; and steps to make its table.
_MOST_PLACES = 512
_MOST_STEPS = 20_000
_TOO_LARGE = "it needs too many states; write it with fewer repetitions"
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
        places = _Places(inner)
        #: A number for each letter, the same for letters that the pattern treats alike.
        self.class_of, letters = _letter_classes(places.by_letters.keys())
        states = _States(places, letters)
        #: The state after each state and class of letter. The first state is 0.
        self.table = states.table
        #: Of states after which the rest of the name does not matter.
        self._verdict = states.verdicts
        #: By state, whether a name that ends there is matched.
        self.ends = states.ends
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
        state, table, class_of, verdicts = 0, self.table, self.class_of, self._verdict
        for letter in name:
            if (verdict := verdicts[state]) is not None:
                return verdict
            state = table[state][class_of.get(letter, 0)]
        return self.ends[state]


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


def _letter_classes(sets: Collection[frozenset[str]]) -> tuple[dict[str, int], str]:
    """A number for each letter, the same for letters that are in the same sets; one of each."""
    numbers: dict[tuple[bool, ...], int] = {}
    class_of, letters = {}, ""
    for letter in _ORDERED:
        number = numbers.setdefault(tuple(letter in each for each in sets), len(numbers))
        class_of[letter] = number
        letters += letter if number == len(letters) else ""
    return class_of, letters


# -- places and states -----------------------------------------------------------------------

#: Places in a pattern, one bit each.
_Set = int


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the pattern: where it may begin and end."""

    may_be_empty: bool
    first: _Set
    last: _Set


class _Places:
    """The places of a pattern that a letter, `^` or `$` stands at, and those that may follow."""

    def __init__(self, expression: _Expression) -> None:
        self.following: dict[_Set, _Set] = {}
        #: Places by the letters that stand there.
        self.by_letters: dict[frozenset[str], _Set] = {}
        self.starts = self.ends = 0
        part = self._part(expression)
        #: A place behind the pattern.
        self.accepts = self._place()
        self.first = self._chain([part, _Part(False, self.accepts, self.accepts)]).first

    def _place(self) -> _Set:
        if len(self.following) >= _MOST_PLACES:
            raise PatternError(_TOO_LARGE)
        place = 1 << len(self.following)
        self.following[place] = 0
        return place

    def _part(self, expression: _Expression) -> _Part:
        match expression:
            case _Sequence():
                return self._chain([self._part(each) for each in _terms(expression)])
            case _Either(of):
                return _any_of([self._part(each) for each in of])
            case _Repeated(inner, least, most):
                return self._repeated(inner, least, most)
        place = self._place()
        match expression:
            case _Letters(letters):
                self.by_letters[letters] = self.by_letters.get(letters, 0) | place
            case _Start():
                self.starts |= place
            case _End():
                self.ends |= place
        return _Part(False, place, place)

    def _repeated(self, inner: _Expression, least: int, most: int | None) -> _Part:
        parts = [self._part(inner) for _ in range(max(1, least) if most is None else most)]
        if most is None:
            self._follow(parts[-1].last, parts[-1].first)
        for at in range(least, len(parts)):
            parts[at] = _Part(True, parts[at].first, parts[at].last)
        return self._chain(parts)

    def _chain(self, parts: Sequence[_Part]) -> _Part:
        """One after the other. The last ones are joined first, so that each end is met once."""
        found = parts[-1]
        for part in reversed(parts[:-1]):
            self._follow(part.last, found.first)
            found = _Part(
                part.may_be_empty and found.may_be_empty,
                part.first | (found.first if part.may_be_empty else 0),
                found.last | (part.last if found.may_be_empty else 0),
            )
        return found

    def _follow(self, places: _Set, by: _Set) -> None:
        for place in _each(places):
            self.following[place] |= by

    def passed(self, places: _Set, signs: _Set) -> _Set:
        """The places, and those behind them where only these signs are between."""
        done = 0
        while todo := places & signs & ~done:
            place = todo & -todo
            done |= place
            places |= self.following[place]
        return places


class _States:
    """Sets of places that a name can lead to, as numbers."""

    def __init__(self, places: _Places, letters: str) -> None:
        self._places, self._steps = places, 0
        #: Away from the start `^` matches nothing.
        self._not_starts = ~places.starts
        self._numbers: dict[_Set, int] = {}
        self._sets: list[_Set] = []
        #: The state after a letter at these places; most letters of a row are at none.
        self._after: dict[_Set, int] = {}
        self._at = [self._places_of(letter) for letter in letters]
        self._number(places.passed(places.first, places.starts))
        self.table = [self._row(each) for each in self._sets]  # they grow meanwhile
        self.verdicts = [self._verdict(each) for each in self._sets]
        ends = (places.passed(each, places.ends) for each in self._sets)
        self.ends = [bool(each & places.accepts) for each in ends]

    def _places_of(self, letter: str) -> _Set:
        found = 0
        for letters, places in self._places.by_letters.items():
            found |= places if letter in letters else 0
        return found

    def _number(self, places: _Set) -> int:
        places &= self._not_starts
        if places & self._places.accepts:
            places = self._places.accepts  # it was found: nothing else matters
        number = self._numbers.setdefault(places, len(self._sets))
        if number == len(self._sets):
            self._sets.append(places)
        if number >= MOST_STATES:
            raise PatternError(_TOO_LARGE)
        return number

    def _row(self, places: _Set) -> list[int]:
        if places == self._places.accepts:
            return [self._numbers[places]] * len(self._at)
        after = self._after
        for met in {places & at for at in self._at} - after.keys():
            after[met] = self._number(self._next(met))
        return [after[places & at] for at in self._at]

    def _next(self, places: _Set) -> _Set:
        """Where the next letter may be, after one at these; or the pattern begins there."""
        found, following = self._places.first, self._places.following
        for place in _each(places):
            found |= following[place]
            self._steps += 1
        if self._steps > _MOST_STEPS:
            raise PatternError(_TOO_LARGE)
        return found

    def _verdict(self, places: _Set) -> bool | None:
        if not places:
            return False
        return True if places == self._places.accepts else None


def _each(places: _Set) -> Iterator[_Set]:
    while places:
        place = places & -places
        yield place
        places ^= place


def _terms(expression: _Expression) -> Iterator[_Expression]:
    while isinstance(expression, _Sequence):
        yield expression.first
        expression = expression.rest
    yield expression


def _any_of(parts: Sequence[_Part]) -> _Part:
    first = last = 0
    for part in parts:
        first, last = first | part.first, last | part.last
    return _Part(any(part.may_be_empty for part in parts), first, last)


# -- expressions -----------------------------------------------------------------------------


def _either(options: list["_Expression"]) -> _Expression:
    found: set[_Expression] = set()
    for option in options:
        found |= option.of if isinstance(option, _Either) else {option}
    letters = {option for option in found if isinstance(option, _Letters)}
    if len(letters) > 1:  # one place instead of several
        found -= letters
        found.add(_Letters(frozenset[str]().union(*(each.of for each in letters))))
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
