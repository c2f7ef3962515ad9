"""Every kind that is read is mutated, and every fuzz test can search for longer."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fairlead
from fairlead.apps.agent.resource_slices.slice_publisher import PATH as SLICES_PATH
from fairlead.apps.run.yunikorn_watch import YunikornWatch
from fairlead.kube.claims.kinds import TAINT_RULES
from fairlead.kube.claims.templates import TEMPLATES
from fairlead.kube.kueue_workloads import WORKLOADS
from fairlead.kube.object_kinds import ObjectKind
from fairlead.kube.owner_kinds import OWNER_KINDS, VOLCANO_JOB
from fairlead.kube.provisioning import REQUESTS
from fuzz import optional, searching
from fuzz.objects import KINDS
from fuzz.target import _NO_CLIENT, Target
from fuzz.watched import optional_watches

SOURCES = Path(fairlead.__file__).parent
TESTS = Path(__file__).parents[1]
FUZZ_TESTS = [*TESTS.glob("fuzz/test_fuzz*.py"), *TESTS.glob("e2e/test_fuzz*.py")]
#: Where watches are made; what each of them watches is read from them in `watched`.
WATCHING = {
    "apps/agent/agent.py", "apps/agent/resource_slices/slice_publisher.py",
    "apps/run/advance_watches.py", "apps/run/claim_watches.py", "apps/run/counted_watches.py",
    "apps/run/data_watches.py", "apps/run/gang_watches.py", "apps/run/node_requests.py",
    "apps/run/queue_watches.py", "apps/run/served_kinds.py", "apps/run/topology_watches.py",
    "apps/run/watches.py", "apps/run/yunikorn_watch.py", "apps/webhook/queue_watch.py",
}  # fmt: skip
_NOTHING: Any = None


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """In the source: by file, the calls of functions of these names."""
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        if not any(f"{name}(" in text for name in names):
            continue
        for found in ast.walk(ast.parse(text)):
            if isinstance(found, ast.Call) and getattr(found.func, "id", "") in names:
                yield path.relative_to(SOURCES).as_posix(), found


def full_name(path: str) -> str:
    """Of the kind that is listed at a path, as `kubectl get` takes it."""
    parts = path.replace("/namespaces/{namespace}", "").strip("/").split("/")
    return f"{parts[-1]}.{parts[1]}" if parts[0] == "apis" else parts[-1]


def watched() -> set[str]:
    """All kinds that the scheduler, the webhook and the agent watch."""
    target = Target(Random(0))
    yunikorn = YunikornWatch(_NO_CLIENT, ("{namespace}", "c"), target.feed, _NOTHING)
    always = [each.path for each in target.watches.all]
    served = set(optional_watches(target))
    return served | set(map(full_name, [*always, yunikorn.reflector.path, SLICES_PATH]))


def declared() -> set[str]:
    """All kinds that the source describes to read them, watched or not."""
    found = set()
    for path, call in calls("ObjectKind", "GangKind", "QueueKind"):
        module = importlib.import_module("fairlead." + path.removesuffix(".py").replace("/", "."))
        group, _, plural, *_ = (_value(each, module) for each in call.args)
        found.add(f"{plural}.{group}")
    return found


def _value(found: ast.expr, module: Any) -> Any:
    if isinstance(found, ast.Constant):
        return found.value
    return getattr(module, found.id) if isinstance(found, ast.Name) else None


def mutated_kinds() -> set[str]:
    """Those of which tests/fuzz mutates an object."""
    others: list[ObjectKind] = [TAINT_RULES, TEMPLATES, REQUESTS, WORKLOADS, VOLCANO_JOB,
                                *OWNER_KINDS.values()]  # fmt: skip
    named = {each.full_name for each in others} | {"configmaps"}
    return named | set(optional.KINDS) | {full_name(path) for path, _ in KINDS.values()}


def test_every_kind_that_is_watched_is_mutated() -> None:
    assert watched() <= mutated_kinds()


def test_every_kind_that_is_declared_is_mutated() -> None:
    assert declared() <= mutated_kinds()
    assert len(declared()) > 30, "they are found in the source"


def test_no_watch_is_forgotten_here() -> None:
    """A file that makes watches of its own has to be read by `watched`."""
    assert {path for path, _ in calls("Reflector", "KindWatch")} == WATCHING


@pytest.mark.parametrize("path", FUZZ_TESTS, ids=lambda path: path.stem)
def test_every_fuzz_test_searches_for_as_long_as_asked(path: Path) -> None:
    text = path.read_text()
    assert "from fuzz.searching import" in text
    assert "batches(" in text or "cases(" in text
    assert "os.environ" not in text
    covered = "tests/fuzz" if path.parent.name == "fuzz" else "tests/e2e/test_fuzz*.py"
    assert f" {covered}" in (TESTS.parent / "Makefile").read_text()


def test_a_search_goes_on_until_its_time_is_over(monkeypatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(searching.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(searching, "FOR_S", 0.0)
    assert [case % 1_000_000 for case in searching.cases(2)] == [0, 1]
    monkeypatch.setattr(searching, "FOR_S", 3.0)
    assert [case % 1_000_000 for case in searching.cases(2)] == [0, 1, 2, 3, 4]
