"""Label and field selectors: the strings that clients send, and LabelSelector objects."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from fairlead.base.names import label_name_problems, label_value_problems
from fairlead.sim.apiserver.status import bad_request

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_SET = re.compile(r"^(?P<key>\S+?)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_COMPARE = re.compile(r"^(?P<key>[^\s=!<>]+)\s*(?P<op>==|=|!=|<|>)\s*(?P<value>\S*)$")
_NO_LABELS: Labels = {}


def parse_labels(text: str) -> Test | None:
    """The test that a `labelSelector` asks for; None when it selects everything."""
    tests = [_requirement(part.strip(), text) for part in _split(text)] if text.strip() else []
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)


def _split(text: str) -> list[str]:
    # A comma inside parentheses separates values, not requirements.
    return re.split(r",(?![^(]*\))", text)


def _requirement(part: str, whole: str) -> Test:
    match = _SET.match(part)
    if match:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return _in(_key(match["key"]), values, negated=match["op"] == "notin")
    match = _COMPARE.match(part)
    if match:
        return _compare(_key(match["key"]), match["op"], match["value"])
    if part.startswith("!"):
        key = _key(part[1:].strip())
        return lambda labels: key not in labels
    key = _key(part)
    if not key or re.search(r"[\s()<>=]", part):
        raise bad_request(
            f"unable to parse requirement: found '{part.rpartition(' ')[2]}', "
            "expected: in, notin, =, ==, !=, gt, lt"
        )
    return lambda labels: key in labels


def _key(key: str) -> str:
    problems = label_name_problems(key)
    if problems:
        raise bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(problems)}'
        )
    return key


def _in(key: str, values: frozenset[str], negated: bool) -> Test:
    if negated:
        return lambda labels: labels.get(key) not in values
    return lambda labels: labels.get(key) in values


def _compare(key: str, operator: str, value: str) -> Test:
    if operator in ("<", ">"):
        return _numeric(key, operator, value)
    problems = label_value_problems(value)
    if problems:
        raise bad_request(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": '
            + "; ".join(problems)
        )
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _numeric(key: str, operator: str, value: str) -> Test:
    bound = int(value)

    def test(labels: Labels) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if operator == ">" else number < bound

    return test


def matches(selector: Mapping[str, Any] | None, labels: Labels | None) -> bool:
    """Whether a LabelSelector object selects these labels; none at all selects nothing."""
    if selector is None:
        return False
    labels = labels or _NO_LABELS
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_expression(each, labels) for each in selector.get("matchExpressions") or [])


def _expression(expression: Mapping[str, Any], labels: Labels) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector as kubectl prints it."""
    if selector is None:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for each in selector.get("matchExpressions") or []:
        key, values = each.get("key", ""), ",".join(sorted(each.get("values") or []))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(shown.get(str(each.get("operator")), key))
    return ",".join(parts) or "<none>"


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """(field, equal, value) for every term of a `fieldSelector`."""
    terms = []
    for part in (part for part in re.split(r"(?<!\\),", text) if part):
        match = re.match(r"^([^=!]+)(==|!=|=)(.*)$", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, value = match.groups()
        terms.append((field, operator != "!=", re.sub(r"\\([\\,=])", r"\1", value)))
    return terms
