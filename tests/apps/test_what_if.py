"""What-if on a cluster that events show: who starts when and where, who loses."""

import io
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders import a_node, a_pod
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.what_if import what_if_view
from fairlead.apps.what_if.changes import Changes
from fairlead.apps.what_if.outlook import Horizon
from fairlead.apps.what_if.taken_names import with_free_names
from fairlead.apps.what_if.what_if import WhatIfAnswer, WhatIfOptions, answered
from fairlead.apps.what_if.workload import (
    ManifestDefaults,
    ManifestPods,
    read_workload,
    workload_of,
)
from fairlead.engine import run_dumps
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    AdvanceSeen,
    Event,
    NodeSeen,
    PodSeen,
    QueueKindSeen,
    QueueSeen,
    RunTimesLoaded,
)
from fairlead.engine.run_history import RunHistory
from fairlead.model.advance import AdvanceReservation
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import FAIRLEAD, GpuRequest
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder
from fairlead.model.run_times import RunTime
from fairlead.model.service_classes import SERVICE_CLASS, ServiceClass
from fairlead.sim.virtual.jobs import equal_nodes

NOTHING = ManifestPods(())
GPU = "nvidia.com/gpu"


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() - seconds, UTC).isoformat()


def two_nodes() -> list[Event]:
    """Both are full for another 20 and 30 minutes, and a pod waits for a whole node."""
    ends = {"n0": 1200.0, "n1": 1800.0}
    return [
        *(NodeSeen(a_node(name, gpus=4)) for name in ends),
        *(
            PodSeen(a_pod(f"r-{name}", gpus=4, node=name, started=ago(600), controller="Job/r",
                          run_time=RunTime(600 + left)))
            for name, left in ends.items()
        ),
        PodSeen(a_pod("waits", gpus=4, run_time=RunTime(3600.0))),
    ]  # fmt: skip


def a_job(gpus: int = 2, pods: int = 1, **spec: Any) -> dict[str, Any]:
    limits = {GPU: str(gpus)}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    template = {
        "metadata": {"annotations": {"fairlead.dev/run-time": "1h"}},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container], **spec},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def ask(
    events: list[Event],
    changes: Changes | None = None,
    work: ManifestPods = NOTHING,
    **more: Any,
) -> WhatIfAnswer:
    options = WhatIfOptions(RunOptions(), changes=changes or Changes(), **more)
    return answered(options, plan(RunOptions()), events, work, "default")


def effects(answer: WhatIfAnswer) -> dict[str, str]:
    return {change.name: change.effect for change in answer.units if change.effect}


def text(answer: WhatIfAnswer) -> str:
    out = io.StringIO()
    what_if_view.show(answer, "text", out)
    return out.getvalue()


def test_a_job_that_fits_starts_now_and_the_line_says_where() -> None:
    events: list[Event] = [NodeSeen(a_node("free", gpus=4))]
    answer = ask(events, work=workload_of([a_job()], ManifestDefaults()))
    assert answer.starts
    first = text(answer).splitlines()[0]
    assert first == "default/train-0 to start now using 2 GPUs on free"


def test_a_job_that_waits_starts_when_others_end_and_delays_those_behind_it() -> None:
    work = workload_of([a_job(4)], ManifestDefaults())
    answer = ask(two_nodes(), work=work)
    unit = answer.after.units["default/train-0"]
    assert unit.start_s == pytest.approx(1800.0, abs=5.0)
    assert unit.nodes == ("n1",)
    assert effects(answer) == {"default/train-0": "new"}


def test_more_nodes_let_what_waits_start_now() -> None:
    answer = ask(two_nodes(), Changes(add_nodes=1, like="n0"))
    assert effects(answer) == {"default/waits": "earlier"}
    assert answer.after.units["default/waits"].nodes == ("n0-new-1",)
    assert answer.after.units["default/waits"].start_s == 0.0


def test_without_a_node_its_pods_wait_again_and_work_is_lost() -> None:
    answer = ask(two_nodes(), Changes(without_nodes=("n0",)))
    assert effects(answer) == {"default/r-n0": "evicted", "default/waits": "later"}
    found = what_if_view.as_json(answer)["summary"]
    assert (found["evicted"], found["later"]) == (1, 1)
    assert found["lostGpuHours"] == pytest.approx(4 * 600 / 3600, rel=0.02)


def test_a_higher_priority_evicts_and_the_answer_says_whom() -> None:
    answer = ask(two_nodes(), Changes(priorities=("waits=1000",)))
    assert "default/waits" in effects(answer)
    assert list(effects(answer).values()).count("evicted") == 1


def test_a_limit_of_a_queue_is_raised() -> None:
    queue = QueueSpec("fairlead/team", limit=((GPUS, 0),))
    events: list[Event] = [
        NodeSeen(a_node("n", gpus=4)),
        QueueSeen(queue),
        QueueKindSeen("fairlead", is_served=True),
        PodSeen(a_pod("p", gpus=4, queue="fairlead/team", run_time=RunTime(60.0))),
    ]
    assert effects(ask(events, Changes(queues=("team=limit=8,weight=2",)))) == {
        "default/p": "starts"
    }


def test_a_job_too_large_for_every_node_does_not_start() -> None:
    answer = ask(two_nodes(), work=workload_of([a_job(16)], ManifestDefaults()))
    assert not answer.starts
    assert "default/train-0 does not start within 24 h" in text(answer)


def test_it_changes_nothing_that_it_was_given() -> None:
    events = two_nodes()
    before = repr(events)
    ask(events, Changes(1, "n0", ("n1",), (), ("waits=7",)))
    assert repr(events) == before


def test_a_look_ahead_has_an_end() -> None:
    answer = ask(two_nodes(), horizon=Horizon(60.0))
    assert answer.after.units["default/waits"].start_s is None
    assert json.loads(json.dumps(what_if_view.as_json(answer)))["summary"]["horizonSeconds"] == 60.0


def test_a_jobset_and_a_list_are_their_pods() -> None:
    job = a_job(1, 2)
    jobs = [{"name": "w", "replicas": 3, "template": {"spec": job["spec"]}}]
    jobset = {"kind": "JobSet", "metadata": {"name": "js"}, "spec": {"replicatedJobs": jobs}}
    found = workload_of([jobset, {"kind": "Service", "metadata": {"name": "s"}}],
                        ManifestDefaults("team"))  # fmt: skip
    assert [pod.key for pod in found.pods][:3] == [
        "team/js-w-0-0",
        "team/js-w-0-1",
        "team/js-w-1-0",
    ]
    assert len(found.pods) == 6
    assert found.left_out == ("Service/s",)


def test_priority_classes_and_deadlines_of_jobs_are_read() -> None:
    job = a_job(1, priorityClassName="high")
    job["spec"]["activeDeadlineSeconds"] = 90
    job["spec"]["template"]["metadata"] = {}
    (pod,) = workload_of([job], ManifestDefaults(priorities={"high": 9})).pods
    assert pod.priority == 9
    assert pod.run_time is not None
    assert pod.run_time.bound_s == 90.0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (Changes(without_nodes=("gone",)), "there is no node gone"),
        (Changes(1, "gone"), "--like 'gone' is neither a node nor a kind of nodes"),
        (Changes(10**9, "n0"), "--add-nodes takes a number from 1 to 10000"),
        (Changes(queues=("team=weight=1",)), "there is no queue 'team'; there is none"),
        (Changes(priorities=("gone=1",)), "there is no pod default/gone"),
        (Changes(priorities=("waits=high",)), "a priority is a number from 0 on, not 'high'"),
    ],
)
def test_a_change_that_cannot_be_is_one_sentence(changes: Changes, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"^{sentence}"):
        ask(two_nodes(), changes)


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("- : :\n\t", "is not YAML"),
        ("just text", "no Kubernetes object: kind is missing"),
        ("kind: Service\nmetadata: {name: s}", "it has no pods"),
        ("kind: Job\nspec: {parallelism: -1}", "-1 is not a number of pods"),
        ("kind: Job\nspec: {parallelism: 1000000000, template: {}}", "more than 5000 pods"),
        ("kind: Job\nspec: nonsense", "'nonsense' is no object"),
        ("kind: Pod\nspec: {priorityClassName: gone}", "there is no PriorityClass gone"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, manifest: str, sentence: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(manifest)
    with pytest.raises(ConfigError, match=sentence) as raised:
        read_workload(file, ManifestDefaults())
    assert "\n" not in str(raised.value)


def test_a_job_of_another_scheduler_is_refused() -> None:
    work = workload_of([a_job(schedulerName="other")], ManifestDefaults())
    with pytest.raises(ConfigError, match="schedulerName is 'other', and this scheduler serves"):
        ask(two_nodes(), work=work)


def test_quantities_may_be_numbers_as_in_most_manifests(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  overhead: {cpu: 1}\n"
        "  containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4, cpu: 0.5}}}]\n"
    )
    (pod,) = read_workload(file, ManifestDefaults()).pods
    file.write_text(file.read_text().replace(": 4", ": '4'").replace(": 0.5", ": 500m"))
    (same,) = read_workload(file, ManifestDefaults()).pods
    assert not pod.problem
    assert pod.request == same.request


def test_each_team_is_shown_what_the_change_costs_it() -> None:
    answer = ask(two_nodes(), Changes(without_nodes=("n0",)))
    (found,) = what_if_view.as_json(answer)["teams"]
    assert (found["team"], found["later"], found["evicted"]) == ("namespace default", 1, 1)
    assert found["lostGpuHours"] == pytest.approx(4 * 600 / 3600, rel=0.02)
    # The one that is evicted starts again when the other node is free, after 1800 s. The one that
    # waits starts after its 1800 s, and not after 1200 s.
    delay_s = 1800 + (1800 + 1800 - 1200)
    assert found["delayGpuHours"] == pytest.approx(4 * delay_s / 3600, rel=0.02)


def test_costs_are_shown_by_team_if_there_are_several() -> None:
    pod = a_pod("also", gpus=4, run_time=RunTime(3600.0))
    other = PodSeen(replace(pod, namespace="other"))
    answer = ask([*two_nodes(), other], Changes(add_nodes=2, like="n0"))
    lines = text(answer).splitlines()
    assert "TEAM               EARLIER  LATER  EVICTED  DELAY_GPU_H  LOST_GPU_H" in lines
    assert any(line.split()[:4] == ["namespace", "other", "1", "0"] for line in lines)
    assert what_if_view.as_json(answer)["summary"]["gpusAfter"] == 16


def test_run_times_that_were_learned_count() -> None:
    """The pods declare nothing; what like units took is in what the scheduler keeps."""

    def pod(name: str, **more: Any) -> Pod:
        request = GpuRequest(4, whole=True, dialect=FAIRLEAD)
        return a_pod(name, gpu_request=request, controller="Job/train", **more)

    (node,) = equal_nodes(1, 4)
    history = RunHistory()
    teacher = Engine(plan(RunOptions()).profiles).run_times
    kind = teacher.kind_of(pod("train"))
    assert kind is not None
    for _ in range(10):
        history.learn(kind, 3600.0)
    shown: list[Event] = [
        NodeSeen(node),
        PodSeen(pod("train-0", node=node.name, started=ago(600))),
        PodSeen(pod("train-1")),
    ]
    assert ask(shown).before.units["default/train-1"].start_s is None
    answer = ask([RunTimesLoaded(run_dumps.dump(history)), *shown])
    assert answer.before.units["default/train-1"].start_s == pytest.approx(3000.0, abs=60.0)


def test_a_reservation_counts() -> None:
    now_s = time.time()
    advance = AdvanceReservation(
        "demo", now_s + 3600.0, now_s + 7200.0, gpus=4, namespaces=frozenset({"demo"})
    )
    shown: list[Event] = [NodeSeen(a_node("n", gpus=4)), AdvanceSeen(advance)]
    long = ask(shown, work=workload_of([a_job(4)], ManifestDefaults()))
    unit = long.after.units["default/train-0"]
    assert unit.start_s == pytest.approx(7200.0, abs=60.0)


@pytest.mark.parametrize(("gpus", "start_s"), [(2, 0.0), (3, 7200.0)])
def test_a_reservation_of_single_gpus_leaves_the_rest(gpus: int, start_s: float) -> None:
    now_s = time.time()
    advance = AdvanceReservation(
        "demo", now_s + 3600.0, now_s + 7200.0, gpus=2, gpus_per_node=2,
        namespaces=frozenset({"demo"}),
    )  # fmt: skip
    job = a_job(gpus)
    job["spec"]["template"]["metadata"]["annotations"]["fairlead.dev/run-time"] = "10h"
    shown: list[Event] = [NodeSeen(a_node("n", gpus=4)), AdvanceSeen(advance)]
    answer = ask(shown, work=workload_of([job], ManifestDefaults()))
    unit = answer.after.units["default/train-0"]
    assert unit.start_s == pytest.approx(start_s, abs=60.0)


def test_service_classes_count() -> None:
    """The unit that has less time left starts first, though it came later."""
    urgent = ServiceClass("urgent", wait_goal_s=120.0)
    patient = ServiceClass("patient", wait_goal_s=7200.0)
    planned = replace(plan(RunOptions()), service_classes=(urgent, patient))

    def waits(name: str) -> Event:
        said = {SERVICE_CLASS: name}
        return PodSeen(a_pod(name, gpus=4, queue="fairlead/team", run_time=RunTime(600.0),
                             annotations=said, created=ago(10)))  # fmt: skip

    shown: list[Event] = [
        NodeSeen(a_node("n", gpus=4)),
        QueueKindSeen("fairlead", is_served=True),
        QueueSeen(QueueSpec("fairlead/team", order=UnitOrder.SLACK)),
        PodSeen(a_pod("r", gpus=4, node="n", started=ago(60), run_time=RunTime(120.0))),
        waits("patient"),
        waits("urgent"),
    ]
    units = answered(WhatIfOptions(RunOptions()), planned, shown, NOTHING, "default").before.units
    first, second = (units[f"default/{name}"].start_s for name in ("urgent", "patient"))
    assert first is not None
    assert second is not None
    assert first < second


def test_extenders_that_are_not_asked_are_named(tmp_path: Path) -> None:
    """What they will say is not known, so the answer says that it is without them."""
    file = tmp_path / "config.yaml"
    concerned, other = "http://127.0.0.1:9/all", "http://127.0.0.1:9/dongles"
    file.write_text(f"""
extenders:
  - {{urlPrefix: {concerned}, filterVerb: filter}}
  - {{urlPrefix: {other}, filterVerb: filter, managedResources: [{{name: example.com/dongle}}]}}
profiles: [{{schedulerName: gpu-scheduler}}]
""")
    options = WhatIfOptions(RunOptions(config=file))
    answer = answered(options, plan(options.run), two_nodes(), NOTHING, "default")
    assert answer.not_asked == (concerned,)
    assert f"the extender {concerned} was not asked" in text(answer)
    assert what_if_view.as_json(answer)["extendersNotAsked"] == [concerned]


def a_gang(name: str) -> dict[str, Any]:
    words = {"fairlead.dev/gang": name, "fairlead.dev/gang-min": "2"}
    job = a_job(pods=2)
    job["spec"]["template"]["metadata"]["annotations"] |= words
    return job


def test_a_pod_that_waits_already_is_looked_at_as_one_more() -> None:
    there = [*two_nodes(), PodSeen(a_pod("train-0", gpus=2)), PodSeen(a_pod("train-0-2", gpus=2))]
    work = workload_of([a_job(pods=2)], ManifestDefaults())
    renamed = with_free_names(work, there)

    assert [pod.name for pod in renamed.pods] == ["train-0-3", "train-1"]
    assert len({pod.uid for pod in renamed.pods}) == 2
    assert effects(ask(there, work=renamed))["default/train-0-3"] == "new"


def test_a_gang_that_the_cluster_has_is_one_sentence() -> None:
    work = workload_of([a_gang("g")], ManifestDefaults())
    assert with_free_names(work, two_nodes()) == work

    with pytest.raises(ConfigError, match="the gang default/g is in the cluster already; "):
        with_free_names(work, [*two_nodes(), *work.events])
