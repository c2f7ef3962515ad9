"""Functions of text, and regular expressions."""

from fairlead.cel import regex
from fairlead.cel.errors import CelEvaluationError
from fairlead.cel.overloads import computes
from fairlead.cel.running import Evaluation
from fairlead.cel.values import Value

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
#: What Go takes for space.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_ESCAPED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


@computes("string::contains(string) -> bool")
def _contains(evaluation: Evaluation, text: str, part: str) -> bool:
    evaluation.charge(len(text) // 10 * (len(part) // 10))
    return part in text


@computes("string::startsWith(string) -> bool")
def _starts(_: Evaluation, text: str, part: str) -> bool:
    return text.startswith(part)


@computes("string::endsWith(string) -> bool")
def _ends(_: Evaluation, text: str, part: str) -> bool:
    return text.endswith(part)


@computes("string::lowerAscii() -> string")
def _lower(_: Evaluation, text: str) -> str:
    return text.translate(_LOWER)


@computes("string::upperAscii() -> string")
def _upper(_: Evaluation, text: str) -> str:
    return text.translate(_UPPER)


@computes("string::trim() -> string")
def _trim(_: Evaluation, text: str) -> str:
    return text.strip(_SPACE)


@computes("string::charAt(int) -> string")
def _char_at(_: Evaluation, text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelEvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


@computes("string::indexOf(string) -> int", "string::indexOf(string, int) -> int")
def _index_of(_: Evaluation, text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelEvaluationError(f"index out of range: {offset}")
    return text.find(part, offset)


@computes("string::lastIndexOf(string) -> int", "string::lastIndexOf(string, int) -> int")
def _last_index_of(_: Evaluation, text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise CelEvaluationError(f"index out of range: {offset}")
    if offset >= len(text) and part:
        return -1
    return text.rfind(part, 0, offset + len(part))


@computes("string::substring(int) -> string", "string::substring(int, int) -> string")
def _substring(_: Evaluation, text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise CelEvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise CelEvaluationError(f"index out of range: {index}")
    return text[start:last]


@computes(
    "string::replace(string, string) -> string", "string::replace(string, string, int) -> string"
)
def _replace(evaluation: Evaluation, text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    evaluation.charge((len(text) + count * len(new)) // 10)
    return text.replace(old, new, limit)


@computes("string::split(string) -> list(string)", "string::split(string, int) -> list(string)")
def _split(evaluation: Evaluation, text: str, separator: str, limit: int = -1) -> list[str]:
    evaluation.charge(len(text) // 5)
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    head = list(text) if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]
    return [part for part in head if part]


@computes("list(string)::join() -> string", "list(string)::join(string) -> string")
def _join(evaluation: Evaluation, parts: list[Value], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise CelEvaluationError(f"join: invalid input: {part}")
    evaluation.charge((sum(map(len, parts)) + len(parts) * len(separator)) // 5)
    return separator.join(parts)


@computes("strings.quote(string) -> string")
def _quote(_: Evaluation, text: str) -> str:
    return f'"{"".join(_ESCAPED.get(letter, letter) for letter in text)}"'


@computes("string::matches(string) -> bool", "matches(string, string) -> bool")
def _matches(evaluation: Evaluation, text: str, pattern: str) -> bool:
    return regex.compiled(pattern).first(text, 0, evaluation.charge) is not None


@computes("string::find(string) -> string")
def _find(evaluation: Evaluation, text: str, pattern: str) -> str:
    found = regex.compiled(pattern).first(text, 0, evaluation.charge)
    return "" if found is None else text[slice(*found)]


@computes("string::findAll(string) -> list(string)", "string::findAll(string, int) -> list(string)")
def _find_all(evaluation: Evaluation, text: str, pattern: str, limit: int = -1) -> list[str]:
    spans = regex.compiled(pattern).all(text, limit, evaluation.charge)
    return [text[start:end] for start, end in spans]
