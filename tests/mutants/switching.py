"""Puts many mutants into the same source, each behind a switch: `if _mutant(17): …`.

So one copy of the tree serves all of them, and nothing is imported again for the next one. What
`_mutant` answers is in `copied/mutant_switch.py`; it also tells which tests come to a mutant.
"""

import ast
from collections.abc import Iterable

from mutants.mutant import Mutant, applied, line_of


def switched(mutants: Iterable[Mutant], source: str) -> str:
    """The source with these mutants of it; raises Gone."""
    tree = ast.parse(source)
    for mutant in mutants:
        line = line_of(mutant, source)
        changed = ast.parse(applied(mutant, source))
        _switch(tree, _innermost(tree, line), _innermost(changed, line), mutant)
    return ast.unparse(ast.fix_missing_locations(tree))


def _innermost(tree: ast.AST, line: int) -> ast.stmt:
    """The smallest statement of which the line is a part."""
    within = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return min(within, key=lambda node: ((node.end_lineno or 0) - node.lineno, -node.col_offset))


def _switch(tree: ast.AST, was: ast.stmt, new: ast.stmt, mutant: Mutant) -> None:
    """Of a compound statement only the expressions that it begins with differ."""
    call = ast.parse(f"_mutant({mutant.number})", mode="eval").body
    if not hasattr(was, "body") and not isinstance(was, ast.Match):
        _replace(tree, was, ast.copy_location(ast.If(call, [new], [was]), was))
        return
    for (owner, name), (other, _) in zip(_heads(was), _heads(new), strict=True):
        here, there = getattr(owner, name), getattr(other, name)
        if ast.dump(here) != ast.dump(there):
            setattr(owner, name, ast.IfExp(call, there, here))


def _heads(statement: ast.stmt) -> list[tuple[ast.AST, str]]:
    if isinstance(statement, ast.If | ast.While):
        return [(statement, "test")]
    if isinstance(statement, ast.For | ast.AsyncFor):
        return [(statement, "iter")]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [(item, "context_expr") for item in statement.items]
    if isinstance(statement, ast.Match):
        guards: list[tuple[ast.AST, str]] = [(c, "guard") for c in statement.cases if c.guard]
        return [(statement, "subject"), *guards]
    return []


def _replace(tree: ast.AST, was: ast.stmt, new: ast.stmt) -> None:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and was in statements:
                statements[statements.index(was)] = new
                return
