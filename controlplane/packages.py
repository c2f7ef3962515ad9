"""Programs that are taken from Debian's packages, without installing them: root is not needed.

A program on PATH is used as it is. Else its package is downloaded with apt-get and unpacked into
the cache; where the machine has no package lists, apt-get gets lists of its own there, too.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from failures import BuildError, explain
from progress import run, say

#: Where programs lie, by the name that asks for them; the package is called like that, too.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "prometheus": ("usr/bin/prometheus", "usr/bin/promtool"),
    "runc": ("usr/sbin/runc",),
    "mmdebstrap": ("usr/bin/mmdebstrap",),
}


def programs(name: str, cache: Path, assets: Path | None) -> dict[str, Path]:
    """Where each program of the package is, or will be once it is unpacked."""
    places = [Path(place) for place in PACKAGES[name]]
    return {place.name: _place(name, place, cache, assets) for place in places}


def unpack(names: Iterable[str], cache: Path) -> None:
    """Those that are not there yet. Call it as the only builder."""
    for name in names:
        folder = _folder(name, cache)
        if not folder.exists():
            _download(name, folder, cache)


def _folder(name: str, cache: Path) -> Path:
    return cache / f"debian-{name}"


def _place(name: str, place: Path, cache: Path, assets: Path | None) -> Path:
    if assets and os.access(assets / place.name, os.X_OK):
        return assets / place.name
    own = shutil.which(place.name)
    return Path(own) if own else _folder(name, cache) / place


def _download(name: str, folder: Path, cache: Path) -> None:
    advice = f"Install {name} ({_names(name)}) and put it on PATH, then run this again."
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise BuildError(f"There is no {name}, and no apt-get to fetch it with. {advice}")
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=cache))
    # apt-get downloads as a user of its own, who must be able to write there.
    partial.chmod(0o777)
    say(f"No {name} on PATH: unpacking Debian's package into the cache.")
    if not _fetched(name, partial, []):
        lists = _own_lists(partial, advice)
        if not _fetched(name, partial, lists):
            raise BuildError(f"{explain(f'Downloading {name}', partial / 'log')}\n{advice}")
    unpacked = partial / "unpacked"
    (package,) = partial.glob("*.deb")
    if _step(["dpkg-deb", "-x", str(package), str(unpacked)], f"unpacking {name}", partial):
        raise BuildError(f"{explain(f'Unpacking {name}', partial / 'log')}\n{advice}")
    unpacked.replace(folder)
    shutil.rmtree(partial)


def _names(name: str) -> str:
    return ", ".join(Path(place).name for place in PACKAGES[name])


def _fetched(name: str, partial: Path, options: list[str]) -> bool:
    _step(["apt-get", *options, "download", name], f"downloading {name}", partial)
    return any(partial.glob("*.deb"))


def _own_lists(partial: Path, advice: str) -> list[str]:
    """Options of apt-get by which it keeps lists here, fetched anew."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (partial / folder).mkdir(parents=True)
    options = ["-o", f"Dir::State::lists={partial}/lists", "-o", f"Dir::Cache={partial}/cache"]
    options += ["-o", "APT::Sandbox::User=root"]
    if _step(["apt-get", *options, "update"], "fetching package lists", partial):
        raise BuildError(f"{explain('Fetching package lists', partial / 'log')}\n{advice}")
    return options


def _step(command: list[str], label: str, partial: Path) -> int:
    return run(label, command, partial, os.environ, partial / "log")
