"""Scenes on a real API server, with Fairlead or kube-scheduler as a process of its own."""

import datetime as dt
import itertools
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self, TypeAlias

from fairlead.model.behaviour import behaviour_of
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import PATIENCE_S, fairlead
from happenings import path_of
from stages import Stage
from tables import Body, pod

#: It fits nowhere, whatever nodes there are.
MARKER = pod("", "cpu=1M", nodeSelector={"scene": "@scene"}, tolerations=[{"operator": "Exists"}])
#: After its first refusal a pod waits for so long; whole seconds are what a condition tells.
_BACKOFF_S, _ROUNDED_S = 1.0, 1.0

Metrics: TypeAlias = Callable[[], str]
Start: TypeAlias = Callable[[], AbstractContextManager[Metrics]]


class LiveStage(Stage):
    #: Served beside the name that is judged: attempts can be told from those for markers.
    marks = "toyscheduler"

    def __init__(self, plane: ControlPlane, scheduler: str, start: Start) -> None:
        super().__init__(scheduler)
        self.plane = plane
        self._start = start
        self._running = ExitStack()
        self._markers = itertools.count()
        version = plane.api("GET", "/version")[1]
        self.behaviour = behaviour_of(int(version["major"]), int(version["minor"]))

    def __enter__(self) -> Self:
        self._metrics = self._running.enter_context(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @contextmanager
    def interval(self) -> Iterator[None]:
        self._running.close()
        yield
        self._metrics = self._running.enter_context(self._start())

    def request(self, method: str, path: str, body: Body | None, kind: str) -> tuple[int, Body]:
        return self.plane.api(method, path, body, content_type=kind)

    def soon(self, holds: Callable[[], Any], what: str) -> Any:
        until = time.monotonic() + PATIENCE_S
        while not (answer := holds()):
            assert time.monotonic() < until, f"not within {PATIENCE_S} s: {what}"
            time.sleep(0.01)
        return answer

    def now_s(self) -> float:
        return time.monotonic()

    def attempts(self) -> int:
        """Those for markers not counted."""
        name = rf'scheduler_schedule_attempts_total{{[^}}]*profile="{self.scheduler}"[^}}]*}}'
        found = re.findall(rf"^{name} (\S+)$", self._metrics(), re.MULTILINE)
        return int(sum(map(float, found)))

    def mark(self) -> None:
        """A marker is a pod that fits nowhere. The second one is decided after all that the
        scheduler found to do at the first.
        """
        self._mark_once()
        self._mark_once()

    def ready(self) -> None:
        known = f"0/{self.nodes} nodes are available: {self.nodes} Insufficient cpu"
        wanted = known if self.nodes else "no nodes available"
        self.soon(lambda: wanted in self._mark_once(), f"the {self.nodes} nodes of the scene known")

    def wait_out_backoff(self, path: str) -> None:
        refused = dt.datetime.fromisoformat(self.condition(path)["lastTransitionTime"]).timestamp()
        over = refused + _ROUNDED_S + _BACKOFF_S
        self.soon(lambda: time.time() > over, "the backoff is over")

    def _mark_once(self) -> str:
        """What the scheduler says of the nodes, those of other scenes kept apart."""
        path = self.add_pod(f"marker-{next(self._markers)}", MARKER, self.marks)
        message = self.soon(lambda: self.condition(path).get("message"), "the marker refused")
        self._made.remove(self.real(path))
        self.remove(path)
        return str(message)

    @contextmanager
    def nobody_may_delete(self) -> Iterator[None]:
        """A policy of a third party denies it."""
        kind = "ValidatingAdmissionPolicy"
        name = {"metadata": {"name": "@stay"}}
        rule = {
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            "operations": ["DELETE"],
        }  # fmt: skip
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "request.name != 'x'", "message": "not today"}],
        }
        binding = {"policyName": "@stay", "validationActions": ["Deny"]}
        objects = (
            {"kind": kind, **name, "spec": spec},
            {"kind": f"{kind}Binding", **name, "spec": binding},
        )
        trial = f"{path_of('x')}?dryRun=All&gracePeriodSeconds=0"
        with served.policy(self, objects, lambda: self.api("DELETE", trial)[0] == 422):
            yield


class KubeStage(LiveStage):
    is_kube = True
    marks = "markers"


@contextmanager
def fairlead_stage(plane: ControlPlane) -> Iterator[Stage]:
    with LiveStage(plane, "gpu-scheduler", lambda: _fairlead(plane)) as ready:
        ready.make_priorities()
        yield ready


@contextmanager
def kube_stage(plane: ControlPlane) -> Iterator[Stage]:
    with KubeStage(plane, "default-scheduler", lambda: _kube(plane)) as ready:
        ready.make_priorities()
        yield ready


@contextmanager
def _kube(plane: ControlPlane) -> Iterator[Metrics]:
    profiles = [{"schedulerName": name} for name in ("default-scheduler", KubeStage.marks)]
    with plane.start_kube_scheduler({"profiles": profiles}):
        yield lambda: plane.text("/metrics", of="kube-scheduler")


@contextmanager
def _fairlead(plane: ControlPlane) -> Iterator[Metrics]:
    with fairlead(plane) as running:
        yield lambda: running.get("/metrics")[1]
