"""What expressions answer for a device, with the texts of kube-scheduler for errors."""

import pytest

from fairlead.cel import (
    KUBE_COST_LIMIT,
    CelCompileError,
    CelError,
    DeviceInput,
    compile_expression,
    device_input,
)
from fairlead.model.devices import VersionText

DEVICE = device_input(
    "gpu.example.com",
    {
        "type": "gpu",
        "index": 3,
        "healthy": True,
        "version": VersionText("570.124.6-rc.1+b1"),
        "other.example.com/numa": -1,
    },
    {"memory": "80Gi", "other.example.com/slots": "1500m"},
)
OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


def _answer(expression: str, device: DeviceInput = DEVICE) -> bool | str:
    try:
        return compile_expression(expression).evaluate(device, cost_limit=KUBE_COST_LIMIT)
    except CelError as error:
        return str(error)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("true", True),
        ('device.driver == "gpu.example.com"', True),
        (f"{OWN}.healthy", True),
        (f'{OWN}["healthy"]', True),
        (f"cel.bind(dra, {OWN}, dra.healthy)", True),
        ("device.attributes['other.example.com'].numa < 0", True),
        # A domain that is not there is an empty map, and yet not in the map.
        ('has(device.attributes["x"].y)', False),
        ('"y" in device.attributes["x"]', False),
        ('"x" in device.attributes', False),
        ("has(device.attributes.x)", True),
        ('device.attributes["x"].y', "no such key: y"),
        ('device.attributes["x"]["y"].isGreaterThan(quantity("0"))', "no such key: y"),
        # Types that differ are not equal; an order between them is an error.
        (f"{OWN}.type == 3", False),
        (f"{OWN}.type < 3", "no such overload"),
        (f'{OWN}.version == "570.124.6"', "no such overload"),
        (f'"570.124.6" == {OWN}.version', False),
        (f'{OWN}.version != "570.124.6"', True),
        (f'{MEMORY} == quantity("81920Mi")', True),
        (f"{OWN}.index == 3.0 && {OWN}.index == 3u", True),
        # Three values.
        ("false && device.attributes['x'].y", False),
        ("device.attributes['x'].y && false", False),
        ("device.attributes['x'].y || true", True),
        ("device.attributes['x'].y && true", "no such key: y"),
        ("device.attributes['x'].y || device.attributes['x'].z", "no such key: y"),
        (f"{OWN}.type && true", "no such overload"),
        ("[1, 2].all(n, n / 0 == 1 || n == 3)", "division by zero"),
        ("[0, 1].exists(n, 1 / n == 1)", True),
        ("[1, 2].exists_one(n, n / 0 == 1)", "division by zero"),
        # Libraries.
        (f'{MEMORY}.isGreaterThan(quantity("1Ki")) && sign({MEMORY}) == 1', True),
        (f'{MEMORY}.compareTo(quantity("80Gi")) == 0 && {MEMORY}.isInteger()', True),
        (f"{MEMORY}.asInteger() == 85899345920", True),
        ('quantity("x").isInteger()', ("quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
        (f'{OWN}.version.isGreaterThan(semver("570.124.5"))', True),
        (f'{OWN}.version.isLessThan(semver("570.124.6"))', True),
        (f'{OWN}.version.major() == 570 && isSemver("v1.02", true)', True),
        ('semver("1") == semver("1")', "No Major.Minor.Patch elements found"),
        (f'{OWN}.type.isGreaterThan(quantity("1"))',
         "no such overload: isGreaterThan(string, kubernetes.Quantity)"),
        (f'{OWN}.type.matches("^g.u$") && "xgpux".find("g[a-p]+") == "gp"', True),
        ('"a1b22".findAll("[0-9]+") == ["1", "22"]', True),
        ('"abc".substring(1, 2) == "b" && "a,b".split(",").join("") == "ab"', True),
        ('"abc".indexOf("c", 7) == -1 && "abc".lastIndexOf("a", 7) == -1', True),
        ('quantity("5xx").isInteger()', ("quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")),
        ('quantity("5Kk").isInteger()', "unable to parse quantity's suffix"),
        ('quantity("Ei").isInteger()', "unable to parse numeric part of quantity"),
        ('quantity("Ki") == quantity("0") && isQuantity("m")', True),
        ("sets.contains([1, 2], [2]) && [3, 1].sort() == [1, 3] && [1, 2].sum() == 3", True),
        ("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", True),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", True),
        (f"{OWN}.?nothing.orValue(true)", True),
        (f"{OWN}[?'index'].optMap(n, n + 1).value() == 4", True),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("duration('90m') == duration('1h30m')", True),
        ("timestamp('2024-02-29T01:02:03Z').getFullYear() == 2024", True),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("0 - 9223372036854775807 - 2 < 0", "integer overflow"),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("[1, 2][5] == 1", "index out of bounds: 5"),
        ("type(1) == int && string(1.5) == '1.5' && int('7') == 7", True),
        ("{true: 1, 1: 2}[true] == 1", ("compilation failed: ERROR: <input>:1:11: expected type "
         "'bool' but found 'int'\n | {true: 1, 1: 2}[true] == 1\n | ..........^")),
        # A result that is no bool.
        (f"{OWN}.type", ("CEL result of type string could not be converted to bool: "
         "unsupported native conversion from string to 'bool'")),
    ],
)  # fmt: skip
def test_an_expression_has_the_answer_of_kube_scheduler(
    expression: str, answer: bool | str
) -> None:
    assert _answer(expression) == answer


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("[true]", "must evaluate to bool or the unknown type, not list(bool)"),
        ("device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("device.nothing", "undefined field 'nothing'"),
        ("nothing", "undeclared reference to 'nothing' (in container '')"),
        ("device.driver.nothing()", "undeclared reference to 'nothing' (in container '')"),
        ("device.driver.nothing", "type 'string' does not support field selection"),
        ("'a' && true", "expected type 'bool' but found 'string'"),
        (f"{OWN}.type.exists(x, x)", "expression of type 'any' cannot be range of a comprehension"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("duration('1x') == duration('1s')", "invalid duration argument"),
        ("has(device)", "invalid argument to has() macro"),
        ("9223372036854775808 > 1", "invalid int literal"),
        ("for == 1", "reserved identifier: for"),
        *((text, "Syntax error: ") for text in ("?!", "", "1 +", "(true", "'a", "a.b.", "[1,,2]")),
        *(
            (text, "Syntax error: ")
            for text in ("f(1,)", "{'a'}", "true false", "#", "'\\q' == ''")
        ),
    ],
)
def test_an_expression_that_is_wrong_is_refused_with_its_place(expression: str, text: str) -> None:
    with pytest.raises(CelCompileError) as refused:
        compile_expression(expression)
    assert text in str(refused.value)


def test_a_refusal_shows_the_line_and_the_place() -> None:
    text = "true &&\n  device.driver == 1"
    assert _answer(text) == (
        "compilation failed: ERROR: <input>:2:17: found no matching overload for '_==_' "
        "applied to '(string, int)'\n |   device.driver == 1\n | ................^"
    )


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"a": VersionText("1")},
         "attribute a: parse semantic version: No Major.Minor.Patch elements found"),
        ({"a": VersionText("1.0.99999999999999999999")}, ("attribute a: parse semantic version: "
         'strconv.ParseUint: parsing "99999999999999999999": value out of range')),
        ({"a": None}, "attribute a: unsupported attribute value"),
    ],
)  # fmt: skip
def test_one_bad_attribute_is_an_error_of_every_expression(
    attributes: dict[str, VersionText | None], text: str
) -> None:
    assert _answer("true", device_input("d.example.com", attributes, {})) == text
