"""A syntax tree as functions of Python, checked for types on the way."""

from dataclasses import field

from fairlead.cel import calls, folds
from fairlead.cel.access import optional_item
from fairlead.cel.environment import DEVICES, Environment
from fairlead.cel.errors import CelEvaluationError, MisplacedError
from fairlead.cel.running import Checked, Evaluation, Runner
from fairlead.cel.syntax import (
    Binding,
    Comprehension,
    Constant,
    Expression,
    FieldSelection,
    Identifier,
    Invocation,
    ListLiteral,
    MapLiteral,
)
from fairlead.cel.types import (
    BOOL,
    DYN,
    ERROR,
    StaticType,
    Substitutions,
    list_of,
    map_of,
    optional_of,
)
from fairlead.cel.values import Optional, TypeName, Value, kind_of, map_key
from fairlead.model.lazy_dataclass import dataclass

_TYPE_NAMES = {
    **{
        each: each
        for each in [
            "bool",
            "bytes",
            "double",
            "int",
            "list",
            "map",
            "null_type",
            "string",
            "type",
            "uint",
        ]
    },
    "optional_type": "optional_type",
}


@dataclass(slots=True)
class Compiler:
    """One pass over a tree. Errors are collected: a message shows all of them."""

    environment: Environment = DEVICES
    errors: list[MisplacedError] = field(default_factory=list)
    scope: list[tuple[str, StaticType]] = field(default_factory=list)
    late_errors: list[MisplacedError] = field(default_factory=list)
    pairs: list[tuple[int, StaticType, StaticType]] = field(default_factory=list)
    types: Substitutions = field(default_factory=Substitutions)
    slots: int = 0

    def __post_init__(self) -> None:
        self.declare(*self.environment.variables)

    def build(self, node: Expression) -> Checked:
        match node:
            case Constant():
                value = node.value
                return Checked(StaticType(kind_of(value)), lambda _: value)
            case Identifier():
                return self._variable(node)
            case FieldSelection():
                return self._selection(node)
            case Invocation():
                return calls.build(self, node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return folds.build(self, node)
            case Binding():
                return folds.bind(self, node)

    def failures(self) -> list[MisplacedError]:
        """All errors. Those of literals count only where the types are right."""
        if self.errors:
            return sorted(self.errors, key=lambda error: error.at)
        for at, *kinds in self.pairs:
            first, second = (self.types.applied(kind, final=True) for kind in kinds)
            if first != second:
                text = f"expected type '{first}' but found '{second}'"
                self.late_errors.append(MisplacedError(text, at))
        return self.late_errors

    def fail(self, text: str, at: int) -> Checked:
        self.errors.append(MisplacedError(text, at))
        return Checked(ERROR, lambda _: None)

    def kind(self, checked: Checked) -> StaticType:
        return self.types.applied(checked.kind)

    def declared(self, name: str) -> bool:
        return any(name == known for known, _ in self.scope)

    def declare(self, *variables: tuple[str, StaticType]) -> int:
        """The place of the first of these variables, which `forget` removes."""
        first = len(self.scope)
        self.scope.extend(variables)
        self.slots = max(self.slots, len(self.scope))
        return first

    def forget(self, first: int) -> None:
        del self.scope[first:]

    def _variable(self, node: Identifier) -> Checked:
        for slot in range(len(self.scope) - 1, -1, -1):
            name, kind = self.scope[slot]
            if name == node.name:
                return Checked(kind, _reader(slot))
        if node.name in _TYPE_NAMES:
            value = TypeName(_TYPE_NAMES[node.name])
            return Checked(StaticType("type", (StaticType(value.name),)), lambda _: value)
        return self.fail(f"undeclared reference to '{node.name}' (in container '')", node.at)

    def _selection(self, node: FieldSelection) -> Checked:
        operand = self.build(node.operand)
        of = self.kind(operand)
        wrapped = of.name == "optional_type"
        kind = self._field(of.of[0] if wrapped else of, node)
        if node.test:
            return Checked(BOOL, _tester(operand.run, node.field))
        if wrapped or node.optional:
            return Checked(optional_of(kind), _optional_selector(operand.run, node.field))
        return Checked(kind, _selector(operand.run, node.field))

    def _field(self, of: StaticType, node: FieldSelection) -> StaticType:
        fields = self.environment.fields.get(of.name)
        if fields is not None:
            if node.field not in fields:
                return self.fail(f"undefined field '{node.field}'", node.at).kind
            return fields[node.field]
        if of.name == "map":
            return of.of[1]
        if of.parameter:
            self.types.assignable([(DYN, of)])
        elif not of.unknown:
            return self.fail(f"type '{of}' does not support field selection", node.at).kind
        return DYN

    def _list(self, node: ListLiteral) -> Checked:
        items = [self.build(each) for each in node.items]
        kind = self._element(node.items, items, node.optional)
        runs = tuple(zip((item.run for item in items), node.optional, strict=True))

        def run(evaluation: Evaluation) -> Value:
            evaluation.charge(10 + len(runs))
            found = []
            for item, optional in runs:
                value = item(evaluation)
                if not optional:
                    found.append(value)
                elif value.present:
                    found.append(value.value)
            return found

        return Checked(list_of(kind), run)

    def _map(self, node: MapLiteral) -> Checked:
        keys = [self.build(each) for each in node.keys]
        values = [self.build(each) for each in node.values]
        key = self._element(node.keys, keys, (False,) * len(keys))
        kind = self._element(node.values, values, node.optional)
        runs = tuple((k.run, v.run, o) for k, v, o in zip(keys, values, node.optional, strict=True))
        return Checked(map_of(key, kind), _map_builder(runs))

    def _element(
        self, nodes: tuple[Expression, ...], items: list[Checked], optional: tuple[bool, ...]
    ) -> StaticType:
        """The one type of all. Mixed ones are dyn here, and refused in the end."""
        found: StaticType | None = None
        first = DYN
        for node, item, may_be_absent in zip(nodes, items, optional, strict=True):
            kind = self.kind(item)
            if may_be_absent and kind.name == "optional_type":
                kind = kind.of[0]
            if found is None:
                found = kind
                first = kind
                continue
            if kind == first == found:
                continue
            self.pairs.append((node.at, first, kind))
            found = self.types.joined(found, kind)
        return self.types.new() if found is None else found


def _reader(slot: int) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.left -= 1
        value = evaluation.variables[slot]
        if isinstance(value, CelEvaluationError):
            raise value
        return value

    return run


def _selector(operand: Runner, name: str) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.left -= 1
        value = operand(evaluation)
        if not isinstance(value, dict):
            raise CelEvaluationError(f"no such key: {name}")
        try:
            return value[name]
        except KeyError:
            raise CelEvaluationError(f"no such key: {name}") from None

    return run


def _tester(operand: Runner, name: str) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.left -= 1
        value = operand(evaluation)
        if isinstance(value, Optional):
            value = value.value
        return isinstance(value, dict) and (hasattr(value, "__missing__") or name in value)

    return run


def _optional_selector(operand: Runner, name: str) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.left -= 1
        return optional_item(operand(evaluation), name)

    return run


def _map_builder(runs: tuple[tuple[Runner, Runner, bool], ...]) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(30 + len(runs))
        found = {}
        for key_run, value_run, optional in runs:
            key, value = map_key(key_run(evaluation)), value_run(evaluation)
            if not optional:
                found[key] = value
            elif value.present:
                found[key] = value.value
        return found

    return run
