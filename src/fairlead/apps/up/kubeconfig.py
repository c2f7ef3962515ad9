"""Where `fairlead up` leaves its kubeconfig, without ever taking another file's place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from fairlead.base.private_files import write_private
from fairlead.kube.access.kubeconfig import SCHEDULER_EXTENSION
from fairlead.model.errors import ConfigError

#: The first words of every kubeconfig that we wrote, followed by our process id.
MARK = "# Written by `fairlead up`, process "


@contextmanager
def kubeconfig_place(wanted: Path | None) -> Iterator[Path]:
    """The file to write to; it is removed at the end, when nothing answers there any more."""
    path = (wanted or _default()).expanduser().absolute()
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give --kubeconfig-out the name of a file")
    if path.exists() and _writer(path) is None:
        raise ConfigError(
            f"{path} exists and `fairlead up` did not write it; "
            "choose another --kubeconfig-out, or move it away"
        )
    try:
        yield path
    finally:
        if _writer(path) == os.getpid():
            path.unlink()


def write(path: Path, text: str) -> None:
    """Readable by its owner only, whole or not at all."""
    try:
        write_private(path, f"{MARK}{os.getpid()}.\n{text}".encode())
    except OSError as error:
        raise ConfigError(
            f"cannot write the kubeconfig {path}: {error.strerror}; choose another --kubeconfig-out"
        ) from error


def record_scheduler_url(path: Path, url: str) -> None:
    """Adds where the scheduler serves, so that `fairlead top` finds it by this file alone."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for entry in document["clusters"]:
        told = {"name": SCHEDULER_EXTENSION, "extension": {"url": url}}
        entry["cluster"]["extensions"] = [told]
    write(path, yaml.safe_dump(document, sort_keys=False))


def _default() -> Path:
    """A short name that stays the same, unless another `fairlead up` is using it just now."""
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("FAIRLEAD_CACHE") or Path(xdg) / "fairlead")
    usual = folder / "up.kubeconfig"
    writer = _writer(usual)
    in_use = usual.exists() and (writer is None or _lives(writer))
    return folder / f"up-{os.getpid()}.kubeconfig" if in_use else usual


def _writer(path: Path) -> int | None:
    """The process that wrote it, if it was one of ours."""
    with suppress(OSError, UnicodeDecodeError), path.open(encoding="utf-8") as file:
        first = file.readline(200)
        if first.startswith(MARK):
            number = first.removeprefix(MARK).rstrip(".\n")
            return int(number) if number.isdecimal() else None
    return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
