"""`fairlead goals --drain` on a real API server: what could be removed, and what that saves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods
from preloaded import run

PRICE = "example.com/price-per-hour"
OWNER = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True,
}  # fmt: skip
CONFIG = f"""
goals: {{currency: USD, prices: [{{kind: label, key: {PRICE}}}]}}
consolidation: {{minRunTime: 0s}}
"""


def goals(plane: ControlPlane, config: Path, *options: str) -> str:
    command = [str(FAIRLEAD), "goals", "--kubeconfig", str(plane.kubeconfig_for()), "--config",
               str(config), "--drain", *options]  # fmt: skip
    done = run(command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_plan_names_nodes_moves_and_what_they_save(
    control_plane: ControlPlane,
    create_nodes: Callable[..., list[str]],
    pods: Pods,
    namespace: str,
    tmp_path: Path,
) -> None:
    (config := tmp_path / "goals.yaml").write_text(CONFIG)
    names = {kind: f"{namespace}-{kind}" for kind in ("full", "dear", "unused")}
    for kind, price in (("full", "4"), ("dear", "9.5"), ("unused", "2.5")):
        labels = {PRICE: price, "pool": namespace}
        create_nodes([names[kind]], allocatable={"nvidia.com/gpu": "8"}, labels=labels)
    for name, gpus, node in (("a", 4, "full"), ("b", 2, "dear")):
        meta = {"ownerReferences": [OWNER]}
        pods.create(name, gpus, metadata=meta, nodeName=names[node])
        started = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        path, merge = f"{pods.path}/{name}/status", "application/merge-patch+json"
        assert control_plane.api("PATCH", path, started, content_type=merge)[0] == 200

    told: dict[str, Any] = json.loads(goals(control_plane, config, "-o", "json"))
    mine = [each for each in told["drain"] if each["node"] in names.values()]
    saved = {each["node"]: each["pricePerHour"] for each in mine}
    assert saved == {names["unused"]: 2.5, names["dear"]: 9.5}
    [move] = next(each["moves"] for each in mine if each["node"] == names["dear"])
    assert (move["pod"], move["to"]) == (f"{namespace}/b", names["full"])
    text = goals(control_plane, config)
    assert f"{names['dear']} (9.50): 2 GPU(s) move" in text
    assert "USD/h:" in text
