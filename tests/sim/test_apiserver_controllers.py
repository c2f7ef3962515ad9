"""The small controllers: pods made, counted, replaced and taken away."""

import asyncio
import contextlib
import time

import pytest

from fairlead.sim.apiserver import EmbeddedServer
from fairlead.sim.apiserver.bodies import typed
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.controllers import events
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.deleting import delete
from fairlead.sim.apiserver.updating import modify

LABELS = {"app": "x"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}


class Scene:
    """A running server, used without HTTP."""

    def __init__(self, api):
        self.api = api

    async def make(self, resource, name, namespace="default", **more):
        kind = self.api.kinds.plural(resource)
        obj = typed({"metadata": {"name": name, **more.pop("metadata", {})}, **more}, kind)
        await create(self.api, Call(kind, namespace if kind.namespaced else ""), obj)

    async def change(self, resource, name, change, subresource="", namespace="default"):
        kind = self.api.kinds.plural(resource)
        call = Call(kind, namespace if kind.namespaced else "", name, subresource)
        await modify(self.api, call, lambda old: {**old, **change(old)})

    async def delete(self, resource, name, namespace="default", **options):
        kind = self.api.kinds.plural(resource)
        await delete(self.api, Call(kind, namespace if kind.namespaced else "", name), options)

    def get(self, resource, key):
        return self.api.find(resource, key)

    def pods(self):
        entries = self.api.store.collection("pods").entries
        return [entries[key].object() for key in sorted(entries)]

    def names(self):
        return [pod["metadata"]["name"] for pod in self.pods()]

    async def set_phase(self, name, phase, ready=False):
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": phase, "conditions": conditions}
        await self.change("pods", name, lambda old: {"status": status}, "status")

    async def run(self, *names):
        for name in names or self.names():
            await self.set_phase(name, "Running", ready=True)

    async def until(self, check, within_s=60):
        deadline = time.monotonic() + within_s
        while not check():
            assert time.monotonic() < deadline, f"it never became so; pods: {self.names()}"
            await asyncio.sleep(0.01)


@pytest.fixture
async def scene():
    async with EmbeddedServer.start() as server:
        yield Scene(server.api)


def workload(**spec):
    return {"spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, **spec}}


def job(**spec):
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    return {"spec": {"template": template, **spec}}


async def test_a_replica_set_keeps_its_number(scene):
    await scene.make("replicasets.apps", "r", **workload(replicas=3))
    await scene.until(lambda: len(scene.pods()) == 3)
    owner = scene.pods()[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "r", True)
    await scene.delete("pods", scene.names()[0])
    await scene.until(lambda: len(scene.pods()) == 3)
    await scene.set_phase(scene.names()[0], "Failed")
    await scene.until(lambda: len(scene.pods()) == 4)


async def test_scaling_down_takes_the_unassigned_first(scene):
    await scene.make("replicasets.apps", "r", **workload(replicas=3))
    await scene.until(lambda: len(scene.pods()) == 3)
    kept = scene.names()[1]
    await scene.change("pods", kept, lambda old: {})
    entry = scene.get("pods", f"default/{kept}")
    entry["spec"]["nodeName"] = "n"
    scene.api.store.put(scene.api.kinds.plural("pods"), f"default/{kept}", entry)
    await scene.change(
        "replicasets.apps", "r", lambda old: {"spec": {**old["spec"], "replicas": 1}}
    )
    await scene.until(lambda: scene.names() == [kept])


async def test_a_deployment_rolls(scene):
    await scene.make("deployments.apps", "d", **workload(replicas=4))
    await scene.until(lambda: len(scene.pods()) == 4)
    old = set(scene.names())
    await scene.run()
    await scene.until(
        lambda: scene.get("deployments.apps", "default/d")["status"].get("availableReplicas") == 4
    )

    def new_image(obj):
        template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "x:2"}]}}
        return {"spec": {**obj["spec"], "template": template}}

    await scene.change("deployments.apps", "d", new_image)
    deadline = time.monotonic() + 60
    while old & set(scene.names()):
        assert time.monotonic() < deadline
        assert len(scene.pods()) <= 5  # a surge of a quarter
        ready = [
            p
            for p in scene.pods()
            if any(c["status"] == "True" for c in p["status"].get("conditions", []))
        ]
        assert len(ready) >= 3  # and a quarter may be missing
        await scene.run(*(set(scene.names()) - old))
        await asyncio.sleep(0.02)
    await scene.until(lambda: len(scene.pods()) == 4)
    sets = scene.api.store.collection("replicasets.apps").entries
    assert len(sets) == 2


async def test_a_stateful_set_goes_in_order(scene):
    await scene.make("statefulsets.apps", "s", **workload(replicas=3))
    await scene.until(lambda: scene.names() == ["s-0"])
    await asyncio.sleep(0.1)
    assert scene.names() == ["s-0"]
    await scene.run("s-0")
    await scene.until(lambda: scene.names() == ["s-0", "s-1"])
    labels = scene.pods()[1]["metadata"]["labels"]
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["statefulset.kubernetes.io/pod-name"] == "s-1"
    await scene.run("s-1")
    await scene.until(lambda: scene.names() == ["s-0", "s-1", "s-2"])
    await scene.delete("pods", "s-1")
    await scene.until(lambda: scene.get("pods", "default/s-1") is not None)


async def test_a_parallel_stateful_set_goes_at_once(scene):
    await scene.make(
        "statefulsets.apps", "s", **workload(replicas=3, podManagementPolicy="Parallel")
    )
    await scene.until(lambda: scene.names() == ["s-0", "s-1", "s-2"])
    await scene.change(
        "statefulsets.apps", "s", lambda old: {"spec": {**old["spec"], "replicas": 1}}
    )
    await scene.until(lambda: scene.names() == ["s-0"])


async def test_a_stateful_set_claims_volumes(scene):
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await scene.make("statefulsets.apps", "s", **workload(replicas=1, volumeClaimTemplates=[claim]))
    await scene.until(lambda: scene.names() == ["s-0"])
    assert scene.get("persistentvolumeclaims", "default/data-s-0") is not None
    assert scene.pods()[0]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-s-0"


async def test_an_indexed_job_runs_every_index_once(scene):
    await scene.make(
        "jobs.batch", "j", **job(completions=4, parallelism=2, completionMode="Indexed")
    )
    seen, deadline = set(), time.monotonic() + 60
    while not scene.get("jobs.batch", "default/j").get("status", {}).get("conditions"):
        assert time.monotonic() < deadline, f"it never ended; pods: {scene.names()}"
        for pod in scene.pods():
            if pod["status"]["phase"] == "Pending":
                seen.add(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
                assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
                await scene.set_phase(pod["metadata"]["name"], "Succeeded")
        await asyncio.sleep(0.02)
    status = scene.get("jobs.batch", "default/j")["status"]
    assert seen == {"0", "1", "2", "3"}
    assert (status["succeeded"], status["completedIndexes"]) == (4, "0-3")
    assert status["conditions"][-1]["type"] == "Complete"
    assert "active" not in status


async def test_a_job_gives_up(scene):
    await scene.make("jobs.batch", "j", **job(backoffLimit=1))
    for _ in range(2):
        await scene.until(lambda: any(pod["status"]["phase"] == "Pending" for pod in scene.pods()))
        for pod in scene.pods():
            if pod["status"]["phase"] == "Pending":
                await scene.set_phase(pod["metadata"]["name"], "Failed")
    await scene.until(lambda: "conditions" in scene.get("jobs.batch", "default/j")["status"])
    condition = scene.get("jobs.batch", "default/j")["status"]["conditions"][-1]
    assert (condition["type"], condition["reason"]) == ("Failed", "BackoffLimitExceeded")


async def test_a_suspended_job_has_no_pods(scene):
    await scene.make("jobs.batch", "j", **job(suspend=True))
    await asyncio.sleep(0.1)
    assert scene.pods() == []
    await scene.change("jobs.batch", "j", lambda old: {"spec": {**old["spec"], "suspend": False}})
    await scene.until(lambda: len(scene.pods()) == 1)


async def test_a_finished_job_is_cleaned_up(scene):
    await scene.make("jobs.batch", "j", **job(ttlSecondsAfterFinished=0))
    await scene.until(lambda: len(scene.pods()) == 1)
    await scene.set_phase(scene.names()[0], "Succeeded")
    await scene.until(lambda: scene.get("jobs.batch", "default/j") is None)
    await scene.until(lambda: scene.pods() == [])


async def test_a_daemon_set_has_a_pod_on_every_node_it_chooses(scene):
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"gpu": "yes"}}}
    for number in range(3):
        await scene.make(
            "nodes", f"n-{number}", metadata={"labels": {"gpu": "yes" if number else "no"}}
        )
    await scene.make("daemonsets.apps", "d", **workload(template=template))
    await scene.until(lambda: len(scene.pods()) == 2)
    await scene.make("nodes", "n-9", metadata={"labels": {"gpu": "yes"}})
    await scene.until(lambda: len(scene.pods()) == 3)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_dependents_go_with_their_owner(scene, policy):
    await scene.make("deployments.apps", "d", **workload(replicas=2))
    await scene.until(lambda: len(scene.pods()) == 2)
    await scene.delete("deployments.apps", "d", propagationPolicy=policy)
    await scene.until(lambda: scene.pods() == [])
    await scene.until(lambda: scene.get("deployments.apps", "default/d") is None)
    assert not scene.api.store.collection("replicasets.apps").entries


async def test_orphans_lose_their_owner(scene):
    await scene.make("replicasets.apps", "r", **workload(replicas=1))
    await scene.until(lambda: len(scene.pods()) == 1)
    await scene.delete("replicasets.apps", "r", propagationPolicy="Orphan")
    await scene.until(lambda: scene.get("replicasets.apps", "default/r") is None)
    assert "ownerReferences" not in scene.pods()[0]["metadata"]


async def test_a_namespace_is_emptied_then_goes(scene):
    await scene.make("namespaces", "team")
    await scene.make("configmaps", "c", "team", metadata={"finalizers": ["example.com/hold"]})
    await scene.make("replicasets.apps", "r", "team", **workload(replicas=2))
    await scene.until(lambda: len(scene.pods()) == 2)
    await scene.delete("namespaces", "team")
    await scene.until(lambda: scene.pods() == [])
    assert scene.get("namespaces", "team")["status"]["phase"] == "Terminating"
    metadata = scene.get("configmaps", "team/c")["metadata"]
    await scene.change(
        "configmaps",
        "c",
        lambda old: {"metadata": {**metadata, "finalizers": []}},
        namespace="team",
    )
    await scene.until(lambda: scene.get("namespaces", "team") is None)


async def test_a_budget_counts(scene):
    await scene.make("replicasets.apps", "r", **workload(replicas=3))
    await scene.make(
        "poddisruptionbudgets.policy",
        "b",
        spec={"minAvailable": 2, "selector": {"matchLabels": LABELS}},
    )
    await scene.until(lambda: len(scene.pods()) == 3)
    await scene.run()
    await scene.until(
        lambda: (
            scene.get("poddisruptionbudgets.policy", "default/b")["status"]["disruptionsAllowed"]
            == 1
        )
    )


async def test_a_node_that_is_not_ready_is_tainted_and_emptied(scene):
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await scene.make("nodes", "n", status=ready)
    await scene.until(lambda: not scene.get("nodes", "n")["spec"].get("taints"))
    brief = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0,
    }
    await scene.make(
        "pods", "p", spec={**TEMPLATE["spec"], "nodeName": "n", "tolerations": [brief]}
    )
    broken = {"conditions": [{"type": "Ready", "status": "False"}]}
    await scene.change("nodes", "n", lambda old: {"status": {**old["status"], **broken}}, "status")
    await scene.until(lambda: len(scene.get("nodes", "n")["spec"].get("taints", [])) == 2)
    await scene.until(lambda: bool(scene.pods()[0]["metadata"].get("deletionTimestamp")))


async def test_events_are_forgotten_after_their_time(monkeypatch):
    monkeypatch.setattr(events.EventController, "kept_s", 0.2)  # an hour is too long for a test
    async with EmbeddedServer.start() as server:
        scene = Scene(server.api)
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        await scene.make("events", "e", involvedObject=about)
        assert scene.get("events", "default/e") is not None
        await scene.until(lambda: scene.get("events", "default/e") is None)


async def test_a_refused_pod_is_tried_again(scene):
    await scene.make("namespaces", "team")
    with contextlib.suppress(Exception):
        await scene.make("replicasets.apps", "r", "team", **workload(replicas=1, template={
            **TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": "later"}}))  # fmt: skip
    await asyncio.sleep(0.2)
    assert scene.pods() == []
    await scene.make("priorityclasses.scheduling.k8s.io", "later", value=5)
    await scene.until(lambda: len(scene.pods()) == 1)
