"""Pods: defaults, rules, deletion with grace; and the binding."""

# A table: a case reads best on few lines.
# ruff: noqa: E501

from fidelity.objects import binding, containers, node, pod
from fidelity.script import case, delete, get, hidden, merge, post, put, strategic, until

# A delete tries the version in the server's watch cache first. While that version has no node, the grace period
# becomes 0 and stays 0 when the delete is tried again with the current version: wait until the cache has the bind.
_BOUND = (
    hidden(post("pods", pod())),
    hidden(post("pods/p/binding", binding())),
    hidden(get("pods/p", save={"bound": "metadata.resourceVersion"})),
    until("pods/p?resourceVersion=<bound>"),
)
GPU = "nvidia.com/gpu"

CASES = [
    case("a pod gets its defaults", post("pods", pod())),
    case("limits become requests", post("pods", pod(spec=containers({"cpu": "500m", GPU: 2})), only=("spec.containers", "status"))),
    case("quantities are canonical", post("pods", pod(spec=containers(requests={
        "cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "1500M"})), only=("spec.containers",))),
    case("quantities: exponents, fractions, large", post("pods", pod(spec=containers(requests={
        "cpu": "0.5", "memory": "1e3", "ephemeral-storage": "12e6"})), only=("spec.containers",))),
    case("guaranteed", post("pods", pod(spec=containers({"cpu": "1", "memory": "1Gi"})), only=("status",))),
    case("an image without a tag is pulled always", post("pods", pod(spec={"containers": [
        {"name": "a", "image": "x"}, {"name": "b", "image": "x:latest"}, {"name": "c", "image": "h:5000/x"}]}),
        only=("spec.containers",))),
    case("volumes, probes, ports and env get defaults", post("pods", pod(spec={
        "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "e"}],
        "containers": [{"name": "a", "image": "x:1", "ports": [{"containerPort": 80}],
                        "livenessProbe": {"httpGet": {"port": 80}},
                        "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}),
        only=("spec.containers", "spec.volumes"))),
    case("a pod takes its priority from a class", post("pods", pod(spec=containers(priorityClassName="system-node-critical")),
                                 only=("spec.priority", "spec.preemptionPolicy", "code", "message"))),
    case("an unknown priority class", post("pods", pod(spec=containers(priorityClassName="absent")))),
    case("a priority of one's own", post("pods", pod(spec=containers(priority=7)))),
    case("scheduling gates", post("pods", pod(spec=containers(schedulingGates=[{"name": "example.com/g"}])), only=("spec.schedulingGates", "status"))),
    case("a gate is removed", hidden(post("pods", pod(spec=containers(schedulingGates=[{"name": "example.com/g"}])))),
         merge("pods/p", {"spec": {"schedulingGates": None}}, only=("spec.schedulingGates", "status", "metadata.generation"))),
    case("a gate cannot be added", hidden(post("pods", pod())),
         merge("pods/p", {"spec": {"schedulingGates": [{"name": "example.com/g"}]}}, only=("code", "reason"))),
    case("the group of a pod is dropped", post("pods", pod(spec=containers(schedulingGroup={"podGroupName": "g"})), only=("code", "spec.schedulingGroup"))),
    case("own tolerations stay", post("pods", pod(spec=containers(tolerations=[
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}])), only=("spec.tolerations",))),
    case("no containers", post("pods", pod(spec={"containers": []}))),
    case("a container without a name and an image", post("pods", pod(spec={"containers": [{}]}))),
    case("two containers of one name", post("pods", pod(spec={"containers": [
        {"name": "a", "image": "x:1"}, {"name": "a", "image": "x:1"}]}))),
    case("a container name in capitals", post("pods", pod(spec={"containers": [{"name": "A", "image": "x:1"}]}))),
    case("a negative quantity", post("pods", pod(spec=containers(requests={"cpu": "-1"})))),
    case("a request above its limit", post("pods", pod(spec=containers({"cpu": "1"}, {"cpu": "2"})))),
    case("half a GPU", post("pods", pod(spec=containers({GPU: "500m"})))),
    case("GPUs requested without a limit", post("pods", pod(spec=containers(requests={GPU: "1"})))),
    case("GPUs requested unlike the limit", post("pods", pod(spec=containers({GPU: "2"}, {GPU: "1"})))),
    case("a quantity that is none", post("pods", pod(spec=containers(requests={"cpu": "many"})), only=("code", "reason"))),
    case("a restart policy that is none", post("pods", pod(spec=containers(restartPolicy="Sometimes")))),
    case("a toleration without a key", post("pods", pod(spec=containers(tolerations=[{"value": "x"}])))),
    case("a mount without its volume", post("pods", pod(spec={"containers": [
        {"name": "a", "image": "x:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}))),
    case("a status given at creation is dropped", post("pods", pod(status={"phase": "Running"}), only=("status",))),
    case("the image may change", hidden(post("pods", pod())),
         strategic("pods/p", {"spec": {"containers": [{"name": "c", "image": "x:2"}]}}, only=("spec.containers", "metadata.generation"))),
    case("the scheduler may not change", hidden(post("pods", pod())),
         merge("pods/p", {"spec": {"schedulerName": "other"}}, only=("code", "reason"))),
    case("the node may not be set by an update", hidden(post("pods", pod())),
         merge("pods/p", {"spec": {"nodeName": "n"}}, only=("code", "reason"))),
    case("a toleration may be added", hidden(post("pods", pod())),
         strategic("pods/p", {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}, only=("code", "reason"))),
    case("replace a pod's status", hidden(post("pods", pod(), save={"uid": "metadata.uid"})),
         put("pods/p/status", {**pod(), "status": {"phase": "Running", "podIP": "10.0.0.1"}}, only=("status", "spec.schedulerName"))),
    # Deletion
    case("delete an unscheduled pod", hidden(post("pods", pod())), delete("pods/p"), get("pods/p")),
    case("delete a bound pod waits for the kubelet", *_BOUND, delete("pods/p", only=("metadata", "kind")), get("pods/p", only=("metadata",)),
         delete("pods/p", {"gracePeriodSeconds": 0}, only=("metadata", "kind")), get("pods/p")),
    case("a shorter grace", *_BOUND, hidden(delete("pods/p")), delete("pods/p", {"gracePeriodSeconds": 5}, only=("metadata",)),
         delete("pods/p", {"gracePeriodSeconds": 20}, only=("metadata",))),
    case("a negative grace", *_BOUND, delete("pods/p", {"gracePeriodSeconds": -3}, only=("metadata",))),
    case("a pod that has ended goes at once", *_BOUND, hidden(merge("pods/p/status", {"status": {"phase": "Succeeded"}})),
         delete("pods/p", only=("metadata",)), get("pods/p")),
    case("grace in the query", *_BOUND, delete("pods/p?gracePeriodSeconds=0", only=("metadata",)), get("pods/p")),
    case("a pod with a finalizer", hidden(post("pods", pod(finalizers=["example.com/hold"]))), delete("pods/p", only=("metadata",)),
         get("pods/p", only=("metadata",)), merge("pods/p", {"metadata": {"finalizers": None}}, only=("metadata",)), get("pods/p")),
    # Binding
    case("bind", hidden(post("pods", pod())), post("pods/p/binding", binding()), get("pods/p")),
    case("bind twice", *_BOUND, post("pods/p/binding", binding()), post("pods/p/binding", binding(node="m"))),
    case("bind with annotations", hidden(post("pods", pod(annotations={"a": "old", "b": "kept"}))),
         post("pods/p/binding", binding(annotations={"a": "new", "example.com/gpus": "0,1"})), get("pods/p", only=("metadata", "spec.nodeName"))),
    case("bind with the right uid", hidden(post("pods", pod(), save={"uid": "metadata.uid"})), post("pods/p/binding", binding(uid="<uid>"))),
    case("bind with the wrong uid", hidden(post("pods", pod())),
         post("pods/p/binding", binding(uid="11111111-1111-1111-1111-111111111111")), get("pods/p", only=("spec.nodeName",))),
    case("bind with the right version", hidden(post("pods", pod(), save={"rv": "metadata.resourceVersion"})),
         post("pods/p/binding", binding(resourceVersion="<rv>"))),
    case("bind with an old version", hidden(post("pods", pod(), save={"rv": "metadata.resourceVersion"})),
         hidden(merge("pods/p", {"metadata": {"labels": {"x": "y"}}})), post("pods/p/binding", binding(resourceVersion="<rv>"))),
    case("bind a pod that is not there", post("pods/p/binding", binding())),
    case("bind under another name", hidden(post("pods", pod())), post("pods/p/binding", binding(name="q"))),
    case("bind in another namespace", hidden(post("pods", pod())), post("pods/p/binding", binding(namespace="other"))),
    case("bind without a target", hidden(post("pods", pod())), post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": ""}})),
    case("bind to something that is no node", hidden(post("pods", pod())),
         post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Shelf", "name": "n"}})),
    case("bind a pod with gates", hidden(post("pods", pod(spec=containers(schedulingGates=[{"name": "example.com/g"}])))),
         post("pods/p/binding", binding())),
    case("bind a pod that is being deleted", hidden(post("pods", pod(finalizers=["example.com/hold"]))), hidden(delete("pods/p")),
         post("pods/p/binding", binding())),
    case("bind with an illegal annotation key is accepted and wedges the pod", hidden(post("pods", pod())),
         post("pods/p/binding", binding(annotations={"not a key!": "x"})), get("pods/p", only=("metadata.annotations",)),
         merge("pods/p/status", {"status": {"phase": "Running"}})),
    case("bind with 300 KiB of annotations is accepted and wedges the pod", hidden(post("pods", pod())),
         post("pods/p/binding", binding(annotations={"a": "x" * 307200})),
         merge("pods/p/status", {"status": {"phase": "Running"}}, only=("code", "reason", "details.causes"))),
    case("two pods with the same device are both bound", hidden(post("pods", pod())), hidden(post("pods", pod("q"))),
         post("pods/p/binding", binding(annotations={"example.com/gpus": "0"})), post("pods/q/binding", binding("q", annotations={"example.com/gpus": "0"}))),
    case("bind sets PodScheduled and clears the nomination", hidden(post("pods", pod())),
         hidden(merge("pods/p/status", {"status": {"nominatedNodeName": "m", "conditions": [
             {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]}})),
         post("pods/p/binding", binding()), get("pods/p", only=("status", "metadata.generation"))),
    case("bind copies topology labels", hidden(post("/api/v1/nodes", node("<ns>-n", metadata={"labels": {
        "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"}}))),
         hidden(post("pods", pod())), post("pods/p/binding", binding(node="<ns>-n")), get("pods/p", only=("metadata.labels",)),
         hidden(delete("/api/v1/nodes/<ns>-n"))),
    case("bind without a kind copies no labels", hidden(post("/api/v1/nodes", node("<ns>-n", metadata={"labels": {
        "topology.kubernetes.io/zone": "z"}}))), hidden(post("pods", pod())),
         post("pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": "<ns>-n"}}), get("pods/p", only=("metadata.labels",)),
         hidden(delete("/api/v1/nodes/<ns>-n"))),
    case("bind by the old resource", hidden(post("pods", pod())), post("bindings", binding()), get("pods/p", only=("spec.nodeName",))),
    case("bind, dry", hidden(post("pods", pod())), post("pods/p/binding?dryRun=All", binding()), get("pods/p", only=("spec.nodeName",))),
    case("GET on binding", hidden(post("pods", pod())), get("pods/p/binding")),
    # Eviction
    case("evict", *_BOUND, post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
         get("pods/p", only=("metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds"))),
    case("evict what is not there", post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}})),
    case("a budget holds a running pod", hidden(post("pods", pod(labels={"app": "x"}))), hidden(post("pods/p/binding", binding())),
         hidden(merge("pods/p/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})),
         post("policy/v1:poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}),
         hidden(merge("policy/v1:poddisruptionbudgets/b/status", {"status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1,
                "disruptionsAllowed": 0, "expectedPods": 1}})),
         post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}})),
    case("a budget lets one go", hidden(post("pods", pod(labels={"app": "x"}))), hidden(post("pods/p/binding", binding())),
         hidden(merge("pods/p/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})),
         hidden(post("policy/v1:poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}})),
         hidden(merge("policy/v1:poddisruptionbudgets/b/status", {"status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 2,
                "disruptionsAllowed": 1, "expectedPods": 2}})),
         post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
         get("policy/v1:poddisruptionbudgets/b", only=("status",))),
]  # fmt: skip
