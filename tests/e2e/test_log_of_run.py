"""What `fairlead run` tells in its log, and how it ends where it cannot work at all."""

from pathlib import Path

import pytest
import yaml

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, PATIENCE_S, Pods, eventually, fairlead
from preloaded import run
from yaml_texts import yaml_of

pytestmark = pytest.mark.server


def test_each_bind_is_a_line(control_plane: ControlPlane, pods: Pods, create_nodes) -> None:
    create_nodes(["one"], allocatable={"nvidia.com/gpu": "4"})
    with fairlead(control_plane) as running:
        pods.create("p", gpus=2)
        lines = eventually(lambda: [r for r in running.records if r["event"] == "bound"])
    (line,) = lines
    assert line["level"] == "info"
    assert (line["pod"], line["node"], line["gpus"]) == (f"{pods.namespace}/p", "one", 2)
    assert line["ms"] > 0


def test_a_wrong_token_ends_with_its_cause(control_plane: ControlPlane, tmp_path: Path) -> None:
    found = yaml_of(control_plane.kubeconfig_for())
    for user in found["users"]:
        user["user"] = {"token": "wrong"}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(found))
    done = run(
        [str(FAIRLEAD), "run", "--port", "0", "--kubeconfig", str(file)], timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fairlead: the API server does not accept these credentials: ")
