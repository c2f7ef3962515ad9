"""What people see of queues, on a real API server: three teams with guarantees and limits."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane, service_account
from fairleads import FAIRLEAD, PATIENCE_S, Pods, Running, eventually, fairlead
from preloaded import run
from test_who_sees_what import Scene as Callers
from test_who_sees_what import _namespaces, _rights, _user
from yaml_texts import yamls_of

ROOT = Path(__file__).parents[2]
GPU = "nvidia.com/gpu"
NODE = "node-of-queues"
TEAMS = ("research", "product", "models")


@dataclass
class Scene:
    plane: ControlPlane
    running: Running
    callers: Callers
    teams: dict[str, Pods]

    def create(self, team: str, name: str, queue: str = "", **more: Any) -> None:
        labels = {"fairlead.dev/queue": queue or f"seen-{team}"}
        self.teams[team].create(name, metadata={"labels": labels}, **more)

    def cli(self, *words: str, kubeconfig: Path | None = None) -> str:
        """What `fairlead` prints, asking the scheduler, for a user or else an administrator."""
        access = kubeconfig or self.reader
        command = [str(FAIRLEAD), *words, "--kubeconfig", str(access)]
        done = run(command, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def asked(self, *words: str, kubeconfig: Path | None = None) -> str:
        return self.cli(*words, "--scheduler", self.running.url, kubeconfig=kubeconfig)

    @property
    def reader(self) -> Path:
        return self._account("reader")

    @property
    def tenant(self) -> Path:
        return self._account("tenant")

    def _account(self, name: str) -> Path:
        return self.plane.kubeconfig_for(service_account(self.teams["research"].namespace, name))

    def queues(self) -> dict[str, dict[str, Any]]:
        """The tree that the scheduler reports, by name."""
        _, text = self.callers.get("reader", "/queues")
        return {row["name"]: row for row in json.loads(text)["queues"]}

    def queue(self, name: str) -> dict[str, Any]:
        return self.queues()[name]


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    teams = {team: Pods(control_plane, f"seen-{team}") for team in TEAMS}
    mine = teams["research"].namespace
    with ExitStack() as stack:
        stack.enter_context(_namespaces(control_plane, *(t.namespace for t in teams.values())))
        stack.enter_context(queue_crds.installed(control_plane))
        stack.enter_context(_rights(control_plane, mine))
        control_plane.create_nodes([NODE], allocatable={GPU: "8", "cpu": "64"})
        _create_queues(control_plane)
        admin = control_plane.kubeconfig_for()
        running = stack.enter_context(fairlead(control_plane, "--authenticate", kubeconfig=admin))
        tokens = {user: _user(control_plane, mine, user) for user in ("reader", "tenant")}
        callers = Callers(control_plane, running, tokens, teams["research"], teams["product"])
        yield Scene(control_plane, running, callers, teams)
    control_plane.api("DELETE", f"/api/v1/nodes/{NODE}")


def _create_queues(plane: ControlPlane) -> None:
    own = {team: [f"seen-{team}"] for team in TEAMS}
    for name, spec in {
        "seen": {"guaranteed": {GPU: 8}},
        "seen-research": {
            "parent": "seen", "guaranteed": {GPU: 4}, "limit": {GPU: 5, "cpu": 8}, "weight": 2,
            "namespaces": own["research"],
        },
        "seen-product": {
            "parent": "seen", "guaranteed": {GPU: 2}, "namespaces": own["product"],
            "preemption": {"reclaimable": False},
        },
        "seen-models": {"parent": "seen", "guaranteed": {GPU: 2}, "namespaces": own["models"]},
    }.items():  # fmt: skip
        status, said = queue_crds.create(plane, name, **spec)
        assert status == 201, said


@pytest.fixture
def contended(scene: Scene) -> Iterator[Scene]:
    """Product borrows two GPUs; research uses four, and waits for more than its limit."""
    scene.create("product", "serve", gpus=4)
    scene.create("research", "base", gpus=4)
    scene.teams["product"].wait_bound("serve")
    scene.teams["research"].wait_bound("base")
    scene.create("research", "wide", gpus=2)
    scene.teams["research"].wait_refused("wide")
    yield scene
    for team, names in {"product": ("serve",), "research": ("base", "wide")}.items():
        for name in names:
            scene.teams[team].delete(name)
    eventually(lambda: not scene.queue("seen")["used"].get(GPU), what="all pods are gone")


def test_a_pod_beyond_the_limit_says_which_with_both_numbers(contended: Scene) -> None:
    condition = contended.teams["research"].condition("wide")
    assert (condition["reason"], condition["message"]) == (
        "QueueLimit",
        "queue seen-research has a limit of 5 nvidia.com/gpu: 4 used, 2 requested",
    )


def test_the_tree_shows_what_each_uses_borrows_and_waits_for(contended: Scene) -> None:
    shown = contended.asked("queue")
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert lines["QUEUE"].split()[:5] == ["QUEUE", "GUARANTEED", "LIMIT", "USED", "BORROWED"]
    assert lines["seen"].split()[:5] == ["seen", "8", "-", "8", "-"]
    assert lines["seen-product"].split()[:5] == ["seen-product", "2", "-", "4", "2"]
    assert lines["seen-research"].split()[:5] == ["seen-research", "4", "5", "4", "-"]
    assert "has a limit of 5 nvidia.com/gpu" in lines["seen-research"]
    assert contended.queue("seen")["pendingUnits"] == 1


def test_a_listing_of_our_own_shows_the_same(contended: Scene) -> None:
    """Without a scheduler to ask: from the objects that an administrator may list."""
    own = json.loads(
        contended.cli("queue", "-o", "json", kubeconfig=contended.plane.kubeconfig_for())
    )
    told = json.loads(contended.asked("queue", "-o", "json"))
    names = ("name", "depth", "guaranteed", "limit", "used", "borrowed", "pendingUnits", "reason")
    assert [{name: row[name] for name in names} for row in own["queues"]] == [
        {name: row[name] for name in names} for row in told["queues"]
    ]


def test_one_queue_shows_its_units_and_who_borrows(contended: Scene) -> None:
    contended.create("models", "late", gpus=2)
    contended.teams["models"].wait_refused("late")
    shown = contended.asked("queue", "seen-models")
    assert "seen-models/late" in shown
    assert "2 nvidia.com/gpu guaranteed to this queue not in use; queues that borrow:" in shown
    (borrower,) = [line for line in shown.splitlines() if line.split()[:2] == ["seen-product", "2"]]
    assert borrower.split()[3] == "0"
    assert "4 of queues that are not reclaimable" in borrower
    assert contended.teams["product"].node("serve") == NODE
    contended.teams["models"].delete("late")


def test_units_are_named_where_the_reader_may_list_pods(contended: Scene) -> None:
    tree = contended.asked("queue", "-o", "json", kubeconfig=contended.tenant)
    assert "seen-research/wide" in tree
    one = contended.asked("queue", "seen-product", "-o", "json", kubeconfig=contended.tenant)
    assert [unit["name"] for unit in json.loads(one)["running"]] == [""]
    assert "serve" not in one
    assert "serve" in contended.asked("queue", "seen-product", "-o", "json")
    assert contended.callers.get("anonymous", "/queues")[0] == 401


def test_explain_names_the_limit_and_what_would_help(contended: Scene) -> None:
    space = contended.teams["research"].namespace
    shown = contended.asked("explain", f"{space}/wide")
    assert "queue seen-research has a limit of 5 nvidia.com/gpu: 4 used, 2 requested" in shown
    assert "queue seen-research (fairlead): position 1 of 1 pending units" in shown
    assert (
        "what would help: raise limit nvidia.com/gpu of queue seen-research to 6, "
        "or wait until its pods use 1 less" in shown
    )
    own = contended.cli("explain", f"{space}/wide", kubeconfig=contended.plane.kubeconfig_for())
    assert [line for line in own.splitlines() if "queue" in line] == [
        line for line in shown.splitlines() if "queue" in line
    ]


def test_only_what_a_limit_lists_is_limited(scene: Scene) -> None:
    """The queue limits GPUs and cpu: memory, and what it does not list, are free."""
    scene.create("research", "much-memory", requests={"cpu": "1", "memory": "1Gi"})
    scene.teams["research"].wait_bound("much-memory")
    scene.create("research", "much-cpu", requests={"cpu": "8"})
    condition = scene.teams["research"].wait_refused("much-cpu")
    assert condition["message"] == ("queue seen-research has a limit of 8 cpu: 1 used, 8 requested")
    for name in ("much-memory", "much-cpu"):
        scene.teams["research"].delete(name)


def test_a_label_that_names_the_queue_of_another_team_gains_nothing(scene: Scene) -> None:
    scene.create("product", "thrifty", queue="seen-research", gpus=1)
    condition = scene.teams["product"].wait_refused("thrifty")
    assert (condition["reason"], condition["message"]) == (
        "QueueNotAllowed", "pods of namespace seen-product may not use queue seen-research",
    )  # fmt: skip
    assert scene.queue("seen-research")["used"].get(GPU, 0) == 0
    scene.teams["product"].delete("thrifty")


def test_a_queue_that_is_deleted_while_in_use_loses_no_pod(contended: Scene) -> None:
    path, product = f"{queue_crds.QUEUES}/seen-product", contended.teams["product"]
    _, body = contended.plane.api("GET", path)
    assert contended.plane.api("DELETE", path)[0] == 200
    eventually(lambda: "seen-product" not in contended.queues(), what="the scheduler sees it go")
    contended.create("product", "late", requests={"cpu": "1"})
    condition = product.wait_refused("late")
    assert condition["reason"] == "QueueNotFound"
    assert condition["message"].startswith("the queue seen-product does not exist; create it")
    assert product.node("serve") == NODE
    status, said = queue_crds.create(contended.plane, "seen-product", **body["spec"])
    assert status == 201, said
    product.wait_bound("late")
    assert contended.queue("seen-product")["used"][GPU] == 4
    product.delete("late")


def test_metrics_name_each_queue(contended: Scene) -> None:
    def metric(name: str, **labels: str) -> float:
        return contended.running.metric(f"fairlead_queue_{name}", **labels)

    product = {"queue": "fairlead/seen-product", "resource": GPU}
    assert metric("used", **product) == 4
    assert metric("guaranteed", **product) == 2
    assert metric("borrowed", **product) == 2
    assert metric("limit", queue="fairlead/seen-research", resource=GPU) == 5
    assert metric("pending_units", queue="fairlead/seen-research") == 1


def test_kubectl_shows_the_same(contended: Scene) -> None:
    def columns() -> dict[str, list[str]]:
        command = [
            contended.plane.program("kubectl"), "get", "queues",
            "--kubeconfig", str(contended.plane.kubeconfig_for()),
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        return {line.split()[0]: line.split() for line in done.stdout.splitlines()}

    eventually(
        lambda: columns().get("seen-product", [])[:4] == ["seen-product", "seen", "2", "4"],
        what="the status of the queue is written",
    )


def _documented() -> list[dict[str, Any]]:
    """Every object of the page and of the README that is a queue."""
    blocks = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
    pages = (ROOT / "docs" / "queues.md", ROOT / "README.md")
    texts = (block for page in pages for block in blocks.findall(page.read_text()))
    found = (each for text in texts if "kind: Queue" in text for each in yamls_of(text))
    return [each for each in found if each["kind"] == "Queue"]


@pytest.mark.parametrize("queue", _documented(), ids=lambda queue: queue["metadata"]["name"])
def test_the_api_server_accepts_the_queues_of_the_pages(
    scene: Scene, queue: dict[str, Any]
) -> None:
    status, said = scene.plane.api("POST", f"{queue_crds.QUEUES}?dryRun=All", queue)
    assert status == 201, said
    assert said["spec"].keys() >= queue["spec"].keys()
