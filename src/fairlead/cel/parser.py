"""Tokens as a syntax tree, by precedence. Nesting is bounded: the parser calls itself."""

from collections.abc import Callable
from typing import TypeVar

from fairlead.cel import macros
from fairlead.cel.errors import MisplacedError
from fairlead.cel.lexer import Token, string_of, syntax_error, tokens
from fairlead.cel.syntax import (
    Constant,
    Expression,
    FieldSelection,
    Identifier,
    Invocation,
    ListLiteral,
    MapLiteral,
)
from fairlead.cel.values import Unsigned
from fairlead.model.lazy_dataclass import dataclass

#: kube-scheduler allows 250. A selector that is meant for people to read has less than ten.
NESTING = 48

_LEVELS: tuple[dict[str, str], ...] = (
    {"||": "_||_"},
    {"&&": "_&&_"},
    {
        **{sign: f"_{sign}_" for sign in ("==", "!=", "<", "<=", ">", ">=")},
        "in": "@in",
    },
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
_LEVEL_OF = {text: level for level, texts in enumerate(_LEVELS) for text in texts}
_Item = TypeVar("_Item")
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void"),
        "while",
    }
)
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse_expression(text: str) -> Expression:
    """Raises MisplacedError."""
    parser = _Parser(tokens(text))
    tree = parser.expression()
    parser.take("<EOF>")
    return tree


@dataclass(slots=True)
class _Parser:
    tokens: list[Token]
    index: int = 0
    nesting: int = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    def sees(self, *texts: str) -> bool:
        return self.next.text in texts and self.next.kind in ("operator", "end", "name")

    def take(self, *texts: str) -> Token:
        """The next token. Raises MisplacedError if it is not one of these."""
        token = self.next
        if texts and not self.sees(*texts):
            expected = " or ".join(f"'{text}'" for text in texts)
            raise syntax_error(f"mismatched input '{token.text}' expecting {expected}", token.at)
        self.index += 1
        return token

    def skip(self, text: str) -> bool:
        if not self.sees(text):
            return False
        self.index += 1
        return True

    def expression(self) -> Expression:
        self.nesting += 1
        if self.nesting > NESTING:
            text = f"expression recursion limit exceeded: {NESTING}"
            raise MisplacedError(text, self.next.at)
        found = self._binary(0)
        if self.sees("?"):
            at = self.take("?").at
            yes = self._binary(0)
            self.take(":")
            found = Invocation("_?_:_", None, (found, yes, self.expression()), at)
        self.nesting -= 1
        return found

    def _binary(self, lowest: int) -> Expression:
        """Operators from left to right. && and || take all of a chain at once."""
        found = self._unary()
        while (level := self._level()) >= lowest:
            token = self.take()
            name, right = _LEVELS[level][token.text], self._binary(level + 1)
            chained = level < 2 and isinstance(found, Invocation) and found.function == name
            before = found.arguments if chained and isinstance(found, Invocation) else (found,)
            found = Invocation(name, None, (*before, right), token.at)
        return found

    def _level(self) -> int:
        """The precedence of the operator that comes next; -1: there is none."""
        known = self.next.kind in ("operator", "name")
        return _LEVEL_OF.get(self.next.text, -1) if known else -1

    def _unary(self) -> Expression:
        if not self.sees("!", "-"):
            return self._member()
        first = self.take()
        count = 1
        while self.skip(first.text):
            count += 1
        if first.text == "-" and self.next.kind in ("int", "double") and count == 1:
            return self._suffixes(self._number(self.take(), first))
        operand = self._member()
        if count % 2 == 0:
            return operand
        return Invocation("!_" if first.text == "!" else "-_", None, (operand,), first.at)

    def _member(self) -> Expression:
        return self._suffixes(self._primary())

    def _suffixes(self, found: Expression) -> Expression:
        while self.sees(".", "["):
            found = self._field(found) if self.sees(".") else self._index(found)
        return found

    def _index(self, operand: Expression) -> Expression:
        at = self.take("[").at
        name = "_[?_]" if self.skip("?") else "_[_]"
        index = self.expression()
        self.take("]")
        return Invocation(name, None, (operand, index), at)

    def _field(self, operand: Expression) -> Expression:
        dot = self.take(".")
        optional = self.skip("?")
        name = self.take()
        if name.kind != "name" or name.text in (*_CONSTANTS, "in"):
            raise syntax_error(f"no viable alternative at input '.{name.text}'", name.at)
        if optional or not self.sees("("):
            return FieldSelection(operand, name.text, dot.at, optional=optional)
        at = self.take("(").at
        return macros.method(operand, name.text, self._list(")"), at)

    def _list(self, end: str) -> tuple[Expression, ...]:
        """Expressions up to the end. A list may end with a comma, a call may not."""
        return tuple(self._items(end, self.expression, trailing=False))

    def _items(self, end: str, item: Callable[[], _Item], *, trailing: bool) -> list[_Item]:
        found: list[_Item] = []
        while not self.sees(end):
            found.append(item())
            if not self.skip(","):
                break
            if self.sees(end) and not trailing:
                raise syntax_error(f"mismatched input '{end}'", self.next.at)
        self.take(end)
        return found

    def _primary(self) -> Expression:
        token = self.take()
        if token.kind in ("int", "uint", "double"):
            return self._number(token)
        if token.kind in ("text", "raw"):
            return Constant(string_of(token), token.at)
        if token.kind == "name":
            return self._name(token)
        match token.text:
            case "(":
                inner = self.expression()
                self.take(")")
                return inner
            case "[":
                return self._list_literal(token.at)
            case "{":
                return self._map_literal(token.at)
            case "." if self.next.kind == "name":
                return self._name(self.take())
        raise syntax_error(f"mismatched input '{token.text}' expecting an expression", token.at)

    def _name(self, token: Token) -> Expression:
        if token.text in _CONSTANTS:
            return Constant(_CONSTANTS[token.text], token.at)
        if token.text in _RESERVED:
            raise MisplacedError(f"reserved identifier: {token.text}", token.at)
        if not self.sees("("):
            return Identifier(token.text, token.at)
        at = self.take("(").at
        return macros.function(token.text, self._list(")"), at)

    def _list_literal(self, at: int) -> Expression:
        items = self._items("]", self._maybe_optional, trailing=True)
        return ListLiteral(tuple(e for e, _ in items), tuple(o for _, o in items), at)

    def _maybe_optional(self) -> tuple[Expression, bool]:
        optional = self.skip("?")
        return self.expression(), optional

    def _map_literal(self, at: int) -> Expression:
        items = self._items("}", self._entry, trailing=True)
        keys, values, optional = zip(*items, strict=True) if items else ((), (), ())
        return MapLiteral(keys, values, optional, at)

    def _entry(self) -> tuple[Expression, Expression, bool]:
        key, optional = self._maybe_optional()
        self.take(":")
        return key, self.expression(), optional

    def _number(self, token: Token, sign: Token | None = None) -> Constant:
        text = token.text if sign is None else f"-{token.text}"
        at = token.at if sign is None else sign.at
        if token.kind == "double":
            return Constant(_finite(float(text), at), at)
        digits = text.rstrip("uU")
        value = int(digits, 16 if "x" in digits else 10) if len(digits) < 30 else 1 << 70
        if token.kind == "uint" and value < 1 << 64:
            return Constant(Unsigned(value), at)
        if token.kind == "int" and -(1 << 63) <= value < 1 << 63:
            return Constant(value, at)
        raise MisplacedError(f"invalid {token.kind} literal", at)


def _finite(value: float, at: int) -> float:
    if value in (float("inf"), float("-inf")):
        raise MisplacedError("invalid double literal", at)
    return value
