"""The image: what can be said of it without building it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from manifests import DEPLOY, ROOT, STATIC_POD, the

Instruction = tuple[str, str]


def dockerfile() -> list[Instruction]:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]  # type: ignore[misc]


def stages() -> list[list[Instruction]]:
    found: list[list[Instruction]] = []
    for instruction in dockerfile():
        if instruction[0] == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def copied() -> list[str]:
    """What the image is made from, of this repository."""
    return [
        source
        for name, rest in dockerfile()
        if name == "COPY" and not rest.startswith("--from=")
        for source in shlex.split(rest)[:-1]
    ]


def test_everything_that_the_image_copies_is_there_and_sent() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()

    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, f"the builder would not be sent {source}"
    assert "*" in ignored


def test_the_image_holds_what_it_needs_and_no_tools() -> None:
    packages, build, final = stages()

    assert build[0][1] == "packages AS build"
    assert all(":" in stage[0][1].split()[0] for stage in (packages, final))
    assert [name for name, _ in final if name in ("RUN", "ADD")] == []
    assert [rest for name, rest in final if name == "COPY"] == [
        "--from=packages /opt/fairlead /opt/fairlead",
        "--from=build /own/opt/fairlead /opt/fairlead",
    ]
    for name, rest in (*packages, *build):
        if name == "RUN" and "pip" in rest and " install" in rest:
            assert "--no-cache-dir" in rest
            assert "--require-hashes" in rest or "--no-deps" in rest, rest


def test_the_image_runs_as_the_user_of_the_deployment_in_exec_form() -> None:
    final = dict(stages()[-1])
    security = the("Deployment")["spec"]["template"]["spec"]["securityContext"]

    assert final["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert json.loads(final["ENTRYPOINT"]) == ["/opt/fairlead/bin/fairlead"]
    assert json.loads(final["CMD"]) == ["run"]


def test_manifests_and_image_name_one_version() -> None:
    from fairlead import __version__

    image = f"fairlead:{__version__}"
    (static,) = the("Pod", STATIC_POD, "static-pod")["spec"]["containers"]
    (shipped,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    assert shipped["image"] == static["image"] == image
    assert f"-t {image} ." in (DEPLOY / "Dockerfile").read_text()


@pytest.mark.server  # it asks the package index, so `make fast` leaves it out
@pytest.mark.slow
def test_the_locked_packages_install_as_wheels_with_their_hashes(tmp_path: Path) -> None:
    base = dict(stages()[-1])["FROM"]
    (version,) = re.findall(r"^python:(\d+\.\d+)-slim$", base)
    pinned = next(rest for _, rest in stages()[1] if rest.startswith("sed "))
    sed = pinned.partition(" > ")[0]
    build_lock = subprocess.run(
        shlex.split(sed), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.match(r"setuptools==\S+ \\\n +--hash=sha256:", build_lock)
    (tmp_path / "build.lock").write_text(build_lock)

    locks = ["-r", str(ROOT / "requirements.lock"), "-r", str(tmp_path / "build.lock")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet"),
            *("--require-hashes", "--only-binary=:all:", "--disable-pip-version-check"),
            *("--python-version", version, "--target", str(tmp_path / "packages")),
            *locks,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_image_gets_the_program_that_it_starts(tmp_path: Path) -> None:
    """The wheel is built as in the image, from what is copied there, and looked into."""
    for source in copied():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / source)
        else:
            shutil.copy(ROOT / source, tmp_path)
    (line,) = [rest for _, rest in stages()[1] if rest.startswith("pip wheel ")]
    words = shlex.split(line.partition("&&")[0])
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    (wheel,) = (tmp_path / words[words.index("--wheel-dir") + 1]).glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        names = set(built.namelist())
        (entry_points,) = [one for one in names if one.endswith("/entry_points.txt")]
        program = Path(json.loads(dict(stages()[-1])["ENTRYPOINT"])[0]).name
        assert f"{program} = fairlead.apps.entry:main" in built.read(entry_points).decode()
    shipped = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.yaml")}
    assert "fairlead/apps/entry.py" in names
    assert shipped - names == set(), "data files that the program reads"
