"""Which series an expression of PromQL is about, and which of their labels it asks for."""

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(?!\s*\()(?![\w:])")
_WORDS = {"and", "or", "unless", "bool", "offset", "vector", "by", "without", "on", "ignoring"}


def series(expression: str) -> dict[str, set[str]]:
    """Labels in matchers by name of the metric.

    >>> series('sum by (le) (rate(x_bucket{job="a(b", q!=""}[5m])) > 14 * time()')
    {'x_bucket': {'q', 'job'}}
    """
    plain = _GROUPING.sub(" ", _STRING.sub('""', expression))
    plain = re.sub(r"\[[^]]*\]", " ", plain)
    found: dict[str, set[str]] = {}
    for name, matchers in _SELECTOR.findall(plain):
        if name not in _WORDS:
            labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)
            found.setdefault(name, set()).update(labels)
    return found


def grouped_by(expression: str) -> set[str]:
    """Labels that it sorts series by."""
    return {
        label.strip()
        for labels in _GROUPING.findall(_STRING.sub('""', expression))
        for label in labels.split(",")
        if label.strip()
    }
