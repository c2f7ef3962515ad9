"""One name for one thing: public names of different modules differ, and the glossary is in use."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = re.findall(r"^\| ([^|`]+?) \| .+ \|$", GLOSSARY, flags=re.MULTILINE)[1:]
_IMPORTS = re.compile(r"^ *from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_WORDS = re.compile(r'"""(?s:.*?)"""|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'|#.*|[A-Za-z_]\w*")
Sources = dict[str, str]


@pytest.fixture(scope="module")
def sources() -> Sources:
    """What stands in each module."""
    return {_module(file): file.read_text() for file in (ROOT / "src").rglob("*.py")}


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _defined(kind: str, sources: Sources) -> dict[str, set[str]]:
    """Modules by the public name that they define at the top level."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, source in sources.items():
        for name in re.findall(rf"^{kind} ([A-Za-z]\w*)", source, flags=re.MULTILINE):
            found[name].add(module)
    return found


def _imported(sources: Sources) -> dict[str, set[str]]:
    """Modules by the names that others import from them, as they are."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in sources.values():
        for module, many, few in _IMPORTS.findall(source):
            for name in re.sub(r"#.*", "", many or few).split(","):
                found[name.strip()].add(module)
    return found


def test_no_two_modules_have_a_public_class_of_the_same_name(sources: Sources) -> None:
    collide = {name: sorted(modules) for name, modules in _defined("class", sources).items()}
    assert {name: modules for name, modules in collide.items() if len(modules) > 1} == {}


def test_no_two_functions_that_are_imported_by_name_have_the_same_name(sources: Sources) -> None:
    """Functions that callers qualify, such as `config.parse`, may have a short name."""
    imported = _imported(sources)
    functions = _defined("(?:async )?def", sources)
    collide = {name: sorted(modules & imported[name]) for name, modules in functions.items()}
    assert {name: modules for name, modules in collide.items() if len(modules) > 1} == {}


# -- the glossary ----------------------------------------------------------------------------------


def _plain(word: str) -> str:
    """Comments and strings as they are, identifiers in words."""
    return word if word[0] in "\"'#" else re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", word)


@pytest.fixture(scope="module")
def used(sources: Sources) -> str:
    """Identifiers in words, comments and strings of the sources, each once, lower case."""
    found = {word for source in sources.values() for word in _WORDS.findall(source)}
    return re.sub(r"\s+", " ", " | ".join(map(_plain, found)).lower())


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
