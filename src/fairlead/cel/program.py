"""Expressions that are ready to be evaluated."""

from collections.abc import Sequence

from fairlead.cel import conversions, lists, texts, units  # noqa: F401 - they declare functions
from fairlead.cel.compiler import Compiler
from fairlead.cel.devices import DeviceInput
from fairlead.cel.environment import DEVICES, Environment
from fairlead.cel.errors import CelCompileError, CelEvaluationError, MisplacedError
from fairlead.cel.parser import parse_expression
from fairlead.cel.reads import Read, reads_of
from fairlead.cel.running import Evaluation, Runner
from fairlead.cel.syntax import Expression, depth
from fairlead.cel.types import StaticType
from fairlead.cel.values import Value, kind_of
from fairlead.model.lazy_dataclass import dataclass

#: The API server accepts no longer selector.
LONGEST = 10 * 1024
#: Levels of a syntax tree: its functions call each other.
DEEPEST = 96
#: kube-scheduler's limit is 1,000,000 for one device. Selectors that drivers publish cost less
#: than 100; this one keeps one device below a few milliseconds.
COST_LIMIT = 10_000
KUBE_COST_LIMIT = 1_000_000
_RESULTS = ("bool", "any", "error")
#: What Go says of a value that is no bool.
_CONVERSIONS = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    expression: str
    run: Runner
    variables: int
    #: Attributes and capacities that decide the answer; None: all.
    reads: frozenset[Read] | None = None

    def evaluate(self, device: DeviceInput, *, cost_limit: int = COST_LIMIT) -> bool:
        """Whether the device matches. Raises CelError, with kube-scheduler's text."""
        if device.error:
            raise CelEvaluationError(device.error)
        return self.holds((device.value,), cost_limit=cost_limit)

    def holds(self, values: Sequence[Value], *, cost_limit: int = COST_LIMIT) -> bool:
        """The answer for these values of the variables, in their order. Raises CelError."""
        slots = [*values, *[None] * (self.variables - len(values))]
        evaluation = Evaluation(slots, cost_limit)
        result = self.run(evaluation)
        if type(result) is not bool:
            kind = kind_of(result)
            reason = _CONVERSIONS.get(kind, f"type conversion error from '{kind}' to 'bool'")
            text = f"CEL result of type {kind} could not be converted to bool: {reason}"
            raise CelEvaluationError(text)
        return result


def compile_expression(expression: str, environment: Environment = DEVICES) -> Program:
    """Raises CelCompileError."""
    if len(expression) > LONGEST:
        size = f"size: {len(expression)}, limit {LONGEST}"
        text = f"expression code point size exceeds limit: {size}"
        raise CelCompileError(f"compilation failed: ERROR: <input>:-1:0: {text}")
    compiler = Compiler(environment)
    try:
        tree = _tree(expression)
        checked = compiler.build(tree)
    except MisplacedError as error:
        raise _failed(expression, [error]) from None
    if failures := compiler.failures():
        raise _failed(expression, failures)
    _check_result(compiler.types.applied(checked.kind, final=True))
    return Program(expression, checked.run, compiler.slots, reads_of(tree))


def _tree(expression: str) -> Expression:
    tree = parse_expression(expression)
    if depth(tree) > DEEPEST:
        raise MisplacedError(f"expression recursion limit exceeded: {DEEPEST}", 0)
    return tree


def _check_result(kind: StaticType) -> None:
    if kind.name not in _RESULTS:
        text = f"must evaluate to bool or the unknown type, not {kind.full}"
        raise CelCompileError(text)


def _failed(expression: str, errors: list[MisplacedError]) -> CelCompileError:
    shown = "\n".join(_displayed(expression, error) for error in errors)
    return CelCompileError(f"compilation failed: {shown}")


def _displayed(expression: str, error: MisplacedError) -> str:
    """The message, the line of the expression, and a mark below the place."""
    begin = expression.rfind("\n", 0, error.at) + 1
    line = expression[begin:].partition("\n")[0].replace("\t", " ")
    number, column = expression.count("\n", 0, error.at) + 1, error.at - begin
    dots = "".join("." if letter.isascii() else "．" for letter in line[:column])
    mark = "^" if line[column : column + 1].isascii() else "＾"
    return f"ERROR: <input>:{number}:{column + 1}: {error}\n | {line}\n | {dots}{mark}"
