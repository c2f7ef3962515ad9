"""What a user sees of a scheduler at work."""

import json

import pytest

from fairleads import FAIRLEAD, PATIENCE_S, eventually, fairlead
from preloaded import run


def eight(create_nodes, *names: str, **more):
    return create_nodes(list(names), allocatable={"nvidia.com/gpu": "8"}, **more)


@pytest.mark.real
def test_pods_are_bound_with_events_conditions_and_metrics(
    control_plane, create_nodes, pods
) -> None:
    eight(create_nodes, "a1", "a2")
    with fairlead(control_plane, loads=True) as running:
        for name, gpus in (("one", 1), ("four", 4), ("eight", 8)):
            pods.create(name, gpus)
        nodes = pods.wait_bound("one", "four", "eight")
        assert nodes["one"] == nodes["four"] != nodes["eight"]
        assert pods.condition("one")["status"] == "True"
        (event,) = eventually(lambda: pods.events("one"))
        assert event["note"] == f"Successfully assigned {pods.namespace}/one to {nodes['one']}"
        assert (event["reason"], event["type"], event["action"]) == (
            "Scheduled",
            "Normal",
            "Binding",
        )
        assert event["reportingController"] == "gpu-scheduler"
        assert running.get("/readyz") == (200, "ok")
        assert json.loads(running.get("/health")[1])["status"] == "healthy"
        assert json.loads(running.get("/ready")[1])["status"] == "ready"
        assert running.get("/healthz")[0] == running.get("/livez")[0] == 200
        attempts = {"result": "scheduled", "profile": "gpu-scheduler"}
        eventually(lambda: running.metric("scheduler_pod_scheduling_attempts_count") == 3)
        assert running.metric("scheduler_schedule_attempts_total", **attempts) == 3
        assert running.metric("scheduler_pending_pods", queue="active") == 0


def test_a_refused_pod_is_explained_and_placed_when_room_is_made(
    control_plane, create_nodes, pods
) -> None:
    eight(create_nodes, "b1")
    with fairlead(control_plane) as running:
        pods.create("first", 8)
        pods.wait_bound("first")
        pods.create("second", 2)
        condition = pods.wait_refused("second")
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith(
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        )
        eventually(lambda: pods.events("second", "FailedScheduling"))
        assert running.metric("scheduler_pending_pods", queue="unschedulable") == 1
        pods.delete("first")
        assert pods.wait_bound("second") == {"second": "b1"}


def test_explain_says_why_node_by_node(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "c1")
    eight(create_nodes, "c2", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    pods.create("big", 9)
    explain = [
        str(FAIRLEAD), "explain", f"{pods.namespace}/big",
        "--kubeconfig", str(control_plane.kubeconfig_for("system:kube-scheduler")),
    ]  # fmt: skip
    text = run(explain, check=True).stdout
    assert "requested 9 nvidia.com/gpu, 8 of 8 free" in text
    assert "not tolerated: k=v:NoSchedule" in text
    found = json.loads(run([*explain, "-o", "json"], check=True).stdout)
    assert found["state"] == "unschedulable"
    assert {node["node"]: node["rule"] for node in found["nodes"]} == {
        "c1": "NodeResourcesFit",
        "c2": "TaintToleration",
    }
    absent = run([*explain[:2], "nowhere/nothing", *explain[3:]])
    assert absent.returncode == 1
    assert (
        absent.stderr
        == "fairlead: pod nowhere/nothing not found; check the namespace and the name\n"
    )


def test_any_profile_serves_any_name_also_from_the_environment(
    control_plane, create_nodes, pods
) -> None:
    eight(create_nodes, "d1", "d2")
    with fairlead(control_plane, "--profile", "spread", env={"SCHEDULER_NAME": "my-own"}):
        pods.create("x", 1, scheduler="my-own")
        pods.create("y", 1, scheduler="my-own")
        pods.create("other", 1, scheduler="gpu-scheduler")
        nodes = pods.wait_bound("x", "y")
        assert nodes["x"] != nodes["y"]
        assert not pods.node("other")


def test_toyscheduler_is_best_fit_by_what_remains(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "e-large")
    create_nodes(["e-small"], allocatable={"nvidia.com/gpu": "4"})
    pods.create("holds-four", 4, nodeName="e-large")
    pods.create("holds-three", 3, nodeName="e-small")
    with fairlead(control_plane):
        pods.create("p", 1, scheduler="toyscheduler")
        assert pods.wait_bound("p") == {"p": "e-small"}
        eventually(lambda: pods.events("p", "Scheduled"))


def test_others_pods_count_and_terminal_ones_do_not(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "f1")
    pods.create(
        "static", 3, nodeName="f1", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}
    )
    pods.create("theirs", 3, nodeName="f1", scheduler="default-scheduler")
    pods.create("done", 8, nodeName="f1")
    patch = {"status": {"phase": "Succeeded"}}
    path = f"{pods.path}/done/status"
    control_plane.api("PATCH", path, patch, content_type="application/merge-patch+json")
    with fairlead(control_plane):
        pods.create("fits", 2)
        assert pods.wait_bound("fits") == {"fits": "f1"}
        pods.create("does-not", 1)
        pods.wait_refused("does-not")


@pytest.mark.real
def test_terminating_pods_hold_their_place_until_they_are_gone(
    control_plane, create_nodes, pods
) -> None:
    eight(create_nodes, "g1")
    pods.create("held", 8, nodeName="g1", metadata={"finalizers": ["example.com/hold"]})
    pods.delete("held")
    with fairlead(control_plane):
        pods.create("waits", 1)
        pods.wait_refused("waits")
        control_plane.api(
            "PATCH", f"{pods.path}/held", {"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )  # fmt: skip
        assert pods.wait_bound("waits") == {"waits": "g1"}


def test_gates_hold_a_pod_back(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "h1")
    with fairlead(control_plane) as running:
        pods.create("gated", 1, schedulingGates=[{"name": "example.com/wait"}])
        pods.create("free", 1)
        pods.wait_bound("free")
        assert running.metric("scheduler_pending_pods", queue="gated") == 1
        assert not pods.node("gated")
        control_plane.api(
            "PATCH", f"{pods.path}/gated", {"spec": {"schedulingGates": None}},
            content_type="application/merge-patch+json",
        )  # fmt: skip
        pods.wait_bound("gated")


def test_a_preset_node_is_left_alone_and_counted(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "i1", "i2")
    pods.create("preset", 8, nodeName="i1")
    pods.create("nowhere", 1, nodeName="no-such-node")
    with fairlead(control_plane):
        pods.create("p", 1)
        assert pods.wait_bound("p") == {"p": "i2"}


def test_a_pod_recreated_under_its_name_is_another_pod(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "j1")
    with fairlead(control_plane):
        for _ in range(10):
            pods.create("again", 8)
            pods.wait_bound("again")
            pods.delete("again")
        pods.create("again", 8)
        assert pods.wait_bound("again") == {"again": "j1"}


def test_cordon_and_uncordon(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "k1")
    merge = "application/merge-patch+json"

    def cordon(on: bool) -> None:
        body = {"spec": {"unschedulable": on}}
        control_plane.api("PATCH", "/api/v1/nodes/k1", body, content_type=merge)

    cordon(True)
    with fairlead(control_plane):
        pods.create("p", 1)
        assert "1 node(s) were unschedulable" in pods.wait_refused("p")["message"]
        cordon(False)
        pods.wait_bound("p")


def test_a_node_without_allocatable_takes_nobody(control_plane, create_nodes, pods) -> None:
    status, _ = control_plane.api("POST", "/api/v1/nodes", {"metadata": {"name": "l-bare"}})
    assert status == 201
    try:
        with fairlead(control_plane):
            pods.create("p", tolerations=[{"operator": "Exists"}])
            assert "1 Too many pods" in pods.wait_refused("p")["message"]
    finally:
        control_plane.api("DELETE", "/api/v1/nodes/l-bare")


def test_a_huge_request_is_refused_and_harms_nobody(control_plane, create_nodes, pods) -> None:
    eight(create_nodes, "m1")
    with fairlead(control_plane):
        pods.create("huge", requests={"memory": "1e30", "cpu": "9223372036854775807"})
        pods.create("unheard-of", container={"resources": {"limits": {"example.com/x": "1"}}})
        pods.create("fine", 1)
        pods.wait_bound("fine")
        assert "Insufficient memory" in pods.wait_refused("huge")["message"]
        assert "1 Insufficient example.com/x" in pods.wait_refused("unheard-of")["message"]


def test_bad_options_get_one_clear_line(control_plane, tmp_path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("profils: []\n")
    command = [FAIRLEAD, "run", "--kubeconfig", control_plane.kubeconfig_for(), "--port", "0"]

    def error(*options: str) -> str:
        ended = run([*command, *options], timeout=PATIENCE_S)
        assert ended.returncode == 1
        (line,) = ended.stderr.strip().splitlines()
        return line

    assert error("--config", str(config)) == (
        f"fairlead: {config}: unknown key 'profils'; did you mean 'profiles'?"
    )
    assert "unknown profile 'nope'; choose one of" in error("--profile", "nope")
    assert "nothing.yaml" in error("--config", str(tmp_path / "nothing.yaml"))
    assert "no-such-file" in error("--kubeconfig", str(tmp_path / "no-such-file"))


def test_a_taken_port_is_named(control_plane) -> None:
    with fairlead(control_plane) as running:
        port = running.url.rpartition(":")[2]
        access = control_plane.kubeconfig_for()
        command = [FAIRLEAD, "run", "--kubeconfig", access, "--port", port]
        ended = run(command, timeout=PATIENCE_S)
        assert ended.returncode == 1
        assert f"cannot serve on 127.0.0.1:{port}" in ended.stderr
        assert "choose another --port" in ended.stderr
