"""The embedded server as a person meets it: through kubectl."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from fidelity.client import Connection
from fidelity.serving import programs, serving
from yaml_texts import yaml_of, yamls_of

pytestmark = pytest.mark.server


class Kubectl:
    """The real kubectl, pointed at the embedded server."""

    def __init__(self, program, kubeconfig, cache):
        self.program, self.kubeconfig = str(program), kubeconfig
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(cache),
        }
        self.api = Connection(kubeconfig)
        self._started = []

    def __call__(self, *arguments, stdin=None, fails=False):
        done = subprocess.run(
            [self.program, *arguments], env=self._environment, input=stdin, text=True,
            capture_output=True, timeout=180, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *arguments):
        started = subprocess.Popen(
            [self.program, *arguments], env=self._environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._started.append(started)
        return started

    def close(self):
        """Ends what a failed test has left running."""
        self.api.close()
        for started in self._started:
            if not started.stdout.closed:
                started.kill()
                started.communicate()

    def apply(self, *objects, **more):
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects), **more)

    def run_pod(self, name, node="node-1"):
        """Plays scheduler and kubelet: the pod is bound, runs and is ready."""
        path = f"/api/v1/namespaces/default/pods/{name}"
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        code, answer, _ = self.api.request("POST", f"{path}/binding", binding)
        assert code == 201, answer
        running = {"name": "main", "ready": True, "restartCount": 0, "image": "i", "imageID": ""}
        running["state"] = {"running": {}}
        status = {"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}], "podIP": "10.1.2.3",
                  "conditions": [{"type": "Ready", "status": "True"}],
                  "containerStatuses": [running]}  # fmt: skip
        merge = "application/merge-patch+json"
        code, answer, _ = self.api.request("PATCH", f"{path}/status", {"status": status}, merge)
        assert code == 200, answer

    def pods(self, selector=""):
        listed = json.loads(self("get", "pods", "-o", "json", "-l", selector))
        return [each["metadata"]["name"] for each in listed["items"]]


@pytest.fixture(scope="module")
def kubectl_program():
    return programs("kubectl") / "kubectl"


@pytest.fixture
def kubectl(kubectl_program, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    with serving(kubeconfig):
        client = Kubectl(kubectl_program, kubeconfig, tmp_path / "cache")
        with contextlib.closing(client):
            client.apply(a_node("node-1"), a_node("node-2"))
            yield client


def a_node(name):
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready],
              "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
              "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "Imagined Linux"}}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def a_pod(name="train", **metadata):
    container = {
        "name": "main",
        "image": "example.com/train:1",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata},
            "spec": {"containers": [container]}}  # fmt: skip


def a_deployment(name="web", replicas=2):
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def eventually(check, within_s=180):
    deadline = time.monotonic() + within_s
    while not (value := check()):
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)
    return value


def test_get_nodes_and_pods_wide(kubectl):
    kubectl.apply(a_pod())
    kubectl.run_pod("train")
    shown = kubectl("get", "nodes,pods", "-o", "wide")
    assert "node/node-1   Ready    <none>" in shown
    assert "Imagined Linux" in shown
    row = next(line for line in shown.splitlines() if line.startswith("pod/train"))
    assert row.split()[1:4] == ["1/1", "Running", "0"]
    assert row.split()[5:7] == ["10.1.2.3", "node-1"]


def test_describe_shows_why_a_pod_waits(kubectl):
    kubectl.apply(a_pod())
    uid = json.loads(kubectl("get", "pod", "train", "-o", "json"))["metadata"]["uid"]
    event = {
        "metadata": {"name": "train.1"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Warning", "reason": "FailedScheduling", "action": "Scheduling",
        "note": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
        "reportingController": "fairlead", "reportingInstance": "fairlead-1",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "train", "uid": uid},
    }  # fmt: skip
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert kubectl.api.request("POST", path, event)[0] == 201
    for shown in (kubectl("describe", "pod", "train"), kubectl("get", "events"), kubectl("events")):
        assert "FailedScheduling" in shown
        assert "2 Insufficient nvidia.com/gpu" in shown
    assert "fairlead" in kubectl("describe", "pod", "train")


def test_apply_again_changes_only_what_changed(kubectl):
    assert "created" in kubectl.apply(a_deployment())
    assert "unchanged" in kubectl.apply(a_deployment())
    assert "configured" in kubectl.apply(a_deployment(replicas=3))
    eventually(lambda: len(kubectl.pods("app=web")) == 3)


def test_apply_refuses_a_misspelt_field(kubectl):
    pod = a_pod()
    pod["spec"]["nodeNam"] = "x"
    assert 'unknown field "spec.nodeNam"' in kubectl.apply(pod, fails=True)
    assert "Warning: unknown field" in kubectl(
        "apply", "--validate=warn", "-f", "-", stdin=yaml.safe_dump(pod)
    )


def test_server_side_apply(kubectl):
    deployment = yaml.safe_dump(a_deployment())
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=deployment)
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=deployment)
    other = yaml.safe_dump(a_deployment(replicas=5))
    refused = kubectl(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other, fails=True
    )
    assert ".spec.replicas" in refused


def test_patch_label_annotate(kubectl):
    kubectl.apply(a_pod())
    kubectl("label", "pod", "train", "team=vision")
    kubectl("annotate", "pod", "train", "fairlead.dev/gpu-share=0.5")
    kubectl("patch", "pod", "train", "-p", '{"metadata":{"labels":{"more":"yes"}}}')
    kubectl(
        "patch",
        "pod",
        "train",
        "--type=json",
        "-p",
        '[{"op":"remove","path":"/metadata/labels/more"}]',
    )
    metadata = json.loads(kubectl("get", "pod", "train", "-o", "json"))["metadata"]
    assert metadata["labels"] == {"team": "vision"}
    assert metadata["annotations"]["fairlead.dev/gpu-share"] == "0.5"
    assert kubectl("get", "pods", "-l", "team=vision", "-o", "name").strip() == "pod/train"


def test_cordon_and_drain(kubectl):
    kubectl.apply(a_deployment(), a_pod("lone"))
    names = eventually(
        lambda: kubectl.pods("app=web") if len(kubectl.pods("app=web")) == 2 else None
    )
    for name in (*names, "lone"):
        kubectl.run_pod(name)
    kubectl("cordon", "node-1")
    assert "Ready,SchedulingDisabled" in kubectl("get", "nodes")
    drain = kubectl.start("drain", "node-1", "--force", "--ignore-daemonsets", "--timeout=300s")
    for name in (*names, "lone"):
        gone = f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"
        eventually(lambda name=name: "Terminating" in kubectl("get", "pod", name))
        kubectl.api.request("DELETE", gone)
    assert "drained" in drain.communicate(timeout=360)[0]
    eventually(lambda: len(kubectl.pods("app=web")) == 2)
    kubectl("uncordon", "node-1")
    assert "SchedulingDisabled" not in kubectl("get", "nodes")


def test_drain_respects_a_budget(kubectl):
    kubectl.apply(a_pod("held", labels={"app": "held"}))
    kubectl.run_pod("held")
    kubectl("create", "pdb", "guard", "--selector=app=held", "--min-available=1")
    eventually(
        lambda: (
            json.loads(kubectl("get", "pdb", "guard", "-o", "json"))["status"].get("currentHealthy")
            == 1
        )
    )
    drain = kubectl.start("drain", "node-1", "--force", "--timeout=300s")
    said = next(line for line in drain.stderr if "violate" in line)
    assert "violate the pod's disruption budget" in said
    drain.terminate()
    drain.communicate(timeout=120)
    assert kubectl.pods("app=held") == ["held"]


def test_wait_and_get_watch(kubectl):
    watch = kubectl.start("get", "pods", "-w", "--output-watch-events")
    kubectl.apply(a_pod())
    waiting = kubectl.start("wait", "pod/train", "--for=condition=Ready", "--timeout=300s")
    kubectl.run_pod("train")
    assert "condition met" in waiting.communicate(timeout=360)[0]
    events = [next(watch.stdout).split()[0] for _ in range(2)]  # the heading first
    gone = kubectl.start("wait", "pod/train", "--for=delete", "--timeout=300s", "-v=6")
    for line in gone.stderr:  # it has to see the pod before it can see it go
        if "watch=true" in line:
            break
    kubectl("delete", "pod", "train", "--grace-period=0", "--force")
    assert "condition met" in gone.communicate(timeout=360)[0]
    while events[-1] != "DELETED":
        events.append(next(watch.stdout).split()[0])
    watch.terminate()
    watch.communicate()
    assert events[1] == "ADDED"


def test_scale_and_rollout(kubectl):
    kubectl.apply(a_deployment(replicas=1))
    kubectl("scale", "deployment", "web", "--replicas=2")
    names = eventually(
        lambda: kubectl.pods("app=web") if len(kubectl.pods("app=web")) == 2 else None
    )
    rollout = kubectl.start("rollout", "status", "deployment/web", "--timeout=300s")
    for name in names:
        kubectl.run_pod(name)
    assert "successfully rolled out" in rollout.communicate(timeout=360)[0]
    kubectl("set", "image", "deployment/web", "main=web:2")
    eventually(lambda: len(kubectl.pods("app=web")) == 3)  # one more may run at a time
    assert "2" in kubectl("rollout", "history", "deployment/web")


def test_delete_takes_dependents_along(kubectl):
    kubectl.apply(a_deployment())
    eventually(lambda: len(kubectl.pods("app=web")) == 2)
    kubectl("delete", "deployment", "web")
    eventually(lambda: kubectl.pods("app=web") == [])
    assert "No resources found" in kubectl("get", "replicasets")


def test_orphans_stay(kubectl):
    kubectl.apply(a_deployment())
    eventually(lambda: len(kubectl.pods("app=web")) == 2)
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    time.sleep(0.3)
    assert len(kubectl.pods("app=web")) == 2


def test_typed_create_commands(kubectl):
    """These send protobuf."""
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "team")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b", "-n", "team")
    kubectl("create", "deployment", "d", "--image=x:1", "--replicas=3", "-n", "team")
    kubectl("create", "job", "j", "--image=x:1", "-n", "team", "--", "sleep", "1")
    kubectl("create", "priorityclass", "high", "--value=1000")
    kubectl("run", "r", "--image=x:1", "-n", "team")
    kubectl("expose", "deployment", "d", "--port=80", "-n", "team")
    assert json.loads(kubectl("get", "cm", "c", "-n", "team", "-o", "json"))["data"] == {"a": "b"}
    job = json.loads(kubectl("get", "job", "j", "-n", "team", "-o", "json"))
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["sleep", "1"]
    kubectl("delete", "namespace", "team", "--timeout=300s")
    assert "NotFound" in kubectl("get", "namespace", "team", fails=True)


def test_explain_and_api_resources(kubectl):
    assert "schedulerName" in kubectl("explain", "pod.spec")
    assert "<[]Toleration>" in kubectl("explain", "pod.spec.tolerations")
    listed = kubectl("api-resources", "-o", "wide")
    assert "deployments" in listed
    assert "apps/v1" in kubectl("api-versions")


def test_custom_resources(kubectl):
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"gpus": {"type": "integer"}}}},
    }
    column = {"name": "GPUs", "type": "integer", "jsonPath": ".spec.gpus"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
               "additionalPrinterColumns": [column]}  # fmt: skip
    names = {"plural": "gangs", "kind": "Gang", "shortNames": ["gg"]}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    kubectl.apply(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
         "metadata": {"name": "gangs.example.com"}, "spec": spec}
    )  # fmt: skip
    kubectl("wait", "--for=condition=Established", "crd/gangs.example.com", "--timeout=300s")
    kubectl.apply(
        {
            "apiVersion": "example.com/v1",
            "kind": "Gang",
            "metadata": {"name": "g"},
            "spec": {"gpus": 8},
        }
    )
    assert kubectl("get", "gg").splitlines()[1].split() == ["g", "8"]
    assert "gpus" in kubectl("explain", "gang.spec")
    kubectl("delete", "crd", "gangs.example.com")
    assert "could not find the requested resource" in kubectl("get", "gangs", fails=True)


def test_a_job_runs_to_completion(kubectl):
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x:1"}]}
    }
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    kubectl.apply(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    )
    selector = "batch.kubernetes.io/job-name=j"
    names = eventually(lambda: kubectl.pods(selector) if len(kubectl.pods(selector)) == 2 else None)
    done = kubectl.start("wait", "job/j", "--for=condition=Complete", "--timeout=300s")
    for name in names:
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        kubectl.api.request(
            "PATCH", path, {"status": {"phase": "Succeeded"}}, "application/merge-patch+json"
        )
    assert "condition met" in done.communicate(timeout=360)[0]
    assert kubectl("get", "job", "j").splitlines()[1].split()[1:3] == ["Complete", "2/2"]


def test_without_the_token_nothing_is_reachable(kubectl, tmp_path):
    document = yaml_of(kubectl.kubeconfig)
    document["users"][0]["user"]["token"] = "wrong"
    stolen = tmp_path / "stolen"
    stolen.write_text(yaml.safe_dump(document))
    refused = kubectl("--kubeconfig", str(stolen), "get", "pods", fails=True)
    assert "Unauthorized" in refused or "must be logged in" in refused


@pytest.mark.parametrize("manifest", ["inject-policy.yaml", "crds.yaml", "fairlead.yaml"])
def test_the_manifests_of_fairlead_are_taken(kubectl, manifest):
    file = Path(__file__).parents[2] / "deploy" / manifest
    count = len(yamls_of(file))

    said = kubectl("apply", "-f", str(file))
    assert said.count(" created\n") == count, said
    assert ("the embedded server runs no policies" in said) == ("crds" not in manifest)
    kubectl("apply", "-f", str(file))
    kubectl("delete", "--ignore-not-found", "-f", str(file))
