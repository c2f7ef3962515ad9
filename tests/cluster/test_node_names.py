"""Patterns are compared with all names at once: the answers are those for each name."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.node_names import names_matching
from fairlead.cluster.work import Work
from fairlead.model.name_patterns import NamePattern

PATTERNS = ("a+b$", "^a", "^b|a{2,3}", "[^a]b", "", "^$", "ab.*ba", r"\d$", "zz")


@given(
    st.lists(st.text("ab0-.", max_size=12), max_size=8),
    st.lists(st.sampled_from(PATTERNS).map(NamePattern), max_size=3),
)
def test_it_answers_as_for_each_name(names: list[str], patterns: list[NamePattern]) -> None:
    found = names_matching(patterns, names, Work()).tolist()
    assert found == [any(each.matches(name) for each in patterns) for name in names]


def test_letters_are_counted() -> None:
    work = Work()
    names_matching([NamePattern("a"), NamePattern("b")], ["n" * 200] * 100, work)
    assert work.rows == 2 * 200 * 100
