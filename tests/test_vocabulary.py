"""One name for one thing: public names of different modules differ, and the glossary is in use."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = re.findall(r"^\| ([^|`]+?) \| .+ \|$", GLOSSARY, flags=re.MULTILINE)[1:]


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _defined(*kinds: type[ast.stmt]) -> dict[str, set[str]]:
    """Modules by the public name that they define at the top level."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SOURCES:
        for node in _tree(file).body:
            if isinstance(node, kinds) and not node.name.startswith("_"):
                found[node.name].add(_module(file))
    return found


def _imported() -> dict[str, set[str]]:
    """Modules by the names that others import from them, as they are."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SOURCES:
        for node in ast.walk(_tree(file)):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if alias.asname is None:
                    found[alias.name].add(node.module or "")
    return found


def test_no_two_modules_have_a_public_class_of_the_same_name() -> None:
    collide = {name: sorted(modules) for name, modules in _defined(ast.ClassDef).items()}
    assert {name: modules for name, modules in collide.items() if len(modules) > 1} == {}


def test_no_two_functions_that_are_imported_by_name_have_the_same_name() -> None:
    """Functions that callers qualify, such as `config.parse`, may have a short name."""
    imported = _imported()
    functions = _defined(ast.FunctionDef, ast.AsyncFunctionDef)
    collide = {name: sorted(modules & imported[name]) for name, modules in functions.items()}
    assert {name: modules for name, modules in collide.items() if len(modules) > 1} == {}


# -- the glossary ----------------------------------------------------------------------------------


def _words() -> Iterator[str]:
    """Identifiers in words, comments and docstrings of the sources, lower case."""
    for file in SOURCES:
        for token in tokenize.generate_tokens(io.StringIO(file.read_text()).readline):
            if token.type == tokenize.NAME:
                yield re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", token.string)
            elif token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.string


@pytest.fixture(scope="module")
def used() -> str:
    return re.sub(r"\s+", " ", " ".join(_words()).lower())


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_the_glossary_is_used_in_the_code(term: str, used: str) -> None:
    assert re.search(rf"\b{_any_form(term)}\b", used), "remove it from docs/glossary.md"


def _any_form(term: str) -> str:
    """Plural and verb forms too: bind, binds, binding; cut, cutting; price, priced."""
    *first, last = term.lower().split()
    stem = re.escape(last.removesuffix("e"))
    forms = rf"{stem}(?:{stem[-1]}?(?:ed|er|ing)|e?s?|ers)"
    return " ".join([*map(re.escape, first), forms])


@pytest.mark.parametrize("term", ["kin", "pre filter seat", "crowding"])
def test_a_term_that_the_code_does_not_use_is_found(term: str, used: str) -> None:
    assert not re.search(rf"\b{_any_form(term)}\b", used)


def test_the_glossary_defines_each_term_once_and_in_alphabetical_order() -> None:
    assert len(TERMS) > 50
    assert sorted(set(TERMS), key=str.lower) == TERMS
