#!/usr/bin/env python3
"""Builds the image of deploy/Dockerfile, with or without a registry.

    python3 controlplane/image.py

docker, podman or buildah build it where one of them works. Else it is built by the buildah of a
Debian root file system in the cache, on Debian with its own Python in place of the base image:
that takes root, and a few minutes the first time. The last line on the standard output is the
image as a docker-archive, for `docker load` or `ctr images import`.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from build import cache_folder, only_builder, provide
from failures import BuildError, explain
from parts import HERE
from progress import run, say

ROOT = HERE.parent
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
#: Of the archives, which are large: as many as there may be checkouts at work.
_KEPT = 3
_PARTIAL = "image-partial-"
_SUITE = "bookworm"
_PYTHON = "python3,python3-pip,python-is-python3"
_NOT_IN_BASE = ("proc/*", "sys/*", "dev/*", "tmp/*", "var/cache/*", "var/lib/apt/lists/*")


def main() -> int:
    try:
        print(image())
    except BuildError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("Stopped. What is built already is kept.")
        return 130
    return 0


def image() -> Path:
    """The image of this checkout as an archive; builds it if its files have changed."""
    cache = cache_folder()
    archive = cache / f"image-{_key()}.tar"
    if not archive.exists():
        with only_builder(cache, "image-lock"):
            for left_over in cache.glob(f"{_PARTIAL}*"):
                shutil.rmtree(left_over)
            _build(archive, cache)
            _forget_old(cache)
    archive.touch()
    return archive


def tag() -> str:
    """The name that the manifests have for it, in full."""
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    return f"docker.io/library/fairlead:{version[1]}"


def _build(archive: Path, cache: Path) -> None:
    if archive.exists():  # by the builder that was waited for
        return
    out = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=cache))
    built = any(_with_tool(tool, out) for tool in ("docker", "podman", "buildah"))
    if not built:
        _with_debian(out, cache)
    (out / "image.tar").replace(archive)
    shutil.rmtree(out)


def _with_tool(tool: str, out: Path) -> bool:
    """Whether a tool of this machine has built it; without a registry it cannot."""
    works = shutil.which(tool) and _quiet([tool, "version" if tool == "buildah" else "info"])
    if not works:
        return False
    build = [tool, "build", "-f", str(DOCKERFILE), "-t", tag(), str(ROOT)]
    save = [tool, "save", "-o", str(out / "image.tar"), tag()]
    if tool == "buildah":
        save = [tool, "push", tag(), f"docker-archive:{out / 'image.tar'}:{tag()}"]
    log = out / "log"
    if any(run(f"image, with {tool}", each, ROOT, os.environ, log) for each in (build, save)):
        say(f"{explain(f'{tool}', log)}\nTrying without a registry.")
        return False
    return True


def _quiet(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# Without a registry


def _with_debian(out: Path, cache: Path) -> None:
    if sys.platform != "linux" or os.geteuid():
        raise BuildError(
            "Without docker, podman or buildah, and a registry that they reach, the image is"
            " built by root on Linux: install one of them, or run this as root."
        )
    root, base = _debian(cache)
    _carry_trust(out)
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    command += [f"--mount-proc={root}/proc", str(HERE / "buildah.sh")]
    command += [str(root), str(base), str(ROOT), tag(), str(out)]
    log = cache / "image.log"
    say(f"image: building {tag()}; the log is {log}")
    if run("image", command, ROOT, os.environ, log):
        raise explain("Building the image", log)


def _debian(cache: Path) -> tuple[Path, Path]:
    """A root file system with buildah, and a smaller one without it as a tar."""
    folder = cache / f"debian-builder-{_SUITE}"
    if not folder.exists():
        tools = provide(["mmdebstrap"], None, cache)
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=cache))
        partial.chmod(0o755)  # apt-get in there is another user for a while
        log = cache / "debian.log"
        command = [str(tools / "mmdebstrap"), *_bootstrap(partial)]
        if run(f"a Debian {_SUITE} with Python and buildah", command, partial, os.environ, log):
            raise explain("Bootstrapping Debian", log)
        partial.replace(folder)
    return folder / "root", folder / "base.tar"


def _bootstrap(folder: Path) -> list[str]:
    excluded = " ".join(f"--exclude='./{each}'" for each in _NOT_IN_BASE)
    hooks = (
        # Else pip would refuse to install there; the base image has no such file.
        'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
        f'tar -C "$1" --one-file-system {excluded} -cf {folder}/base.tar .',
        'chroot "$1" apt-get install -y --no-install-recommends buildah',
    )
    hooked = [f"--customize-hook={hook}" for hook in hooks]
    return ["--variant=minbase", f"--include={_PYTHON}", *hooked, _SUITE, str(folder / "root")]


def _carry_trust(out: Path) -> None:
    """What pip in the image needs of this machine's: its index, and whom to trust."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings = dict(
        line.partition(".")[2].partition("=")[::2] for line in listed.stdout.splitlines()
    )
    kept = ("index-url", "extra-index-url", "trusted-host", "timeout")
    lines = [f"{key} = {settings[key].strip(chr(39))}" for key in kept if key in settings]
    (out / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
    authorities = Path(settings.get("cert", "").strip("'") or "/etc/ssl/certs/ca-certificates.crt")
    if authorities.is_file():
        shutil.copy(authorities, out / "authorities.crt")


# What is kept


def _key() -> str:
    """Changes whenever a file of the image does."""
    digest = hashlib.sha256(DOCKERFILE.read_bytes() + (HERE / "buildah.sh").read_bytes())
    for path in _sources():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _sources() -> Iterator[Path]:
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text()
    for name in sorted(re.findall(r"^!(\S+)", ignored, re.MULTILINE)):
        path = ROOT / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if each.is_file() and _sent(each))


def _sent(path: Path) -> bool:
    return not any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)


def _forget_old(cache: Path) -> None:
    archives = sorted(cache.glob("image-*.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-_KEPT]:
        archive.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
