"""The control planes as fixtures: the real one, shared or of a test's own, and the embedded one.

A test asks for `control_plane` and leaves nothing behind in it, or for one of `planes` if it needs
other flags; a test that kills things asks for `new_control_plane`. All bring the `server` marker
along, and only tests with that marker cause the programs to be built. `embedded_plane` and
`controlled_plane` need no build. FAIRLEAD_KUBERNETES=1.37 in the environment picks another version
than the default.
When a test fails, its report says where the logs of the control plane are; otherwise they go.
"""

import contextlib
import functools
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import typing
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from scripts.suite.parts import LONGEST, PLAIN_FOLDERS

from embedded_plane import EmbeddedPlane
from fairlead.sim.controlplane import ControlPlane

if sys.version_info < (3, 12):
    # What a protocol asks for is looked up at each isinstance there, and kept in later versions.
    # Every profile asks what its plugins can do: it was half the time of an engine with one pod.
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)  # type: ignore[attr-defined]

# How long an example takes depends on who else uses the machine. The examples of `make test` are
# few and the same in each run, those of `make test-all` all (`full`); `make properties` draws
# others. `tests/examples.py` says how many each test has.
_PATIENT: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fairlead", derandomize=True, max_examples=30, **_PATIENT)
settings.register_profile("full", derandomize=True, **_PATIENT)
settings.register_profile("random", **_PATIENT)
settings.load_profile("fairlead")

BUILD = Path(__file__).parents[1] / "controlplane" / "build.py"
#: Fixtures of tests that start our programs as a user does.
PROGRAMS = {"up", "start", "builder", "embedded_plane"}
#: Folders of whose tests none does.
PLAIN = tuple(f"{folder}/" for folder in PLAIN_FOLDERS)
#: Folders whose tests all need a server or a program, or come with one that does.
LIVE = ("tests/e2e/", "tests/stories/")
PLANES = {"planes", "control_plane", "new_control_plane", "embedded_plane"}
#: Parts that are built for tests with these fixtures alone, which only `make test-all` runs.
EXTRA_PARTS = {
    "helm": "helm",
    "kwok_program": "kwok",
    "prometheus": "prometheus",
    "device_cel": "device-cel",
    "dra_allocator": "dra-allocator",
    "dra_allocator_1_37": "dra-allocator-1.37",
}
#: Tests on a real API server that could pass on one version of Kubernetes and fail on another:
#: they compare with kube-scheduler, or are about what `docs/versions.md` or
#: `fidelity/differences.py` lists. `make test-all` runs them on 1.37, too.
DIFFERS = (
    "fidelity/*", "oracle/*", "e2e/*oracle*", "e2e/test_claim*", "e2e/*_claim*", "e2e/*native*",
    "e2e/*podgroup*", "e2e/*_policy*", "e2e/*volume*", "e2e/test_binder*", "e2e/test_choices*",
    "e2e/test_examples*", "e2e/test_http_extenders*", "e2e/test_kube_scheduler_config*",
    "e2e/test_live_scenes*", "e2e/test_preemption*", "e2e/test_reflector*", "e2e/test_served*",
    "stories/test_claim*", "stories/*_claim*", "stories/*native*", "stories/*volume*",
    "stories/test_examples*",
)  # fmt: skip
Plane = TypeVar("Plane")


@dataclass(slots=True)
class Scratch:
    """The folders of this session's control planes, and those that a failed test may need."""

    assets: Path | None = None
    live: set[Path] = field(default_factory=set)
    blamed: set[Path] = field(default_factory=set)


SCRATCH = pytest.StashKey[Scratch]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SCRATCH] = Scratch()
    # A shell that runs us in the background has us ignore Ctrl-C, and our children with us.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is collected stays: to look for garbage in it takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m picks by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "assets" in fixtures:
            item.add_marker(pytest.mark.server)
        if PROGRAMS & set(fixtures) or item.nodeid.startswith(LIVE):
            item.add_marker(pytest.mark.program)
        if EXTRA_PARTS.keys() & set(fixtures):
            item.add_marker(pytest.mark.slow)
        if _differs(item.path):
            item.add_marker(pytest.mark.differs)
        _hold_plain(item)
    items.sort(key=lambda item: _turn(item.nodeid.partition("::")[0]))
    if seed := os.environ.get("FAIRLEAD_SHUFFLE"):
        _shuffle(items, int(seed))


def _hold_plain(item: pytest.Item) -> None:
    marks = {mark.name for mark in item.iter_markers()}
    if marks & {"server", "program"} and "slow" not in marks and item.nodeid.startswith(PLAIN):
        raise pytest.UsageError(
            f"{item.nodeid} needs a server or a program: mark it slow, or move it"
        )


def _turn(name: str) -> int:
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def _differs(path: Path) -> bool:
    name = path.relative_to(Path(__file__).parent).as_posix()
    return any(fnmatch(name, pattern) for pattern in DIFFERS)


def _shuffle(items: list[pytest.Item], seed: int) -> None:
    """Files in another order, and the tests within each; pytest puts fixtures together again."""
    lots = random.Random(seed)
    tests, files = list(items), list(dict.fromkeys(item.path for item in items))
    lots.shuffle(tests)
    lots.shuffle(files)
    place = {path: number for number, path in enumerate(files)}
    items[:] = sorted(tests, key=lambda item: place[item.path])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test: a first build outlasts any test's timeout, and is watched."""
    needy = [item for item in session.items if item.get_closest_marker("server")]
    if needy and not session.config.option.collectonly:
        wanted = {name for item in needy for name in getattr(item, "fixturenames", ())}
        with _shown(session.config):
            extra = [part for fixture, part in EXTRA_PARTS.items() if fixture in wanted]
            session.config.stash[SCRATCH].assets = _build(extra)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and PLANES & set(getattr(item, "fixturenames", ())):
        scratch = item.config.stash[SCRATCH]
        scratch.blamed |= scratch.live
        folders = [folder / "logs" for folder in sorted(scratch.live)]
        report.sections.append(("control plane logs, kept", "\n".join(map(str, folders))))
        report.sections += [(str(log), _end(log)) for folder in folders for log in _servers(folder)]
    return report


def _servers(folder: Path) -> Iterator[Path]:
    """The log of each API server, the part that most failures ask about."""
    yield from folder.glob("*apiserver*.log")
    yield from folder.glob("embedded-server.log")


def _end(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


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
def kwok_program(assets: Path) -> Path:
    """KWOK, for `ControlPlane.start_kwok`."""
    return assets / "kwok"


@pytest.fixture(scope="session")
def prometheus(assets: Path) -> Path:
    """The program of a Prometheus server; `promtool` lies beside it."""
    return assets / "prometheus"


@pytest.fixture(scope="session")
def planes(assets: Path, pytestconfig: pytest.Config) -> Iterator[Callable[..., ControlPlane]]:
    """Shared control planes, one for all who name the same options of `ControlPlane.start`.

    Leave nothing behind in them that another test could see.
    """
    kept: dict[tuple[Any, ...], ControlPlane] = {}
    with contextlib.ExitStack() as stack:

        def plane(**options: Any) -> ControlPlane:
            key = tuple(sorted(options.items()))
            if key not in kept:
                start = functools.partial(ControlPlane.start, assets, **options)
                kept[key] = stack.enter_context(_started(start, pytestconfig.stash[SCRATCH]))
            return kept[key]

        yield plane


@pytest.fixture(scope="session")
def real_plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    """etcd and kube-apiserver without the admission that needs other programs."""
    return planes()


@pytest.fixture(scope="session")
def control_plane(real_plane: ControlPlane) -> ControlPlane:
    """The real one, unless a test module says otherwise."""
    return real_plane


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


@pytest.fixture(scope="session")
def embedded_plane(pytestconfig: pytest.Config) -> Iterator[EmbeddedPlane]:
    """The embedded server, shared, in the clothes of a control plane."""
    with _embedded(pytestconfig, controllers=False) as plane:
        yield plane


@pytest.fixture(scope="session")
def controlled_plane(pytestconfig: pytest.Config) -> Iterator[EmbeddedPlane]:
    """Another one, with its controllers."""
    with _embedded(pytestconfig, controllers=True) as plane:
        yield plane


def _embedded(
    config: pytest.Config, *, controllers: bool
) -> contextlib.AbstractContextManager[EmbeddedPlane]:
    scratch = config.stash[SCRATCH]
    start = functools.partial(EmbeddedPlane.start, controllers=controllers, assets=scratch.assets)
    return _started(start, scratch)


@contextlib.contextmanager
def _started(
    start: Callable[[Path], contextlib.AbstractContextManager[Plane]], scratch: Scratch
) -> Iterator[Plane]:
    """What `start` makes of a scratch folder."""
    with _folder(scratch) as folder:
        scratch.blamed.add(folder)  # until it has started
        with start(folder) as plane:
            scratch.blamed.discard(folder)
            yield plane


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
    if version := os.environ.get("FAIRLEAD_KUBERNETES"):
        command += ["--kubernetes", version]
    build = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return Path(build.stdout.splitlines()[-1]) if build.returncode == 0 else None
