"""Selecting an item of a map or a list."""

from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.values import NOTHING, Optional, Unsigned, Value, kind_of, map_key

#: What Go calls the types of values, where a text of Kubernetes has it.
GO_TYPES = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "optional_type": "*types.Optional",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.Quantity": "cel.Quantity",
}
_KEYS = (str, int, Unsigned, float, bool)


def item(value: Value, key: Value) -> Value:
    """`value[key]`. Raises CelEvaluationError."""
    if type(key) not in _KEYS:
        shown = GO_TYPES.get(kind_of(key), kind_of(key))
        raise CelEvaluationError(f"invalid qualifier type: {shown}")
    if isinstance(value, dict):
        try:
            return value[map_key(key)]
        except KeyError:
            raise CelEvaluationError(f"no such key: {_text(key)}") from None
    if not isinstance(value, list):
        raise CelEvaluationError(f"no such key: {_text(key)}")
    if isinstance(key, float) and not key.is_integer():
        raise CelEvaluationError(f"unsupported index value {_text(key)} in list")
    if type(key) not in (int, float, Unsigned):
        raise CelEvaluationError(f"unsupported index type '{kind_of(key)}' in list")
    if not 0 <= key < len(value):
        raise CelEvaluationError(f"index out of bounds: {_text(key)}")
    return value[int(key)]


def _is_missing(error: CelEvaluationError) -> bool:
    return str(error).startswith(("no such key: ", "index out of bounds: "))


def _text(key: Value) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def optional_item(value: Value, key: Value) -> Optional:
    """What `.?` and `[?]` select."""
    if isinstance(value, Optional):
        if not value.present:
            return NOTHING
        value = value.value
    try:
        return Optional(present=True, value=item(value, key))
    except CelEvaluationError as error:
        if isinstance(value, (dict, list)) and not _is_missing(error):
            raise
        return NOTHING
