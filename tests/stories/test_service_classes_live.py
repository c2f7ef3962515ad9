"""Service classes on a real API server: units are counted, kept across restarts, and explained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, PATIENCE_S, Pods, eventually
from leaders import Lease, candidate, wait_leading
from preloaded import run
from test_learned_run_times import Store

CONFIG = """
apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
goals:
  classes:
    - {{name: fast, wait: 1h, target: 90%}}
    - {{name: kept, wait: 1h, namespaces: [elsewhere]}}
leaderElection: {{resourceNamespace: {namespace}}}
"""


def of_class(name: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"fairlead.dev/service-class": name}}}


def test_units_of_a_class_are_counted_kept_and_explained(
    control_plane: ControlPlane,
    namespace: str,
    pods: Pods,
    create_nodes: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    create_nodes(["n1"], allocatable={"nvidia.com/gpu": "8"})
    lease, store = Lease(control_plane, namespace), Store(control_plane, namespace)
    store.create()
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIG.format(namespace=namespace))

    def asked(*arguments: str) -> Any:
        command = [str(FAIRLEAD), *arguments, "--config", str(config), "-o", "json"]
        command += ["--kubeconfig", str(control_plane.kubeconfig_for())]
        done = run(command, check=True, timeout=PATIENCE_S)
        return json.loads(done.stdout)

    with candidate(lease, options=("--config", str(config))) as first:
        wait_leading(first)
        pods.create("quick", 1, **of_class("fast"))
        pods.wait_bound("quick")
        units = "fairlead_service_class_units_total"
        eventually(lambda: first.metric(units, **{"class": "fast", "result": "met"}) == 1.0)
        pods.create("stuck", 64, **of_class("fast"))
        pods.create("other", 1, **of_class("kept"))
        (event,) = eventually(lambda: pods.events("other", "ServiceClassNotUsed"), what="a warning")
        assert f"pods of namespace {namespace} may not name it; there are: fast" in event["note"]
        eventually(lambda: "service" in store.data, what="the record is kept")

    found = asked("goals")["classes"][0]
    assert (found["name"], found["met"], found["missed"], found["pending"]) == ("fast", 1, 0, 1)
    rows = asked("goals", "--report")["rows"]
    (row,) = [each for each in rows if each["name"] == f"{namespace}/quick"]
    assert (row["kind"], row["units"], row["inTime"], row["late"]) == ("job", 1, 1, 0)
    told = asked("explain", "stuck", "-n", namespace)["serviceClass"]
    assert told["message"].startswith("service class fast: to start within 1h, by ")
    assert told["attainment"] == 1.0

    with candidate(lease, options=("--config", str(config))) as second:
        wait_leading(second)
        eventually(
            lambda: second.metric("fairlead_service_class_attainment_ratio", **{"class": "fast"}),
            what="what was counted before the restart",
        )
