"""Native gangs beside the real kube-scheduler: the same cases, the same answers.

The cases follow those of kube-scheduler's own integration tests of PodGroups. Fairlead and
kube-scheduler play them one after the other in namespaces and on nodes of their own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from fairlead.sim.controlplane.nodes import node_body
from fairleads import eventually, fairlead
from gang_planes import GangPlane, gang_plane
from native_gang_scenes import CASES, Case, Gone, Group, Members, Step, Ungated

pytestmark = pytest.mark.server

JUDGED = ("default-scheduler", "gpu-scheduler")
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def gangs(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangPlane]:
    """Both schedulers at work on one API server."""
    with gang_plane(assets, tmp_path_factory.mktemp("oracle")) as found:
        plane = found.plane
        with (
            plane.start_kube_scheduler(flags=[found.gates]),
            fairlead(plane, kubeconfig=plane.kubeconfig_for()),
        ):
            yield found


class Play:
    """One case, played by one scheduler."""

    def __init__(self, gangs: GangPlane, scheduler: str, case: Case, number: int) -> None:
        self.gangs, self.scheduler, self.case = gangs, scheduler, case
        self.namespace = f"case-{number}-{scheduler}"
        self.groups: dict[str, list[str]] = {}
        self._undo: list[str] = []
        self._made = 0

    def __enter__(self) -> Self:
        self._create("/api/v1/namespaces", {"metadata": {"name": self.namespace}}, undo=False)
        for number, cpus in enumerate(self.case.nodes):
            rack = {"rack": self.case.racks[number]} if self.case.racks else {}
            labels = {"stage": self.namespace, **rack}
            body = node_body(f"{self.namespace}-{number}", {"cpu": str(cpus)}, labels, {}, [])
            self._create("/api/v1/nodes", body)
        return self

    def __exit__(self, *_: object) -> None:
        for path in reversed(self._undo):
            self.gangs.plane.api("DELETE", f"{path}?gracePeriodSeconds=0")

    def run(self) -> None:
        for step in self.case.steps:
            self._perform(step)

    def _perform(self, step: Step) -> None:
        match step:
            case Group(name, minimum, spec):
                self.gangs.create(self.namespace, name, minimum, **spec)
            case Members():
                for name in step.names:
                    self._create(self._pods, self._pod(name, step))
                self.groups.setdefault(step.group, []).extend(step.names)
                self._settle()
            case Gone(names):
                self._settle()
                for name in names:
                    path = f"{self._pods}/{name}?gracePeriodSeconds=0"
                    assert self.gangs.plane.api("DELETE", path)[0] == 200
            case Ungated(names):
                self._settle()
                patch = {"spec": {"schedulingGates": None}}
                for name in names:
                    path = f"{self._pods}/{name}"
                    assert self.gangs.plane.api("PATCH", path, patch, content_type=MERGE)[0] == 200

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def _settle(self) -> None:
        """A plain pod that came later is placed, so what came before was looked at."""
        self._made += 1
        name = f"plain-{self._made}"
        body = self._pod(name, Members("", 0, cpu="0"))
        del body["spec"]["schedulingGroup"]
        self._create(self._pods, body)
        eventually(lambda: self.node_of(name), what="a plain pod is placed")

    def _pod(self, name: str, members: Members) -> dict[str, Any]:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": members.cpu}}}
        spec = {
            "schedulerName": self.scheduler, "containers": [container],
            "nodeSelector": {"stage": self.namespace}, "terminationGracePeriodSeconds": 0,
            "schedulingGroup": {"podGroupName": members.group}, **members.spec,
        }  # fmt: skip
        selector = {"stage": self.namespace, **members.spec.get("nodeSelector", {})}
        return {"metadata": {"name": name}, "spec": {**spec, "nodeSelector": selector}}

    def _create(self, folder: str, body: dict[str, Any], *, undo: bool = True) -> None:
        status, answer = self.gangs.plane.api("POST", folder, body)
        assert status == 201, answer
        if undo:
            self._undo.append(f"{folder}/{body['metadata']['name']}")

    def node_of(self, name: str) -> str:
        status, found = self.gangs.plane.api("GET", f"{self._pods}/{name}")
        return str(found["spec"].get("nodeName", "")) if status == 200 else ""

    def bound(self) -> dict[str, int]:
        found = {group: sum(bool(self.node_of(name)) for name in names)
                 for group, names in self.groups.items()}  # fmt: skip
        return {group: count for group, count in found.items() if group in self.case.bound}

    def conditions(self) -> dict[str, tuple[str, str] | None]:
        found = {}
        for group in self.case.conditions:
            said = self.gangs.conditions(self.namespace, group).get(self.gangs.condition)
            found[group] = (said["status"], said["reason"]) if said else None
        return found


@pytest.mark.parametrize("number", range(len(CASES)), ids=[*CASES])
@pytest.mark.parametrize("scheduler", JUDGED)
def test_both_give_the_same_answer(gangs: GangPlane, number: int, scheduler: str) -> None:
    case = list(CASES.values())[number]
    with Play(gangs, scheduler, case, number) as play:
        play.run()
        _eventually_equal(play.bound, case.bound)
        _eventually_equal(play.conditions, case.conditions)
        assert play.bound() == case.bound


def _eventually_equal(look: Callable[[], Any], wanted: Any) -> None:
    seen: list[Any] = []

    def equal() -> bool:
        seen[:] = [look()]
        return bool(seen[0] == wanted)

    try:
        eventually(equal)
    except AssertionError:
        assert seen[0] == wanted
        raise
