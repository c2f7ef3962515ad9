"""Reads the cases of tests/e2e/podgroups; its README describes the lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "podgroups"
#: Which scheduler a line is for.
SCHEDULERS = {"kube": "default-scheduler", "fairlead": "gpu-scheduler"}


@dataclass(frozen=True)
class Line:
    """One step: a verb, the words after it, and the scheduler that it is for if not both."""

    verb: str
    words: tuple[str, ...]
    scheduler: str = ""

    def concerns(self, scheduler: str) -> bool:
        return self.scheduler in {"", scheduler}


@dataclass(frozen=True)
class Script:
    file: str
    title: str
    lines: tuple[Line, ...]


def scripts() -> list[Script]:
    return [script for path in sorted(FOLDER.glob("*.txt")) for script in _scripts(path)]


def _scripts(path: Path) -> Iterator[Script]:
    for text in ("\n" + path.read_text()).split("\n== ")[1:]:
        title, *lines = text.splitlines()
        steps = (line for line in lines if line and not line.startswith("#"))
        yield Script(path.stem, title, tuple(map(line_of, steps)))


def line_of(text: str) -> Line:
    name, colon, rest = text.partition(": ")
    if colon and name in SCHEDULERS:
        return _as(rest, SCHEDULERS[name])
    return _as(text, "")


def _as(text: str, scheduler: str) -> Line:
    verb, *words = text.split()
    return Line(verb, tuple(words), scheduler)


@dataclass(frozen=True)
class PodWords:
    """`pods g: p q =2 @200 gated`."""

    group: str
    names: tuple[str, ...]
    cpu: int
    priority: int | None
    #: Where it is, or must go.
    node: str
    flags: frozenset[str]
    #: Words with a value, such as `uses=v1`.
    values: dict[str, str]

    @classmethod
    def of(cls, words: tuple[str, ...]) -> "PodWords":
        group, rest = words[0].removesuffix(":"), list(words[1:])
        names: list[str] = []
        flags: set[str] = set()
        values: dict[str, str] = {}
        cpu, priority, node = 1, None, ""
        while rest:
            word = rest.pop(0)
            if word.startswith("="):
                cpu = int(word[1:])
            elif word.startswith("@"):
                priority = int(word[1:])
            elif word == "on":
                node = rest.pop(0)
            elif "=" in word:
                name, _, value = word.partition("=")
                values[name] = value
            elif word in _FLAGS:
                flags.add(word)
            else:
                names.append(word)
        group = "" if group == "-" else group
        return cls(group, tuple(names), cpu, priority, node, frozenset(flags), values)


_FLAGS = ("gated", "tolerates", "label", "apart", "keeps")


@dataclass(frozen=True)
class GroupWords:
    """`group g 3 rack in root @200`; no minimum: it is of the policy "basic"."""

    name: str
    minimum: int | None
    topology: str
    part_of: str
    priority: int | None

    @classmethod
    def of(cls, words: tuple[str, ...]) -> "GroupWords":
        name, least, *rest = words
        priority = next((int(word[1:]) for word in rest if word.startswith("@")), None)
        part_of = rest[rest.index("in") + 1] if "in" in rest else ""
        topology = rest[0] if rest and rest[0] not in {"in", part_of} and rest[0][0] != "@" else ""
        return cls(name, None if least == "basic" else int(least), topology, part_of, priority)


@dataclass(frozen=True)
class NodeWords:
    """`a:z1/r1*4!taint`."""

    name: str
    labels: dict[str, str]
    cpus: int
    taint: str

    @classmethod
    def of(cls, word: str) -> "NodeWords":
        rest, _, taint = word.partition("!")
        rest, _, cpus = rest.partition("*")
        name, _, place = rest.partition(":")
        found = place.split("/") if place else []
        keys = {0: (), 2: ("zone", "rack"), 3: ("zone", "block", "rack")}[len(found)]
        return cls(name, dict(zip(keys, found, strict=True)), int(cpus or 2), taint)
