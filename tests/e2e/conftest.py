"""The real control plane as fixtures: one shared by most tests, or one of a test's own.

A test asks for `control_plane` and works in its own `namespace`, on nodes from `create_nodes`;
all three are cleaned up after it. A test that kills things asks for `new_control_plane`.
When a test fails, its report says where the logs of the control plane are; otherwise they go.
"""

import contextlib
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane, Process

BUILD = Path(__file__).parents[2] / "controlplane" / "build.py"
PLANES = {"control_plane", "new_control_plane"}

_numbers = itertools.count()


@dataclass(slots=True)
class Scratch:
    """The folders of this session's control planes, and those that a failed test may need."""

    assets: Path | None = None
    live: set[Path] = field(default_factory=set)
    blamed: set[Path] = field(default_factory=set)


SCRATCH = pytest.StashKey[Scratch]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SCRATCH] = Scratch()


@pytest.hookimpl(tryfirst=True)  # before -m picks by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "assets" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.server)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test: a first build outlasts any test's timeout, and is watched."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "assets" in wanted and not session.config.option.collectonly:
        with _shown(session.config):
            session.config.stash[SCRATCH].assets = _build(["helm"] if "helm" in wanted else [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and PLANES & set(getattr(item, "fixturenames", ())):
        scratch = item.config.stash[SCRATCH]
        scratch.blamed |= scratch.live
        logs = "\n".join(str(folder / "logs") for folder in sorted(scratch.live))
        report.sections.append(("control plane logs, kept", logs))
    return report


@pytest.fixture(scope="session")
def assets(pytestconfig: pytest.Config) -> Path:
    """The folder of kube-apiserver, etcd and the other programs."""
    built = pytestconfig.stash[SCRATCH].assets
    if built is None:
        pytest.fail(f"{BUILD} failed; it said why before the first test.", pytrace=False)
    return built


@pytest.fixture(scope="session")
def helm(assets: Path) -> Path:
    """The helm program."""
    return assets / "helm"


@pytest.fixture(scope="session")
def control_plane(assets: Path, pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, shared: leave nothing behind that another test could see."""
    scratch = pytestconfig.stash[SCRATCH]
    with _folder(scratch) as folder:
        scratch.blamed.add(folder)  # until it has started
        with ControlPlane.start(assets, folder) as plane:
            scratch.blamed.discard(folder)
            yield plane


@pytest.fixture
def new_control_plane(
    assets: Path, pytestconfig: pytest.Config
) -> Iterator[Callable[..., ControlPlane]]:
    """Starts a control plane of the test's own, with the options of `ControlPlane.start`."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> ControlPlane:
            folder = stack.enter_context(_folder(pytestconfig.stash[SCRATCH]))
            return stack.enter_context(ControlPlane.start(assets, folder, **options))

        yield start


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace on the shared control plane; it goes, with all in it, after the test."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    name = f"{words[:40].strip('-')}-{next(_numbers)}"
    status, answer = control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def create_nodes(control_plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    """`ControlPlane.create_nodes` on the shared control plane; the nodes go after the test."""
    created: list[str] = []

    def create(*arguments: Any, **options: Any) -> list[str]:
        names = control_plane.create_nodes(*arguments, **options)
        created.extend(names)
        return names

    yield create
    for name in created:
        control_plane.api("DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def kwok(control_plane: ControlPlane) -> Iterator[Process]:
    """KWOK on the shared control plane for the time of one test."""
    with control_plane.start_kwok() as process:
        yield process


@contextlib.contextmanager
def _folder(scratch: Scratch) -> Iterator[Path]:
    """A scratch folder; of it, only the logs outlast a failed test, and nothing another."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-e2e-"))
    scratch.live.add(folder)
    try:
        yield folder
    finally:
        scratch.live.discard(folder)
        _clean(folder, keep_logs=folder in scratch.blamed)


def _clean(folder: Path, *, keep_logs: bool) -> None:
    if not keep_logs:
        shutil.rmtree(folder)
        return
    for path in folder.iterdir():
        if path.is_dir() and path.name != "logs":
            shutil.rmtree(path)
        elif path.name != "logs":
            path.unlink()


def _shown(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()


def _build(extra: list[str]) -> Path | None:
    command = [sys.executable, str(BUILD), *(["--with", ",".join(extra)] if extra else [])]
    build = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return Path(build.stdout.splitlines()[-1]) if build.returncode == 0 else None
