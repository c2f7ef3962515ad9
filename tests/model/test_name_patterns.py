"""Patterns of names: the answers of `re`, in bounded time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.name_patterns import NamePattern, PatternError
from turn_costs import counting_lines

LETTERS = "ab0-."


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("node-[0-9]+", "rack-a-node-17", True),
        ("^node-[0-9]+$", "rack-a-node-17", False),
        ("^node-[0-9]+$", "node-17", True),
        (r"^node-\d{2}$", "node-7", False),
        ("^(rack-a|rack-b)-.*", "rack-b-1", True),
        ("^[^a-c]", "d1", True),
        (r"\.example\.com$", "n1.example.com", True),
        ("", "anything", True),
        ("^$", "a", False),
        ("(?:a|b)+$", "ccab", True),
        ("(?P<rack>a)b", "ab", True),
        ("A", "a", False),
        ("^^a", "ab", True),
        ("(^|-)a", "b-a", True),
        ("x*^a", "xa", False),
        ("a($|-)", "ba", True),
    ],
)
def test_it_answers_as_the_schedulers_of_volcano_do(
    pattern: str, name: str, expected: bool
) -> None:
    assert NamePattern(pattern).matches(name) is expected


def expressions() -> st.SearchStrategy[str]:
    atoms = st.sampled_from([*"ab0-", r"\.", ".", "[a0]", "[^a]", r"\d"])
    repeated = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined = st.lists(inner, min_size=1, max_size=3).map("".join)
        options = st.lists(inner, min_size=2, max_size=3).map("|".join)
        return st.tuples(st.one_of(joined, options), repeated).map(lambda t: f"(?:{t[0]}){t[1]}")

    body = st.recursive(st.tuples(atoms, repeated).map("".join), larger, max_leaves=6)
    return st.tuples(st.sampled_from(["", "^"]), body, st.sampled_from(["", "$"])).map("".join)


@given(expressions(), st.lists(st.text(LETTERS, max_size=8), max_size=6))
def test_it_answers_as_python_does(text: str, names: list[str]) -> None:
    try:
        pattern = NamePattern(text)
    except PatternError:  # it may need too many states
        return
    for name in names:
        assert pattern.matches(name) == bool(re.search(text, name)), name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a+)+$", True),
        ("(a|a)*b", False),
        ("(.*)*x", False),
        ("(x+x+)+y", False),
        ("(a?){30}a{30}", True),
    ],
)
def test_what_takes_exponential_time_elsewhere_does_not_here(text: str, expected: bool) -> None:
    """With `re`, some of these would not end."""
    assert NamePattern(text).matches("a" * 253) is expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a(", "ends too early|without a"),
        ("a)", "without a"),
        ("*a", "nothing before it"),
        ("[b-a]", "ends before it begins"),
        ("a{2", "not like"),
        ("a{1000}", "not like|limit"),
        ("(?=a)", "other than"),
        (r"\b", "not known"),
        (".*a.{40}", "too many states"),
        ("(" * 20 + "a" + ")" * 20, "nested"),
        ("a" * 300, "longer"),
        ("[a", "ends too early"),
    ],
)
def test_what_it_cannot_do_is_said(text: str, problem: str) -> None:
    with pytest.raises(PatternError, match=problem):
        NamePattern(text)


@pytest.mark.parametrize(
    "text", ["abcdefghij" * 12, "(a|b|c|d|e){60}$", "((((a?b?)*c?)*d?)*e?)*zz"]
)
def test_a_table_is_made_in_few_steps(text: str) -> None:
    """The table is made in the event that shows the HyperNode."""
    with counting_lines() as counted:
        NamePattern(text)
    assert counted.lines < 50_000
