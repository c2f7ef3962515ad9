"""Names as kube-apiserver takes them."""

import pytest

from fairlead.base import names


@pytest.mark.parametrize("text", ["a", "node-1.example.com", "0", "a" * 253])
def test_these_are_subdomains(text: str) -> None:
    assert names.is_subdomain(text)


@pytest.mark.parametrize("text", ["", "a\n", "A", "a..b", "-a", "a_b", "a" * 254, "é"])
def test_these_are_not(text: str) -> None:
    assert not names.is_subdomain(text)


@pytest.mark.parametrize("key", ["example.com/a\n", "a\n", "/a", "a/", "a/b/c", "a" * 64])
def test_a_key_with_a_problem_is_told_which(key: str) -> None:
    assert names.label_name_problems(key)


def test_a_line_feed_at_the_end_is_part_of_a_value() -> None:
    assert names.label_value_problems("a\n")
    assert not names.label_value_problems("a")
