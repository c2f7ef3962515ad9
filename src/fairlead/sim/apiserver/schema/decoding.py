"""Turns what a client sent into what a typed server would hold.

The real server decodes into Go structs and encodes them again: unknown fields go, nulls and
empty lists go, and a value of the wrong type is an error. This does the same from the type table.
"""

from typing import Any

from fairlead.sim.apiserver.schema.types import Field, fields_of

# Scalars that Go holds by value: their zero is not written. Others are pointers and keep it.
_ZERO_DROPS = frozenset(
    {
        "unschedulable", "hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty",
        "paused", "readOnly", "generation", "minReadySeconds", "globalDefault", "optional",
        "publishNotReadyAddresses",
    }
)  # fmt: skip
# Strings that Go holds by pointer: "" says something.
_EMPTY_MEANS = frozenset({"storageClassName", "volumeName", "apiGroup", "value"})
_KEPT_EMPTY = frozenset({"rules", "subjects"})
_GO_TYPES = {"str": "string", "int": "int32", "bool": "bool", "num": "float64", "bytes": "[]uint8"}
_LONG_INTEGERS = frozenset(
    {
        "generation", "observedGeneration", "activeDeadlineSeconds", "tolerationSeconds",
        "terminationGracePeriodSeconds", "gracePeriodSeconds", "deletionGracePeriodSeconds",
        "runAsUser", "runAsGroup", "fsGroup",
    }
)  # fmt: skip


class WrongType(Exception):
    """A value that does not fit its field; the text is the one of Go's JSON decoder."""


def conform(value: dict[str, Any], type_name: str) -> dict[str, Any]:
    """A copy with only known fields, without nulls and empty optional values."""
    typed: dict[str, Any] = _struct(value, type_name, "", type_name.rpartition(".")[2])
    return typed


def _struct(value: Any, type_name: str, path: str, owner: str) -> Any:
    fields = fields_of(type_name)
    if fields is None:
        return value
    if not isinstance(value, dict):
        raise _wrong(value, owner, path, _go_name(type_name))
    kept: dict[str, Any] = {}
    for name, item in value.items():
        field = fields.get(name)
        if field is None or item is None:
            continue
        here = f"{path}.{name}" if path else name
        result = _field(item, field, here, type_name.rpartition(".")[2])
        if not _vanishes(result, field):
            kept[name] = result
    return kept


def _field(item: Any, field: Field, path: str, owner: str) -> Any:
    if field.shape == "one":
        if field.is_struct:
            return _struct(item, field.element, path, owner)
        return _scalar(item, field.element, path, owner)
    if field.shape == "list":
        if not isinstance(item, list):
            raise _wrong(item, owner, path, "[]" + _go_name(field.element))
        return [_element(each, field.element, path, owner) for each in item]
    if not isinstance(item, dict):
        raise _wrong(item, owner, path, "map[string]" + _go_name(field.element))
    return {key: _element(each, field.element, path, owner) for key, each in item.items()}


def _element(item: Any, element: str, path: str, owner: str) -> Any:
    if "." in element:
        return _struct({} if item is None else item, element, path, owner)
    if item is None and element in ("str", "quantity"):
        return "" if element == "str" else "0"
    return _scalar(item, element, path, owner)


def _scalar(item: Any, element: str, path: str, owner: str) -> Any:
    if element == "any":
        return item
    if element == "str" and not isinstance(item, str):
        raise _wrong(item, owner, path, "string")
    if element == "bool" and not isinstance(item, bool):
        raise _wrong(item, owner, path, "bool")
    if element == "int" and (isinstance(item, bool) or not isinstance(item, int)):
        raise _wrong(item, owner, path, _integer(path))
    if element == "quantity" and isinstance(item, int | float) and not isinstance(item, bool):
        return str(item)
    return item


def _integer(path: str) -> str:
    return "int64" if path.rpartition(".")[2] in _LONG_INTEGERS else "int32"


def _vanishes(value: Any, field: Field) -> bool:
    if field.name in _KEPT_EMPTY:
        return False
    if field.shape != "one":
        return not value
    if value == "" and field.element == "str":
        return not field.required and field.name not in _EMPTY_MEANS
    if (value is False or value == 0) and not isinstance(value, str):
        return field.name in _ZERO_DROPS
    return False


def _go_name(type_name: str) -> str:
    if "." not in type_name:
        return _GO_TYPES.get(type_name, type_name)
    package, _, name = type_name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{name}"


def _wrong(value: Any, owner: str, path: str, wanted: str) -> WrongType:
    shown = {str: "string", bool: "bool", list: "array", dict: "object"}.get(type(value), "number")
    return WrongType(
        f"json: cannot unmarshal {shown} into Go struct field {owner}.{path} of type {wanted}"
    )
