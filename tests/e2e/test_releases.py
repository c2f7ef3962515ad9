"""A GPU is given to the next pod when the processes of the one before have ended: agent, scheduler
and a real API server, where somebody deletes pods by force."""

from collections.abc import Iterator

import pytest

from fairlead.apps.run.releases import OVERDUE_S
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S, Pods, Running, eventually, fairlead
from test_agent import Machine, machine, rights

__all__ = ["machine", "rights"]  # fixtures
MERGE = "application/merge-patch+json"
#: It looks when something happens, and not by chance.
SELDOM = ("--interval", "600s")
ALL = {"fairlead.dev/gpu-share": "1", "fairlead.dev/gpu-count": "2"}


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[Running]:
    with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()) as running:
        yield running


def ask(machine: Machine, pods: Pods, name: str) -> None:
    """For all GPUs of the machine."""
    where = {"kubernetes.io/hostname": machine.node}
    pods.create(name, metadata={"annotations": ALL}, nodeSelector=where)


def runs(machine: Machine, pods: Pods, name: str, pid: int) -> None:
    """A pod on all GPUs, as its kubelet shows it, and a process of it on the first."""
    ask(machine, pods, name)
    pods.wait_bound(name)
    set_phase(pods, name, "Running")
    machine.process(pid, 0, pods.get(name)["metadata"]["uid"])


def set_phase(pods: Pods, name: str, phase: str) -> None:
    body = {"status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"}}
    path = f"{pods.path}/{name}/status"
    assert pods.plane.api("PATCH", path, body, content_type=MERGE)[0] == 200


def listed(machine: Machine) -> bool:
    return bool(machine.listed().get("confirms"))


def test_a_gpu_waits_for_the_end_of_what_a_pod_left_behind(
    machine: Machine, pods: Pods, scheduler: Running
) -> None:
    label(machine)
    with machine.agent(*SELDOM):
        eventually(lambda: listed(machine))
        runs(machine, pods, "first", 4711)
        uid = pods.get("first")["metadata"]["uid"]
        ask(machine, pods, "second")
        pods.wait_refused("second")

        pods.delete("first")
        eventually(lambda: scheduler.metric("fairlead_pods_held_back") == 1)
        eventually(lambda: "of a pod that is gone" in machine.health()[0])
        assert not pods.node("second")

        machine.end(4711)
        eventually(lambda: machine.listed().get("released") == [uid])
        eventually(lambda: scheduler.metric("fairlead_pods_held_back") == 0)
        pods.wait_bound("second")


@pytest.mark.parametrize("how", ["deleted by force", "Succeeded", "Failed"])
def test_a_pod_whose_processes_have_ended_keeps_nobody_waiting(
    machine: Machine, pods: Pods, scheduler: Running, how: str
) -> None:
    label(machine)
    with machine.agent(*SELDOM):
        eventually(lambda: listed(machine))
        runs(machine, pods, "first", 4711)
        ask(machine, pods, "second")
        pods.wait_refused("second")
        machine.end(4711)
        if how == "deleted by force":
            pods.delete("first")
        else:
            set_phase(pods, "first", how)
        pods.wait_bound("second")
        assert scheduler.metric("fairlead_pod_warnings_total", reason="GPUReleaseOverdue") == 0


def test_an_agent_that_is_away_is_not_waited_for_for_ever(
    machine: Machine, pods: Pods, scheduler: Running
) -> None:
    label(machine)
    with machine.agent(*SELDOM):
        eventually(lambda: listed(machine))
        runs(machine, pods, "first", 4711)
        ask(machine, pods, "second")
        pods.wait_refused("second")
    pods.delete("first")
    eventually(lambda: scheduler.metric("fairlead_pods_held_back") == 1)
    pods.wait_bound("second", timeout_s=OVERDUE_S + PATIENCE_S)
    (event,) = eventually(lambda: pods.events("first", "GPUReleaseOverdue"))
    assert machine.uuids[0] in event["note"]
    assert scheduler.metric("fairlead_pod_warnings_total", reason="GPUReleaseOverdue") == 1


def test_a_scheduler_that_starts_later_is_told_by_the_agent(
    machine: Machine, pods: Pods, control_plane: ControlPlane
) -> None:
    label(machine)
    access = control_plane.kubeconfig_for()
    with machine.agent(*SELDOM):
        eventually(lambda: listed(machine))
        with fairlead(control_plane, kubeconfig=access):
            runs(machine, pods, "first", 4711)
        pods.delete("first")
        eventually(lambda: "of a pod that is gone" in machine.health()[0])
        with fairlead(control_plane, kubeconfig=access):
            ask(machine, pods, "second")
            pods.wait_refused("second")
            machine.end(4711)
            pods.wait_bound("second")


def label(machine: Machine) -> None:
    body = {"metadata": {"labels": {"kubernetes.io/hostname": machine.node}}}
    path = f"/api/v1/nodes/{machine.node}"
    assert machine.plane.api("PATCH", path, body, content_type=MERGE)[0] == 200
