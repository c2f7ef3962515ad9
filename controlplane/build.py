#!/usr/bin/env python3
"""Builds a real Kubernetes control plane from its Go modules, once a machine.

    python3 controlplane/build.py                   # what `make test` needs
    python3 controlplane/build.py --with helm,kwok  # and helm and KWOK
    python3 controlplane/build.py --with prometheus # and prometheus, from Debian's packages
    python3 controlplane/build.py kubectl etcd      # only these
    python3 controlplane/build.py kubelet runc      # of a node; see scripts/test_node.py
    python3 controlplane/build.py vc-controller-manager # of Volcano; see scripts/test_peers.py

The last line on the standard output is the folder that holds the programs. They are built into
$FAIRLEAD_CACHE (or ~/.cache/fairlead), to a temporary name and then renamed: a killed build never
looks finished, and of two builders one waits. Programs in $KUBEBUILDER_ASSETS are used as they are.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from definitions import copy_definitions
from failures import BuildError, explain
from packages import PACKAGES, programs, unpack
from parts import DEFAULT_PARTS, HERE, PARTS, Source, source
from progress import run, say
from toolchain import find_go

_NAMES = (*PARTS, *PACKAGES)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    # A SIGTERM unwinds like an interrupt, so that the Go processes end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        print(provide(_wanted(options), options.kubernetes, cache_folder()))
    except BuildError as error:
        say(str(error))
        return 1
    except OSError as error:
        say(f"{error}: free or repair that place, or set FAIRLEAD_CACHE to another folder.")
        return 1
    except KeyboardInterrupt:
        say("Stopped. What is built already is kept.")
        return 130
    return 0


def provide(names: Sequence[str], kubernetes: str | None, cache: Path) -> Path:
    """A folder with every program asked for; builds those that no one has built yet."""
    assets = _assets()
    sources = [source(name, kubernetes) for name in names if name in PARTS]
    targets = {src: _target(src, cache, assets) for src in sources}
    packed = {name: programs(name, cache, assets) for name in names if name in PACKAGES}
    missing = [name for name, found in packed.items() if not _all_there(found.values())]
    if missing or not _all_there(targets.values()):
        with only_builder(cache):
            _build_missing(targets, cache)
            unpack(missing, cache)
    found = {src.part.name: target for src, target in targets.items()}
    for each in packed.values():
        found |= each
    if assets and {target.parent for target in found.values()} == {assets}:
        return assets
    return _gather(found, _links_folder(kubernetes, cache, assets))


def cache_folder() -> Path:
    """Where builds are kept, outside the checkout so that clones and branches share them."""
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(os.environ.get("FAIRLEAD_CACHE") or Path(xdg) / "fairlead")
    return base.expanduser().resolve() / "control-plane"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(_NAMES)}")
    parser.add_argument("--with", dest="extra", default="", help="more parts, comma-separated")
    parser.add_argument("--kubernetes", metavar="X.Y", help="use controlplane/kubernetes-X.Y")
    options = parser.parse_args(arguments)
    for name in _wanted(options):
        if name not in _NAMES:
            parser.error(f"there is no part {name!r}; the parts are {', '.join(_NAMES)}")
        if name in PARTS and not source(name, options.kubernetes).folder.is_dir():
            known = ", ".join(sorted(path.name for path in HERE.glob("kubernetes*")))
            parser.error(f"there is no kubernetes-{options.kubernetes} here; there is {known}")
    return options


def _wanted(options: argparse.Namespace) -> list[str]:
    extra = [name for name in options.extra.split(",") if name]
    return list(dict.fromkeys([*(options.parts or DEFAULT_PARTS), *extra]))


def _assets() -> Path | None:
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        return None
    if not Path(named).is_dir():
        raise BuildError(f"KUBEBUILDER_ASSETS={named} is no folder: correct it, or unset it.")
    return Path(named).resolve()


def _target(src: Source, cache: Path, assets: Path | None) -> Path:
    if assets and os.access(assets / src.part.name, os.X_OK):
        return assets / src.part.name
    return cache / src.key / src.part.name


def _all_there(targets: Iterable[Path]) -> bool:
    return all(target.is_file() for target in targets)


@contextlib.contextmanager
def only_builder(cache: Path, of: str = "lock") -> Iterator[None]:
    """Wait until no other process builds what this lock is for."""
    # The kernel lets go of the lock when its holder dies, however it dies.
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / of).open("a+") as lock:
        _take(lock)
        yield


def _take(lock: TextIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        say(f"Another build is running (process {lock.read().strip()}); waiting for it.")
        fcntl.flock(lock, fcntl.LOCK_EX)
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _build_missing(targets: dict[Source, Path], cache: Path) -> None:
    # Looked at again under the lock: the builder that was waited for may have built them all.
    missing = [src for src, target in targets.items() if not target.is_file()]
    if not missing:
        return
    go = find_go(max(src.go_version for src in missing), cache)
    for left_over in cache.glob("partial-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    # A name of our own: the Go of a builder that was killed may still be writing to its.
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=cache))
    started = time.monotonic()
    for count, src in enumerate(missing, start=1):
        label = f"[{count}/{len(missing)}] {src.part.name} {src.version}"
        _build(src, go, targets[src], partial, label)
    partial.rmdir()
    say(f"Built {len(missing)} programs in {time.monotonic() - started:.0f} s.")


def _build(src: Source, go: Path, target: Path, partial: Path, label: str) -> None:
    log, output = partial.parent / f"{src.part.name}-{src.version}.log", partial / src.part.name
    command = [str(go), "build", *src.flags, "-o", str(output), src.part.package]
    # Without cgo a build needs no C compiler. Compilers that collect garbage less often need
    # a fifth less CPU, and make the same code.
    env = {"GOGC": "400", **os.environ}
    env |= {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    say(f"{label}: building; the log is {log}")
    if run(label, command, src.folder, env, log) or not output.is_file():
        raise explain(f"Building {src.part.name}", log)
    if src.part.definitions:
        copy_definitions(src, go, target.parent, env)
    with output.open("rb") as written:
        os.fsync(written.fileno())  # else a power cut could leave the name without the bytes
    target.parent.mkdir(exist_ok=True)
    output.replace(target)


def _gather(found: dict[str, Path], folder: Path) -> Path:
    """One folder of links to programs that are kept by version."""
    for name, target in found.items():
        _link(folder / name, target)
    return folder


def _links_folder(kubernetes: str | None, cache: Path, assets: Path | None) -> Path:
    # Named by every version, not only by those asked for, so that more parts may join it later.
    keys = [source(name, kubernetes).key for name in PARTS]
    digest = hashlib.sha256(repr((keys, str(assets))).encode()).hexdigest()
    return cache / f"bin-{digest[:12]}"


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)


if __name__ == "__main__":
    sys.exit(main())
