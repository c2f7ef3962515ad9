"""HTTP extenders beside the real kube-scheduler: the same file, the same extender, both ask it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from http_extender import HttpExtender, extending, names_of, pod_of, said

pytestmark = pytest.mark.server

OURS, THEIRS = "ours-asks", "theirs-asks"
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


#: Both go on without it.
AWAY = {"urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter", "ignorable": True}


@dataclass(frozen=True)
class Both:
    """Both schedulers, with one extender."""

    extender: HttpExtender
    running: Running
    pods: Pods

    def create(self, name: str, **spec: Any) -> tuple[str, str]:
        names = f"{name}-ours", f"{name}-theirs"
        for pod, scheduler in zip(names, (OURS, THEIRS), strict=True):
            self.pods.create(pod, scheduler=scheduler, **spec)
        return names

    def nodes(self, name: str, **spec: Any) -> set[str]:
        names = self.create(name, **spec)
        found = set(self.pods.wait_bound(*names).values())
        for each in names:
            self.pods.delete(each)
        return found

    def refusal(self, name: str, ends: Callable[[str], bool], **spec: Any) -> tuple[str, str]:
        """Reason and message, which must be those of both. Later attempts may say it again."""
        names = self.create(name, **spec)

        def alike() -> tuple[str, str] | None:
            ours, theirs = ({**self.pods.condition(each)} for each in names)
            found = ours.get("reason", ""), ours.get("message", "")
            same = found == (theirs.get("reason"), theirs.get("message"))
            return found if same and ends(found[1]) else None

        found: tuple[str, str] = eventually(alike, what=f"{name}: both say the same")
        for each in names:
            self.pods.delete(each)
        return found


def configured(scheduler: str, *extenders: dict[str, Any]) -> dict[str, Any]:
    return {"profiles": [{"schedulerName": scheduler}], "extenders": list(extenders)}


@contextmanager
def both(plane: ControlPlane, pods: Pods, tmp_path: Path, **changes: Any) -> Iterator[Both]:
    with extending() as extender:
        entry = {
            "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize",
            "weight": 5, "nodeCacheCapable": True, **changes,
        }  # fmt: skip
        file = tmp_path / "ours.yaml"
        file.write_text(yaml.safe_dump({**HEADER, **configured(OURS, AWAY, entry)}))
        with (
            plane.start_kube_scheduler(configured(THEIRS, AWAY, entry), name=THEIRS),
            fairlead(plane, "--config", str(file)) as running,
        ):
            yield Both(extender, running, pods)


def test_both_choose_what_the_extender_leaves_and_prefers_and_say_the_same_of_failures(
    control_plane: ControlPlane, pods: Pods, create_nodes: Callable[..., Any], tmp_path: Path
) -> None:
    create_nodes(["ex-a", "ex-b", "ex-c"])
    # Both do without points that come too late.
    with both(control_plane, pods, tmp_path, httpTimeout="10s") as scene:
        scene.extender.refuse({"ex-a": "no licence", "ex-c": "no licence"})
        assert scene.nodes("one-left") == {"ex-b"}

        scene.extender.refuse({"ex-b": "no licence"})
        scene.extender.prioritize = lambda asked: said(
            [{"Host": name, "Score": 10 * (name == "ex-c")} for name in names_of(asked)]
        )
        assert scene.nodes("best") == {"ex-c"}

        scene.extender.refuse(dict.fromkeys(("ex-a", "ex-b", "ex-c"), "no licence"))
        reason, message = scene.refusal("none-left", lambda text: "3 no licence" in text)
        assert reason == "Unschedulable"
        assert message.startswith("0/3 nodes are available: 3 no licence.")

        never = dict.fromkeys(("ex-a", "ex-b", "ex-c"), "never here")
        scene.extender.refuse(never, key="FailedAndUnresolvableNodes")
        reason, message = scene.refusal("never", lambda text: "3 never here" in text)
        assert "3 Preemption is not helpful for scheduling" in message

        scene.extender.filter = lambda _: said({"Error": "no database"})
        found = scene.refusal("error", lambda text: "no database" in text)
        assert found == ("SchedulerError", "no database")

        scene.extender.filter = lambda _: (503, b"")
        reason, message = scene.refusal("code", lambda text: "503" in text)
        assert (reason, message.partition(", ")[2]) == ("SchedulerError", "code 503")

        scene.extender.filter = lambda _: said({"NodeNames": ["made-up"]})
        _, message = scene.refusal("liar", lambda text: "made-up" in text)
        assert message.endswith("which is not found in the input node list")

        scene.extender.may_answer.clear()
        _, message = scene.refusal("late", lambda text: "deadline" in text)
        assert message.startswith(f'Post "{scene.extender.url}/filter": context deadline exceeded')
        scene.extender.may_answer.set()

        scene.extender.filter = lambda asked: said({"NodeNames": names_of(asked)})
        assert scene.nodes("again") == {"ex-c"}
        metric = "fairlead_extender_calls_total"
        url = scene.extender.url
        assert scene.running.metric(metric, extender=url, verb="filter", result="error") >= 4
        assert scene.running.metric(metric, extender=url, verb="filter", result="ok") >= 1


def test_pods_that_no_extender_manages_do_not_wait_for_one_that_hangs(
    control_plane: ControlPlane, pods: Pods, create_nodes: Callable[..., Any], tmp_path: Path
) -> None:
    create_nodes(["ex-f"], allocatable={"example.com/dongle": "4"})
    managed = [{"name": "example.com/dongle"}]
    changes = {"managedResources": managed, "httpTimeout": "60s", "nodeCacheCapable": False}
    with both(control_plane, pods, tmp_path, **changes) as scene:
        scene.extender.may_answer.clear()
        pods.create("asked", scheduler=OURS, requests={"cpu": "1"}, container=with_dongle())
        eventually(lambda: scene.extender.asked, what="the extender is asked")
        pods.create("plain", scheduler=OURS)
        pods.wait_bound("plain")
        assert not pods.node("asked")
        path, asked = scene.extender.asked[0]
        assert path == "/filter"
        assert pod_of(asked)["metadata"]["name"] == "asked"
        assert names_of(asked) == ["ex-f"]
        scene.extender.filter = lambda asked: said({"Nodes": asked["Nodes"]})
        scene.extender.may_answer.set()
        pods.wait_bound("asked")


def with_dongle() -> dict[str, Any]:
    return {"resources": {"limits": {"example.com/dongle": "1"}}}
