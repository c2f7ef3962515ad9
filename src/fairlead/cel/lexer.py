"""Expressions as tokens."""

import re

from fairlead.cel.errors import MisplacedError
from fairlead.model.lazy_dataclass import dataclass

_LONG = r"""\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}"""
_QUOTED = _LONG + r"""|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'"""
_RAW = r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n\r]*"|'[^'\n\r]*'"""
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*)
  | (?P<raw>[bB]?[rR](?:{_RAW}))
  | (?P<text>[bB]?(?:{_QUOTED}))
  | (?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|\d+)
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_PLAIN = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int


def tokens(text: str) -> list[Token]:
    """All tokens, and one of kind `end`. Raises MisplacedError."""
    found = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise syntax_error(f"token recognition error at: '{text[at]}'", at)
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return [*found, Token("end", "<EOF>", at)]


def syntax_error(text: str, at: int) -> MisplacedError:
    return MisplacedError(f"Syntax error: {text}", at)


def string_of(token: Token) -> str | bytes:
    """The value of a literal of text or bytes."""
    is_bytes = token.text[0] in "bB"
    body = token.text[is_bytes + (token.kind == "raw") :]
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    if is_bytes:
        return body.encode() if token.kind == "raw" else _bytes_of(body, token)
    return body if token.kind == "raw" else _ESCAPE.sub(lambda m: _character(m, token), body)


def _bytes_of(body: str, token: Token) -> bytes:
    found, last = [], 0
    for match in _ESCAPE.finditer(body):
        found.append(body[last : match.start()].encode())
        code = match[1] or match[4]
        number = int(code, 16 if match[1] else 8) if code else -1
        found.append(bytes([number]) if code else _character(match, token).encode())
        last = match.end()
    return b"".join([*found, body[last:].encode()])


def _character(match: re.Match[str], token: Token) -> str:
    if match[5]:
        if match[5] not in _PLAIN:
            raise syntax_error(f"token recognition error at: '{token.text[:2]}'", token.at)
        return _PLAIN[match[5]]
    code = int(match[4], 8) if match[4] else int(match[1] or match[2] or match[3], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise syntax_error("invalid unicode code point", token.at)
    return chr(code)
