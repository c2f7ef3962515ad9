"""Functions by name: their signatures for the checker, and what computes them."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from fairlead.cel.types import StaticType
from fairlead.model.lazy_dataclass import dataclass

Function = Callable[..., Any]
_ALIASES = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "optional": "optional_type",
    "null": "null_type",
}
_WORD = re.compile(r"[\w.]+|[(),]")


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. A method's first parameter is what it is called on."""

    method: bool
    parameters: tuple[StaticType, ...]
    result: StaticType
    kinds: tuple[str | None, ...]
    compute: Function | None


FUNCTIONS: dict[str, list[Overload]] = defaultdict(list)


def declare(*signatures: str, compute: Function | None = None) -> None:
    """Signatures such as `size(list(A)) -> int`; of a method, `string::size() -> int`."""
    for signature in signatures:
        left, result = signature.split(" -> ")
        target, _, call = left.rpartition("::")
        name, inner = call[:-1].split("(", 1)
        words = _WORD.findall(f"{target},{inner}" if target else inner)
        parameters = tuple(_types(words))
        kinds = tuple(None if _open(kind) else kind.name for kind in parameters)
        found = Overload(bool(target), parameters, _types(_WORD.findall(result))[0], kinds, compute)
        FUNCTIONS[name].append(found)


def computes(*signatures: str) -> Callable[[Function], Function]:
    """Declares the signatures that the function computes."""

    def declared(compute: Function) -> Function:
        declare(*signatures, compute=compute)
        return compute

    return declared


def _open(kind: StaticType) -> bool:
    return kind.unknown or kind.parameter


def _types(words: list[str]) -> list[StaticType]:
    """The types up to a closing parenthesis or the end; takes the words that it has read."""
    found: list[StaticType] = []
    while words and words[0] != ")":
        word = words.pop(0)
        if word == ",":
            continue
        inner: list[StaticType] = []
        if words and words[0] == "(":
            words.pop(0)
            inner = _types(words)
            words.pop(0)
        found.append(StaticType(_ALIASES.get(word, word), tuple(inner)))
    return found
