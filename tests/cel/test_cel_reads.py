"""What an expression reads of a device."""

import pytest

from fairlead.cel import compile_expression


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'a'", set()),
        ("device.allowMultipleAllocations", set()),
        ("device.attributes['a'].type == 'gpu'", {("attributes", "a", "type")}),
        ("device.attributes['a']['type'] == 'gpu'", {("attributes", "a", "type")}),
        ("has(device.attributes['a'].x)", {("attributes", "a", "x")}),
        ("device.attributes['a'].?x.orValue(1) == 1", {("attributes", "a", "x")}),
        ("device.attributes['a'][?'x'].hasValue()", {("attributes", "a", "x")}),
        (
            "device.capacity['a'].memory == device.capacity['a'].memory",
            {("capacity", "a", "memory")},
        ),
        ("[1, 2].exists(x, x == device.attributes['a'].n)", {("attributes", "a", "n")}),
    ],
)
def test_named_attributes_are_read(expression: str, expected: set[tuple[str, str, str]]) -> None:
    assert compile_expression(expression).reads == expected


@pytest.mark.parametrize(
    "expression",
    [
        "'x' in device.attributes['a']",
        "device.attributes[device.driver].x == 1",
        "device.attributes['a'].exists(k, k == 'x')",
        "cel.bind(m, device.attributes['a'], m.x == 1)",
        "cel.bind(d, device, d.driver == 'a')",
        "[{'driver': 'a'}].exists(device, device.driver == 'a')",
        "device.attributes['a'] == device.attributes['b']",
    ],
)
def test_anything_may_be_read_where_names_are_computed(expression: str) -> None:
    assert compile_expression(expression).reads is None
