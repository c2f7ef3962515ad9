"""`fairlead up` as a person runs it: a process, a terminal's signals, and kubectl from outside."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import preloaded
from fairlead.apps.up.cluster import find_programs
from fairlead.apps.up.kubeconfig import MARK, kubeconfig_place, write
from fairlead.model.errors import ConfigError

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from fairlead.apps.cli import main; main()", "up"]


@pytest.fixture
def environment(tmp_path):
    """Nothing of the user's is read or written. The control plane's cache stays where it is."""
    kept = {key: value for key, value in os.environ.items() if key != "LOG_LEVEL"}
    return kept | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONWARNINGS": "error"}


@pytest.fixture
def up(environment, tmp_path):
    def run(*options, **more):
        command = [preloaded.FAIRLEAD, "up", *options]
        return preloaded.run(command, env=environment | more, cwd=tmp_path, timeout=300)

    return run


@pytest.fixture
def start(environment, tmp_path):
    """A `fairlead up` that goes on until the test ends it."""
    started = []

    def begin(*options, command=COMMAND, **more):
        process = subprocess.Popen(
            [*command, "--headless", *map(str, options)], env=environment | more, cwd=tmp_path,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(true, patience_s=180.0):
    end = time.monotonic() + patience_s
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.1)
    return found


def end_when(process, counted, at_least):
    """Has it end when it has counted so many; returns what it wrote."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        found = re.search(rf"{counted} (\d+)", line)
        if found and int(found[1]) >= at_least:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return "".join(lines) + out, err


def bound_in_all(out):
    return int(out.split("\nafter ")[1].split("bound ")[1].split(",")[0])


@pytest.fixture
def kubectl(assets):
    def answer(kubeconfig, *arguments):
        done = subprocess.run(
            [assets / "kubectl", "--kubeconfig", kubeconfig, *arguments],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return answer


# -- headless --------------------------------------------------------------------------------------


def test_a_headless_run_binds_pods_and_sums_up(start):
    process = start("--speed", "4")
    out, err = end_when(process, "bound", 20)
    assert (process.returncode, err) == (0, "")
    assert "export KUBECONFIG=" in out
    summary = out.split("\nafter ")[1]
    assert bound_in_all(out) >= 20
    assert "p50" in summary
    assert "of 80" in summary


def test_nothing_bound_is_a_failure(up, tmp_path):
    workload = tmp_path / "vain.yaml"
    workload.write_text("streams: [{name: vain, gpus: 64}]")
    done = up("--headless", "--for", "2s", "--workload", workload)
    assert done.returncode == 1
    assert "bound 0" in done.stdout


def test_the_kubeconfig_is_written_and_taken_away_again(up, tmp_path):
    path = tmp_path / "mine" / "kubeconfig"
    done = up("--headless", "--for", "2s", "--nodes", "2", "--kubeconfig-out", path)
    assert done.stderr == ""
    assert done.returncode == (0 if bound_in_all(done.stdout) else 1)  # 2 s may be too short
    assert str(path) in done.stdout
    assert not path.exists()


@pytest.mark.slow
def test_a_saved_state_is_gone_on_with(up, start, tmp_path):
    state = tmp_path / "state.db"
    first = start("--state", state)
    out, _ = end_when(first, "bound", 40)  # about as many as there is room for
    second = up("--headless", "--for", "2s", "--state", state)
    assert (first.returncode, second.stderr) == (0, "")
    assert bound_in_all(second.stdout) < bound_in_all(out) / 2  # most pods were there already


# -- what is wrong gets one line -------------------------------------------------------------------


def one_line(done):
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_bad_workload_file(up, tmp_path):
    workload = tmp_path / "bad.yaml"
    workload.write_text("streams: [{name: a, gpuz: 1}]")
    said = one_line(up("--headless", "--workload", workload))
    assert f"{workload}: unknown key 'gpuz' at $.streams[0]; did you mean 'gpus'?" in said


def test_a_taken_port(up):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in one_line(up("--headless", "--for", "3s", "--port", port))


def test_a_kubeconfig_of_somebody_else(up, tmp_path):
    path = tmp_path / "precious"
    path.write_text("apiVersion: v1\n")
    said = one_line(up("--headless", "--for", "3s", "--kubeconfig-out", path))
    assert "did not write it" in said
    assert path.read_text() == "apiVersion: v1\n"


def test_no_control_plane_for_real(up, tmp_path):
    said = one_line(up("--headless", "--real", FAIRLEAD_CACHE=str(tmp_path), KUBEBUILDER_ASSETS=""))
    assert "make control-plane" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--for", "5"), "--for: '5' is no length of time"),
        (("--real", "--port", "1"), "leave out --real"),
        (("--teams", "--workload", "mine.yaml"), "--teams is a workload of its own"),
    ],
)
def test_options_that_make_no_sense(up, options, words):
    assert words in one_line(up("--headless", *options))


# -- ending ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_a_signal_ends_it_cleanly(start, tmp_path, number):
    path = tmp_path / "kubeconfig"
    process = start("--kubeconfig-out", path)
    until(path.exists)
    server = next(line for line in path.read_text().splitlines() if "server:" in line)
    port = int(server.rpartition(":")[2])
    assert any(re.search(r"bound [1-9]", line) for line in process.stdout), "nothing was bound"
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "\nafter " in out
    assert not path.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_an_early_signal_ends_it_too(start):
    # A signal that comes while Python itself starts ends it in other ways.
    process = start(command=[*COMMAND[:2], f"print(flush=True); {COMMAND[2]}", *COMMAND[3:]])
    process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode in (0, 130, -signal.SIGINT)  # the last: before our code was loaded


# -- the kubeconfig's place ------------------------------------------------------------------------


def test_a_kubeconfig_left_by_a_dead_process_is_replaced(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(f"{MARK}999999999.\nold")
    with kubeconfig_place(path) as place:
        write(place, "new")
        assert path.read_text() == f"{MARK}{os.getpid()}.\nnew"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_the_usual_place_is_left_to_whoever_uses_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRLEAD_CACHE", str(tmp_path))  # the place follows from the environment
    with kubeconfig_place(None) as first:
        write(first, "one")
        with kubeconfig_place(None) as second:
            assert first.name == "up.kubeconfig"
            assert second != first


def test_a_folder_is_no_kubeconfig(tmp_path):
    with pytest.raises(ConfigError, match="is a folder"), kubeconfig_place(tmp_path):
        pass


def test_a_place_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the kubeconfig"):
        write(tmp_path / "file" / "kubeconfig", "text")


# -- with kubectl, and for real --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.server
def test_kubectl_sees_nodes_pods_and_why_one_waits(start, kubectl, tmp_path):
    path = tmp_path / "kubeconfig"
    start("--kubeconfig-out", path)
    until(path.exists)
    nodes = json.loads(until(lambda: kubectl(path, "get", "nodes", "-o", "json")))["items"]
    assert len(nodes) == 12
    until(lambda: "Running" in kubectl(path, "get", "pods", "-o", "wide"))
    until(lambda: "too-big" in kubectl(path, "get", "pods"))
    until(lambda: "FailedScheduling" in kubectl(path, "describe", "pods", "-l", "app=too-big"))
    kubectl(path, "annotate", "node", "h100-01", "fairlead.dev/simulate-not-ready=true")
    until(lambda: "NotReady" in kubectl(path, "get", "node", "h100-01"))


def tour_of_the_readme():
    """The commands of the first session, each as its words."""
    readme = (ROOT / "README.md").read_text()
    session = readme.split("## A first session without a cluster")[1].split("```")[1]
    lines = (shlex.split(line, comments=True) for line in session.splitlines()[1:])
    return [words for words in lines if words and words[0] != "export"]


@pytest.mark.server
def test_the_tour_of_the_readme(start, kubectl, assets, environment, tmp_path):
    path = tmp_path / "kubeconfig"
    start("--kubeconfig-out", path)
    until(path.exists)
    until(lambda: "Running" in kubectl(path, "get", "pods"))
    programs = {"kubectl": [assets / "kubectl"], ".venv/bin/fairlead": COMMAND[:-1]}
    seen = []
    for program, *words in tour_of_the_readme():
        done = subprocess.run(
            [*programs[program], *words], env=environment | {"KUBECONFIG": str(path)}, cwd=ROOT,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert not done.stderr, done.stderr
        assert done.stdout
        seen.append(words[0])
    assert seen == ["get", "apply", "explain", "what-if", "top"]


@pytest.mark.slow
@pytest.mark.server
def test_fairlead_top_finds_the_scheduler_by_the_kubeconfig(start, environment, tmp_path):
    path = tmp_path / "kubeconfig"
    start("--kubeconfig-out", path)
    until(path.exists)

    def measured():
        done = subprocess.run(
            [*COMMAND[:-1], "top", "-o", "json", "--by", "gpus", "--kubeconfig", str(path)],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        told = json.loads(done.stdout) if done.returncode == 0 else {"total": {"used": 0}}
        return told if told["total"]["used"] > 0 else None

    gpus = until(measured)["gpus"]
    assert len(gpus) == 80
    assert all(gpu["utilisation"] is not None for gpu in gpus)
    assert any(gpu["holders"] and gpu["utilisation"] > 0.3 for gpu in gpus)


@pytest.mark.slow
@pytest.mark.server
def test_teams_contend_and_fairlead_queue_shows_them(start, kubectl, environment, tmp_path):
    path = tmp_path / "kubeconfig"
    start("--teams", "--kubeconfig-out", path)
    until(path.exists)

    def contending():
        done = subprocess.run(
            [*COMMAND[:-1], "queue", "-o", "json", "--kubeconfig", str(path)],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        queues = json.loads(done.stdout)["queues"] if done.returncode == 0 else []
        found = {row["name"]: row for row in queues}
        busy = [row for row in found.values() if row["parent"] and row["used"]]
        return found if len(busy) == 3 and found["company"]["pendingUnits"] else None

    found = until(contending)
    assert found["company"]["guaranteed"] == {"nvidia.com/gpu": 80.0}
    assert found["product"]["limit"] == {"nvidia.com/gpu": 40.0}
    assert found["product"]["used"]["nvidia.com/gpu"] <= 40
    assert "research" in kubectl(path, "get", "queues")


@pytest.mark.server
def test_all_of_the_configuration_is_used_and_starts_are_forecast(start, environment, tmp_path):
    log, config = tmp_path / "decisions", tmp_path / "fairlead.yaml"
    config.write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        f"decisionLog: {{directory: {log}}}\n"
    )
    path = tmp_path / "kubeconfig"
    start("--teams", "--config", config, "--kubeconfig-out", path)

    def forecast():
        done = subprocess.run(
            [*COMMAND[:-1], "queue", "--start", "--kubeconfig", str(path)],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        lines = [line.split() for line in done.stdout.splitlines()[1:]]
        return [line for line in lines if line[-1] != "(null)"]

    until(path.exists)
    assert until(forecast)
    assert any(log.iterdir()), "the decision log is a part of the configuration"


@pytest.mark.usefixtures("kwok_program")
def test_it_runs_on_the_real_control_plane(start, tmp_path):
    cache = Path(find_programs()).parents[1]
    process = start("--real", "--speed", "4", FAIRLEAD_CACHE=str(cache), TMPDIR=str(tmp_path))
    out, err = end_when(process, "finished", 1)
    assert (process.returncode, err) == (0, "")
    assert "a real control plane" in out
    assert "finished 0" not in out.split("\nafter ")[1]
    assert not list(tmp_path.glob("fairlead-up-*"))
