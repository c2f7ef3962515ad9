"""Expressions and devices, drawn at random: what people write, and what they write wrongly."""

import random
import re
from typing import Any

from fairlead.cel import DeviceInput, device_input
from fairlead.model.devices import VersionText

DRIVER = "gpu.example.com"
_ATTRIBUTES: dict[str, Any] = {
    "type": {"string": "gpu"},
    "model": {"string": "H100 80GB"},
    "index": {"int": 3},
    "healthy": {"bool": True},
    "spare": {"bool": False},
    "driverVersion": {"version": "570.124.6-rc.1+b1"},
    "other.example.com/numa": {"int": -1},
    "other.example.com/type": {"string": "mig"},
    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
}
_CAPACITY: dict[str, Any] = {
    "memory": {"value": "80Gi"},
    "cores": {"value": "16"},
    "other.example.com/slots": {"value": "1500m"},
}
_NAMES = ("type", "model", "index", "healthy", "spare", "driverVersion", "nothing", "numa")
_ATOMS = (
    *("true", "false", "1", "-7", "2u", "1.5", "'gpu'", '"570"', "null", "b'x'", "[]", "{}"),
    *("[1, 2, 3]", "['gpu', 'mig']", "{'a': 1}", "{true: 'x'}", "9223372036854775807", "''"),
    *("device.driver", "device.allowMultipleAllocations", "device.attributes", "device.capacity"),
    *("quantity('80Gi')", "quantity('1500m')", "quantity('x')", "semver('570.0.0')", "semver('1')"),
    *("semver('v1.02', true)", "duration('1h30m')", "timestamp('2024-02-29T01:02:03.5Z')", "int"),
    *("optional.of(1)", "optional.none()", "device.capacity[D].memory", "device.capacity[D].no"),
)
_BINARY = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&&", "||", "in")
_METHODS = (
    *("contains('p')", "startsWith('g')", "endsWith('u')", "matches('^g.u$')", "size()"),
    *("lowerAscii()", "upperAscii()", "trim()", "charAt(1)", "indexOf('p')", "substring(1, 2)"),
    *("replace('g', 'xx')", "split('')", "split('p', 2)", "join(',')", "lastIndexOf('p')"),
    *("isGreaterThan(quantity('40Gi'))", "isLessThan(semver('571.0.0'))", "major()", "patch()"),
    *("compareTo(quantity('80Gi'))", "asInteger()", "isInteger()", "asApproximateFloat()"),
    *("add(quantity('1'))", "sub(1)", "all(x, x > 1)", "exists(x, x == 'gpu')", "map(x, x + 1)"),
    *("exists_one(x, x == 1)", "filter(x, x != 'gpu')", "exists(k, v, v == 'gpu')", "sum()"),
    *("min()", "max()", "isSorted()", "sort()", "distinct()", "reverse()", "slice(0, 1)"),
    *("flatten()", "indexOf(2)", "orValue(1)", "hasValue()", "value()", "find('[a-z]+')"),
    *("findAll('[a-z0-9]')", "getHours()", "getFullYear()", "optMap(x, x + 1)", "sortBy(x, -x)"),
    *("transformList(i, v, v)", "transformMap(k, v, k)", "includes(1)", "type", "?type", "numa"),
)
_FUNCTIONS = (
    *("size", "string", "int", "uint", "double", "bool", "bytes", "type", "dyn", "has", "sign"),
    *("quantity", "isQuantity", "semver", "isSemver", "duration", "timestamp", "lists.range"),
    *("strings.quote", "optional.of", "optional.ofNonZeroValue"),
)


#: Shapes that are right of type, with A for an attribute, Q for a capacity, B for another of these.
_SHAPES = (
    *(
        "A == 'gpu'",
        "A != 'gpu'",
        "A == 3",
        "A > 2",
        "A <= 2.5",
        "A == true",
        "A",
        "!A",
        "A in [3]",
    ),
    *("A in ['gpu', 'mig']", "A.startsWith('g')", "A.contains('H')", "A.matches('^[gm](pu|ig)$')"),
    *("A.matches('(?i)GPU|h1.0')", "A.size() == 3", "A.lowerAscii() == 'gpu'", "A + 1 == 4"),
    *("A.major() >= 570", "A.isGreaterThan(semver('569.9.9'))", "A.compareTo(semver('1.0.0')) > 0"),
    *("Q.isGreaterThan(quantity('40Gi'))", "Q.compareTo(quantity('80Gi')) == 0", "Q == Q"),
    *("Q.isLessThan(quantity('16'))", "Q.add(1).isInteger()", "Q.asInteger() > 0", "sign(Q) == 1"),
    *("Q.sub(quantity('79Gi')).asApproximateFloat() >= 1.0", "has(A0)", "'type' in M", "D0 in O"),
    *("M.exists(k, k == 'type')", "M.all(k, M[k] != 'gpu')", "M.exists_one(k, M[k] == 3)"),
    *("M.exists(k, v, v == 'gpu')", "M.filter(k, M[k] == true).size() == 1", "O.all(d, d != 'x')"),
    *(
        "M.map(k, k).exists(k, k.startsWith('t'))",
        "cel.bind(m, M, m.type == 'gpu' && m.index == 3)",
    ),
    *("A1.orValue('x') == 'gpu'", "A1.hasValue()", "M[?'index'].orValue(0) > 2", "A1 == A1"),
    *("A1.optMap(v, v == 'gpu').orValue(false)", "device.driver.endsWith('example.com')", "A == A"),
    *("string(A) == '3'", "int(A) == 3", "double(A) > 1.0", "type(A) == string", "A % 2 == 1"),
    *("A < 'h'", "A * A >= A", "A - 9223372036854775807 < 0", "A.includes('gpu')", "dyn(A) == 3u"),
    *("A.split('0').size() > 1", "A.replace('G', 'g') == A", "A.substring(0, 2) == 'gp'"),
    *("A.find('[0-9]+') == '100'", "A.findAll('[0-9]').size() == 5", "A.charAt(0) == 'g'"),
    *(
        "[A, A].distinct().size() == 1",
        "sets.contains([A], ['gpu'])",
        "[1, 2].sum() == A",
        "B && B",
    ),
    *("B || B", "!(B)", "(B) ? (B) : (B)", "(B) == (B)", "B && B && B", "B || B || (B && B)"),
)


def _typed(draw: random.Random, depth: int) -> str:
    shape = draw.choice(_SHAPES if depth else [each for each in _SHAPES if "B" not in each])
    names = ("type", "model", "index", "healthy", "spare", "driverVersion", "nothing", "numa")
    domain = draw.choice(("gpu.example.com", "gpu.example.com", "other.example.com", "no.example"))
    kind = f"device.attributes['{domain}']"
    for mark, text in (
        ("A0", lambda: f"{kind}.{draw.choice(names)}"),
        ("A1", lambda: f"{kind}.?{draw.choice(names)}"),
        ("D0", lambda: f"'{domain}'"),
        ("A", lambda: f"{kind}.{draw.choice(names)}"),
        ("Q", lambda: f"device.capacity['{domain}'].{draw.choice(('memory', 'cores', 'slots'))}"),
        ("M", lambda: kind),
        ("O", lambda: draw.choice(("device.attributes", "device.capacity"))),
        ("B", lambda: f"({_typed(draw, depth - 1)})"),
    ):
        shape = re.sub(rf"\b{mark}\b", lambda _, text=text: text(), shape)
    return shape


def question(draw: random.Random) -> dict[str, Any]:
    """A line for the program that asks Kubernetes."""
    if draw.random() < 0.6:
        text = _typed(draw, draw.choice((0, 0, 1, 2)))
    else:
        text = _expression(draw, draw.choice((1, 2, 2, 3))).replace("[D]", f"['{DRIVER}']")
    attributes = {name: each for name, each in _ATTRIBUTES.items() if draw.random() < 0.9}
    capacity = {name: each for name, each in _CAPACITY.items() if draw.random() < 0.9}
    device = {"name": "d", "attributes": attributes, "capacity": capacity}
    return {"expression": text, "driver": DRIVER, "device": device}


def as_device(line: dict[str, Any]) -> DeviceInput:
    device = line["device"]
    attributes = {
        name: VersionText(each["version"]) if "version" in each else next(iter(each.values()))
        for name, each in device["attributes"].items()
    }
    capacity = {name: each["value"] for name, each in device["capacity"].items()}
    return device_input(line["driver"], attributes, capacity)


def _attribute(draw: random.Random) -> str:
    domain = draw.choice(("[D]", "[D]", "['other.example.com']", "['none.example.com']"))
    optional = "?" if draw.random() < 0.1 else ""
    return f"device.attributes{domain}.{optional}{draw.choice(_NAMES)}"


def _expression(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return _attribute(draw) if draw.random() < 0.5 else draw.choice(_ATOMS)
    inner = lambda: _expression(draw, depth - 1)  # noqa: E731
    match draw.randrange(12):
        case 0 | 1 | 2:
            return f"({inner()} {draw.choice(_BINARY)} {inner()})"
        case 3 | 4:
            return f"({inner()} {draw.choice(('&&', '||'))} {inner()})"
        case 5 | 6:
            return f"{inner()}.{draw.choice(_METHODS)}"
        case 7:
            return f"{draw.choice(_FUNCTIONS)}({inner()})"
        case 8:
            return f"has({_attribute(draw)})"
        case 9:
            return f"({inner()} ? {inner()} : {inner()})"
        case 10:
            return f"{draw.choice(('!', '-'))}{inner()}"
    return draw.choice(
        (f"[{inner()}, {inner()}]", f"{inner()}[{inner()}]", f"cel.bind(x, {inner()}, x == x)")
    )
