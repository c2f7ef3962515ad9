"""The control plane that the other end-to-end tests stand on: real, verified, and well-behaved."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane, ControlPlaneError, service_account
from fairlead.sim.controlplane import children as controlplane_children
from fairlead.sim.controlplane.certificates import Authority
from fairlead.sim.controlplane.client import MERGE_PATCH, SyncClient, trusting
from fairlead.sim.controlplane.commands import free_port
from fairleads import PATIENCE_S, paused

#: The folder that pins the version under test.
PINS = "-".join(filter(None, ["kubernetes", os.environ.get("FAIRLEAD_KUBERNETES")]))
GO_MOD = Path(__file__).parents[2] / "controlplane" / PINS / "go.mod"
GPU = "nvidia.com/gpu"


def eventually(check: Callable[[], Any], within_s: float = 180.0) -> Any:
    """The first true answer of `check`; fails with its last one when time is up."""
    deadline = time.monotonic() + within_s
    while not (answer := check()):
        assert time.monotonic() < deadline, f"still {answer!r} after {within_s} s"
        time.sleep(0.05)
    return answer


def a_pod(name: str, node: str | None = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example", "resources": {"limits": {GPU: "1"}}}
    spec: dict[str, Any] = {"containers": [container]}
    if node is not None:
        spec["nodeName"] = node
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def gone(pid: int) -> bool:
    """True for a process that has ended, even if no one has asked for its exit status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# Who answers, and whom


def test_server_and_kubectl_report_the_version_they_were_built_from(
    control_plane: ControlPlane,
) -> None:
    kubectl = [control_plane.program("kubectl"), "--kubeconfig", control_plane.kubeconfig_for()]
    answer = subprocess.run(
        [*kubectl, "version", "-o", "json"], capture_output=True, text=True, check=True
    )
    versions = json.loads(answer.stdout)
    assert answer.stderr == "", "kubectl complains about the difference of versions"
    if "KUBEBUILDER_ASSETS" not in os.environ:
        pinned = re.search(r"k8s\.io/kubernetes (v\S+)", GO_MOD.read_text())
        assert pinned
        assert versions["serverVersion"]["gitVersion"] == pinned[1]
        assert versions["clientVersion"]["gitVersion"] == pinned[1]
    status, version = control_plane.api("GET", "/version")
    assert (status, version["gitVersion"]) == (200, versions["serverVersion"]["gitVersion"])


def test_client_that_trusts_another_authority_is_refused(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    other = Authority(tmp_path)
    with (
        SyncClient(control_plane.port, trusting(other.certificate)) as client,
        pytest.raises(ssl.SSLCertVerificationError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.api("GET", "/version")


def test_certificate_of_another_authority_proves_nothing(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    forged = Authority(tmp_path).client("admin", ["system:masters"])
    with SyncClient(control_plane.port, trusting(control_plane.ca_file, forged)) as client:
        assert client.api("GET", "/api/v1/nodes")[0] == 401


def test_nobody_may_read_without_proof(control_plane: ControlPlane) -> None:
    with SyncClient(control_plane.port, trusting(control_plane.ca_file)) as client:
        assert client.api("GET", "/api/v1/nodes")[0] == 403


def test_service_account_may_do_what_rbac_grants_and_no_more(
    control_plane: ControlPlane, namespace: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    with control_plane.connect(service_account(namespace, "bot")) as bot:
        assert bot.api("GET", pods)[0] == 403
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
        role = {"metadata": {"name": "read"}, "rules": [rule]}
        assert control_plane.api("POST", f"{rbac}/roles", role)[0] == 201
        binding = {
            "metadata": {"name": "read"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"},
            "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": namespace}],
        }
        assert control_plane.api("POST", f"{rbac}/rolebindings", binding)[0] == 201
        eventually(lambda: bot.api("GET", pods)[0] == 200)
        assert bot.api("POST", pods, a_pod("p"))[0] == 403


@pytest.mark.parametrize(
    ("identity", "groups", "expected"),
    [
        pytest.param("admin", (), "admin", id="the admin"),
        pytest.param("jane", ("team-a",), "jane", id="a user by certificate"),
        pytest.param(
            "system:serviceaccount:default:bot",
            (),
            "system:serviceaccount:default:bot",
            id="a ServiceAccount by token",
        ),
    ],
)
def test_kubeconfig_carries_the_identity(
    control_plane: ControlPlane, identity: str, groups: tuple[str, ...], expected: str
) -> None:
    kubeconfig = control_plane.kubeconfig_for(identity, groups)
    assert kubeconfig.stat().st_mode & 0o077 == 0, "others can read the key"
    answer = subprocess.run(
        [control_plane.program("kubectl"), "--kubeconfig", kubeconfig, "auth", "whoami", "-ojson"],
        capture_output=True,
        text=True,
        check=True,
    )
    user = json.loads(answer.stdout)["status"]["userInfo"]
    assert user["username"] == expected
    assert set(groups) <= set(user["groups"])


def test_unknown_namespace_of_a_service_account_is_named(control_plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match='nowhere/bot: namespaces "nowhere" not found'):
        control_plane.kubeconfig_for(service_account("nowhere", "bot"))


# Nodes and pods


def test_created_node_is_ready_and_untainted_with_its_gpus(
    control_plane: ControlPlane, create_nodes: Callable[..., list[str]]
) -> None:
    names = create_nodes(3, allocatable={GPU: "8"}, labels={"pool": "a"})
    status, listed = control_plane.api("GET", "/api/v1/nodes?labelSelector=pool%3Da")
    assert status == 200
    assert [node["metadata"]["name"] for node in listed["items"]] == names
    for node in listed["items"]:
        ready = [each for each in node["status"]["conditions"] if each["type"] == "Ready"]
        assert ready[0]["status"] == "True"
        assert node["status"]["allocatable"][GPU] == "8"
        assert "taints" not in node["spec"]


def test_created_node_keeps_the_taints_it_was_given(
    control_plane: ControlPlane, create_nodes: Callable[..., list[str]]
) -> None:
    taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    create_nodes(["gpu-1"], taints=[taint])
    assert control_plane.api("GET", "/api/v1/nodes/gpu-1")[1]["spec"]["taints"] == [taint]


def test_creating_a_node_twice_is_an_error(create_nodes: Callable[..., list[str]]) -> None:
    create_nodes(["twin"])
    with pytest.raises(ControlPlaneError, match='409: nodes "twin" already exists'):
        create_nodes(["twin"])


@pytest.mark.usefixtures("kwok")
def test_kwok_runs_a_bound_pod_for_as_long_as_it_asks(
    control_plane: ControlPlane, namespace: str, create_nodes: Callable[..., list[str]]
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    create_nodes(["n1"], allocatable={GPU: "8"})
    run_for = {"fairlead.dev/run-for": "2500ms"}
    for pod in (a_pod("short", "n1", annotations=run_for), a_pod("long", "n1"), a_pod("unbound")):
        assert control_plane.api("POST", pods, pod)[0] == 201

    def status(name: str) -> dict[str, Any]:
        return dict(control_plane.api("GET", f"{pods}/{name}")[1]["status"])

    def phase(name: str) -> str:
        return str(status(name)["phase"])

    eventually(lambda: phase("short") == "Succeeded" and phase("long") == "Running")
    # By KWOK's own clock, in whole seconds: a busy machine may not let us see it run.
    ended = status("short")["containerStatuses"][0]["state"]["terminated"]
    started, finished = (datetime.fromisoformat(ended[f"{at}At"]) for at in ("started", "finished"))
    assert finished - started >= timedelta(seconds=2), "it did not run for its time"
    assert (phase("long"), phase("unbound")) == ("Running", "Pending")


@pytest.mark.usefixtures("kwok")
def test_kwok_lets_a_deleted_pod_go_once_its_finalizers_are_gone(
    control_plane: ControlPlane, namespace: str, create_nodes: Callable[..., list[str]]
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    create_nodes(["n1"])
    held = a_pod("held", "n1", finalizers=["example.com/hold"])
    for pod in (a_pod("free", "n1"), held):
        assert control_plane.api("POST", pods, pod)[0] == 201
        control_plane.api("DELETE", f"{pods}/{pod['metadata']['name']}")
    eventually(lambda: control_plane.api("GET", f"{pods}/free")[0] == 404)
    assert control_plane.api("GET", f"{pods}/held")[0] == 200
    release = {"metadata": {"finalizers": None}}
    control_plane.api("PATCH", f"{pods}/held", release, content_type=MERGE_PATCH)
    eventually(lambda: control_plane.api("GET", f"{pods}/held")[0] == 404)


@pytest.mark.usefixtures("kwok")
def test_kwok_makes_a_node_ready(control_plane: ControlPlane) -> None:
    try:
        control_plane.api("POST", "/api/v1/nodes", {"metadata": {"name": "late"}})

        def ready() -> bool:
            node = control_plane.api("GET", "/api/v1/nodes/late")[1]
            conditions = node["status"].get("conditions", [])
            return ("Ready", "True") in [(each["type"], each["status"]) for each in conditions]

        eventually(ready)
    finally:
        control_plane.api("DELETE", "/api/v1/nodes/late")


def test_deleted_namespace_is_gone_with_all_in_it(control_plane: ControlPlane) -> None:
    control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": "doomed"}})
    inside = "/api/v1/namespaces/doomed"
    stuck = a_pod("stuck", "nowhere", finalizers=["example.com/hold"])
    assert control_plane.api("POST", f"{inside}/pods", stuck)[0] == 201
    assert control_plane.api("POST", f"{inside}/configmaps", {"metadata": {"name": "c"}})[0] == 201
    control_plane.delete_namespace("doomed")
    assert control_plane.api("GET", inside)[0] == 404
    control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": "doomed"}})
    assert control_plane.api("GET", f"{inside}/pods")[1]["items"] == []
    assert control_plane.api("GET", f"{inside}/configmaps")[1]["items"] == []
    control_plane.delete_namespace("doomed")
    control_plane.delete_namespace("doomed")  # absent is fine


# The programs beside the server


@pytest.mark.usefixtures("kwok_program")
def test_a_whole_control_plane_schedules_with_production_admission(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    plane = new_control_plane(disable_admission=())
    plane.start_controller_manager()
    scheduler = plane.start_kube_scheduler({"profiles": [{"schedulerName": "other"}]})
    plane.start_kwok()
    plane.create_nodes(["n1"], allocatable={GPU: "1"})
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    eventually(lambda: plane.api("GET", account)[0] == 200)
    pods = "/api/v1/namespaces/default/pods"
    pod = a_pod("p")
    pod["spec"]["schedulerName"] = "other"
    assert plane.api("POST", pods, pod)[0] == 201
    eventually(lambda: plane.api("GET", f"{pods}/p")[1]["status"]["phase"] == "Running")
    assert scheduler.cpu_seconds() > 0
    assert scheduler.peak_rss_bytes() >= scheduler.rss_bytes() > 20_000_000
    assert "scheduler_schedule_attempts_total" in plane.text("/metrics", of="kube-scheduler")
    assert "workqueue_depth" in plane.text("/metrics", of="kube-controller-manager")
    assert "apiserver_request_total" in plane.text("/metrics")


def test_program_that_was_not_built_says_how_to_build_it(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with pytest.raises(ControlPlaneError, match=r"build it with `python3 controlplane/build.py"):
        ControlPlane.start(tmp_path, tmp_path / "plane")
    with pytest.raises(ControlPlaneError, match="No process 'kubelet' was started here"):
        control_plane.process("kubelet")


# Faults


@pytest.mark.slow
def test_killed_server_comes_back_on_its_port_with_its_data(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    plane = new_control_plane()
    kubeconfig = plane.kubeconfig_for(service_account("default", "bot"))
    plane.create_nodes(["n1"])
    port = plane.port
    plane.kill_apiserver()
    with pytest.raises(OSError, match="refused"):
        plane.api("GET", "/version")
    plane.restart_apiserver()
    assert plane.port == port
    assert plane.api("GET", "/api/v1/nodes/n1")[0] == 200
    whoami = [plane.program("kubectl"), "--kubeconfig", kubeconfig, "auth", "whoami"]
    answer = subprocess.run(whoami, capture_output=True, text=True, check=True)
    assert "system:serviceaccount:default:bot" in answer.stdout


def test_paused_server_keeps_its_connections_and_answers_when_resumed(
    control_plane: ControlPlane,
) -> None:
    answers: list[int] = []
    asker = threading.Thread(target=lambda: answers.append(control_plane.api("GET", "/version")[0]))
    with paused(control_plane, "kube-apiserver"):
        asker.start()
        asker.join(timeout=1.0)
        assert answers == []
    asker.join(timeout=PATIENCE_S)
    assert answers == [200]


def test_server_that_dies_at_start_shows_the_end_of_its_log(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    with pytest.raises(
        ControlPlaneError, match=r"(?s)exited with 1 .*logs/kube-apiserver.log"
    ) as e:
        new_control_plane(apiserver_flags=["--no-such-flag"])
    assert "unknown flag: --no-such-flag" in str(e.value)


@pytest.mark.slow
def test_taken_port_is_left_for_another(
    control_plane: ControlPlane,
    new_control_plane: Callable[..., ControlPlane],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A port that is taken between the look and the use is rare; here it is certain.
    ports = iter([control_plane.port])
    monkeypatch.setattr(controlplane_children, "free_port", lambda: next(ports, free_port()))
    plane = new_control_plane()
    assert plane.port != control_plane.port
    assert plane.api("GET", "/version")[0] == 200


# Leaving nothing behind


def test_stop_leaves_no_process(new_control_plane: Callable[..., ControlPlane]) -> None:
    plane = new_control_plane()
    plane.start_controller_manager()
    plane.start_kube_scheduler()
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    pids = [plane.process(name).pid for name in names]
    plane.pause("kube-scheduler")  # a paused process must end, too
    plane.stop()
    assert all(gone(pid) for pid in pids)
    plane.stop()  # may be repeated


STARTS_AND_WAITS = """
import sys, time
from pathlib import Path
from fairlead.sim.controlplane import ControlPlane
with ControlPlane.start(Path(sys.argv[1]), Path(sys.argv[2])) as plane:
    plane.start_kube_scheduler()
    names = ("etcd", "kube-apiserver", "kube-scheduler")
    print(*(plane.process(name).pid for name in names), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def parent(assets: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", STARTS_AND_WAITS, assets, tmp_path]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="parent is killed"),
        pytest.param(signal.SIGTERM, id="parent is terminated", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, id="someone presses Ctrl-C"),
    ],
)
def test_children_do_not_outlive_their_parent(
    parent: subprocess.Popen[str], how: signal.Signals
) -> None:
    assert parent.stdout
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 3
    assert not any(gone(pid) for pid in pids)
    parent.send_signal(how)
    parent.wait(timeout=PATIENCE_S)
    eventually(lambda: all(gone(pid) for pid in pids))


def test_process_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    # The kernel ties a child to the thread, not to the process, that started it.
    started: list[ChildProcess] = []
    command = ["/bin/sleep", "60"]
    starter = threading.Thread(
        target=lambda: started.append(ChildProcess("sleep", command, tmp_path / "log"))
    )
    starter.start()
    starter.join()
    time.sleep(0.3)
    with started[0] as process:
        assert process.alive
    assert not process.alive
