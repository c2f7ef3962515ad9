"""Regular expressions of RE2: where Python's mean the same, they find the same."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.regex import compiled

_LETTERS = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "\\d", "\\w", "(?:a|bc)", "(a)"]
)
_EDGES = st.sampled_from(["^", "$", "\\b"])
_COUNTS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}?"])
_PIECES = st.one_of(st.tuples(_LETTERS, _COUNTS).map("".join), _EDGES)
_BRANCH = st.lists(_PIECES, min_size=1, max_size=4).map("".join)


def _free(cost: int) -> None:
    assert cost > 0


@given(st.lists(_BRANCH, min_size=1, max_size=3).map("|".join), st.text("abc1 ", max_size=8))
def test_the_first_match_is_that_of_python(pattern: str, text: str) -> None:
    expected = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    span = expected.span() if expected else None
    assert compiled(pattern).first(text, 0, _free) == span


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?i)GPU", "a gpu", ["gpu"]),
        ("(?i:G)pu", "gpu gPu GPU", ["gpu"]),
        ("(?s)a.b", "a\nb", ["a\nb"]),
        ("a.b", "a\nb", []),
        ("(?m)^b$", "a\nb\nc", ["b"]),
        ("b$", "b\n", []),
        ("(?U)a+", "aaa", ["a", "a", "a"]),
        ("[[:alpha:]]+", "ab1cd", ["ab", "cd"]),
        ("[^[:digit:]x]", "1xy", ["y"]),
        (r"[\d\-]+", "1-2 3", ["1-2", "3"]),
        (r"\x41\x{42}\.", "AB.", ["AB."]),
        ("(?P<name>a)|b", "ab", ["a", "b"]),
        ("a{,2}", "a{,2}", ["a{,2}"]),
        ("x*", "axb", ["", "x", ""]),
        ("", "ab", ["", "", ""]),
    ],
)
def test_what_python_writes_differently(pattern: str, text: str, found: list[str]) -> None:
    spans = compiled(pattern).all(text, -1, _free)
    assert [text[start:end] for start, end in spans] == found


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[",
        "[b-a]",
        "*",
        "a**",
        "(?=a)",
        "(?<!a)",
        r"\1",
        r"\pL",
        "\\",
        "a{2,1}",
        "[[:x:]]",
    ],
)
def test_what_re2_refuses_or_this_has_not_is_refused(pattern: str) -> None:
    with pytest.raises(CelEvaluationError, match="error parsing regexp: "):
        compiled(pattern)


def test_states_are_charged_for_before_many_are_looked_at() -> None:
    charged: list[int] = []
    assert compiled("(a?){300}b").first("", 0, charged.append) is None
    assert sum(charged) > 200
    assert max(charged) < 20
