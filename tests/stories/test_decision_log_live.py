"""A real scheduler on a real API server with a busy workload: its decision log repeats."""

from pathlib import Path

import queue_crds
from fairlead.apps.decision_log.frames import LogReader
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead
from replays import replayed

GPU = "nvidia.com/gpu"


def test_what_a_busy_scheduler_decided_is_decided_again(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, create_nodes
) -> None:
    pods = Pods(control_plane, namespace)
    with queue_crds.installed(control_plane):
        create_nodes(["a", "b", "c"], allocatable={GPU: "8"})
        for name, limit in (("research", 12), ("small", 1)):
            assert queue_crds.create(control_plane, name, limit={GPU: limit})[0] == 201
        options = ("--decision-log", str(tmp_path), "--decision-log-size", "8Mi")
        with fairlead(control_plane, *options, kubeconfig=control_plane.kubeconfig_for()) as run:
            _work(pods)
            eventually(lambda: run.metric("fairlead_decision_log_bytes_total") > 0)
            assert run.metric("fairlead_decision_log_gaps_total") == 0
        for name in pods.nodes():
            pods.delete(name)
    copy = tmp_path.with_name("copy.decisions")
    said = replayed(tmp_path, "5", "--anonymise", str(copy))
    assert "the replay is the same, byte for byte" in said
    text = repr([record for _, record in LogReader([copy])])
    assert "zanzibar" not in text
    said = replayed(tmp_path, "7")
    assert "the replay is the same, byte for byte" in said
    for word in (" Bind", " AnnounceFailure", " Evict", " QueueSeen", " BindDone"):
        assert word in said, said


def _work(pods: Pods) -> None:
    """Plain pods, a gang, queues with a limit, pods that evict others, and pods that go."""
    plain = [f"zanzibar-{n}" for n in range(6)]
    for name in plain:
        pods.create(name, gpus=2, terminationGracePeriodSeconds=0)
    pods.wait_bound(*plain)
    gang = {"annotations": {"fairlead.dev/gang": "job", "fairlead.dev/gang-min": "3"}}
    members = [f"job-{n}" for n in range(3)]
    for name in members:
        pods.create(name, gpus=2, metadata=gang, terminationGracePeriodSeconds=0)
    pods.wait_bound(*members)
    for name in ("q1", "q2"):
        queued = {"labels": {"fairlead.dev/queue": "small"}}
        pods.create(name, gpus=1, metadata=queued, terminationGracePeriodSeconds=0)
    eventually(lambda: len([1 for name in ("q1", "q2") if pods.node(name)]) == 1)
    for name in ("q1", "q2"):
        if not pods.node(name):
            pods.wait_refused(name)
    pods.create("large", gpus=8, priorityClassName="system-cluster-critical")
    pods.wait_bound("large")
    pods.create("too-large", gpus=9)
    pods.wait_refused("too-large")
    pods.delete("large")
    pods.create("last", gpus=4)
    pods.wait_bound("last")
