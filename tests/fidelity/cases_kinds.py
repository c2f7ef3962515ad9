"""Kinds with rules of their own: workloads, leases, events, nodes, namespaces, definitions."""

# A table: a case reads best on few lines.
# ruff: noqa: E501

from fidelity.objects import containers, deployment, event, job, lease, node
from fidelity.script import (
    TABLE,
    Step,
    case,
    delete,
    get,
    hidden,
    merge,
    post,
    put,
    seen,
    strategic,
    until,
    watch,
)

_DEPLOYMENTS, _JOBS, _LEASES = (
    "apps/v1:deployments",
    "batch/v1:jobs",
    "coordination.k8s.io/v1:leases",
)
_STS = "apps/v1:statefulsets"
_EVENTS = "events.k8s.io/v1:events"
_NODE = "/api/v1/nodes/<ns>-n"
_QUANTITIES = (
    "0", "0.1", "1.5", "1500m", "1000m", "100Ki", "1025Mi", "1048576Ki", "1.5Gi", "0.5Ki", "1e3", "1E3", "1E", "12e-3",
    "1000000", "1234567", "500u", "1500000u", "7n", "0.0000000001", "123456789012345678", "+5", "1.", ".5", "1k", "2000k", "1024", "3Ti",
)  # fmt: skip
_MEASURED = {"containers": [
    {"name": f"q{index}", "image": "x:1", "resources": {"requests": {"cpu": text}}} for index, text in enumerate(_QUANTITIES)
]}  # fmt: skip
_TAINTED = hidden(post("/api/v1/nodes", node("<ns>-n")))
_PC = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group, **version):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }  # fmt: skip


def widget(name="w", group="<ns>.example.com", **more):
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, **more}


_SERVED = (
    hidden(post(_CRD, definition("<ns>.example.com"))), until("<ns>.example.com/v1:widgets"),
)  # fmt: skip
_WITH_STATUS = (
    hidden(post(_CRD, definition("<ns>.example.com", subresources={"status": {}}))),
    until("<ns>.example.com/v1:widgets"),
)
_GONE = hidden(delete(f"{_CRD}/widgets.<ns>.example.com"))
_W = "<ns>.example.com/v1:widgets"

CASES = [
    case("a deployment gets its defaults", post(_DEPLOYMENTS, deployment())),
    case("a deployment whose selector does not match", post(_DEPLOYMENTS, deployment(selector={"app": "y"}))),
    case("a deployment without a selector", post(_DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"template": {
        "metadata": {"labels": {"a": "b"}}, "spec": containers()}}})),
    case("a deployment with fewer than no replicas", post(_DEPLOYMENTS, deployment(replicas=-1))),
    case("a deployment's selector stays", hidden(post(_DEPLOYMENTS, deployment())),
         merge(f"{_DEPLOYMENTS}/d", {"spec": {"selector": {"matchLabels": {"app": "z"}}, "template": {"metadata": {"labels": {"app": "z"}}}}},
               only=("code", "reason", "message"))),
    case("a deployment's generation grows with its spec", hidden(post(_DEPLOYMENTS, deployment())),
         merge(f"{_DEPLOYMENTS}/d", {"metadata": {"labels": {"a": "b"}}}, only=("metadata.generation",)),
         merge(f"{_DEPLOYMENTS}/d", {"spec": {"replicas": 3}}, only=("metadata.generation",)),
         merge(f"{_DEPLOYMENTS}/d/status", {"status": {"replicas": 3}}, only=("metadata.generation", "status"))),
    case("read the scale", hidden(post(_DEPLOYMENTS, deployment(replicas=2))), get(f"{_DEPLOYMENTS}/d/scale")),
    case("patch the scale", hidden(post(_DEPLOYMENTS, deployment())), merge(f"{_DEPLOYMENTS}/d/scale", {"spec": {"replicas": 4}}),
         get(f"{_DEPLOYMENTS}/d", only=("spec.replicas", "metadata.generation"))),
    case("replace the scale", hidden(post(_DEPLOYMENTS, deployment())), put(f"{_DEPLOYMENTS}/d/scale", {
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "<ns>"}, "spec": {"replicas": 0}})),
    case("scale below zero", hidden(post(_DEPLOYMENTS, deployment())), merge(f"{_DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, only=("code", "reason"))),
    case("a replica set", post("apps/v1:replicasets", deployment())),
    case("a stateful set gets its defaults", post(_STS, deployment("s", serviceName="svc"))),
    case("a stateful set's service stays", hidden(post(_STS, deployment("s", serviceName="svc"))),
         merge(f"{_STS}/s", {"spec": {"serviceName": "other"}})),
    case("a daemon set gets its defaults", post("apps/v1:daemonsets", deployment())),
    case("a job gets its defaults", post(_JOBS, job())),
    case("an indexed job", post(_JOBS, job(completionMode="Indexed", completions=3, parallelism=2), only=("spec.completions", "spec.parallelism", "spec.completionMode"))),
    case("an indexed job without completions", post(_JOBS, job(completionMode="Indexed"), only=("spec.completions", "code", "message"))),
    case("a job that restarts always", post(_JOBS, job(policy="Always"))),
    case("a job's template stays", hidden(post(_JOBS, job())), strategic(f"{_JOBS}/j", {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "other"}]}}}}, only=("code", "reason"))),
    case("a lease", post(_LEASES, lease()), get(f"{_LEASES}/l")),
    case("a lease by PUT where there is none", put(f"{_LEASES}/l", lease())),
    case("a lease by PUT without a version", hidden(post(_LEASES, lease())), put(f"{_LEASES}/l", lease(holderIdentity="you"))),
    case("a lease by PUT with its version", hidden(post(_LEASES, lease(), save={"rv": "metadata.resourceVersion"})),
         put(f"{_LEASES}/l", {"metadata": {"name": "l", "resourceVersion": "<rv>"}, "spec": {"holderIdentity": "you", "leaseDurationSeconds": 9,
             "renewTime": "2026-01-01T00:00:00.123456Z"}}, only=("spec",)),
         put(f"{_LEASES}/l", {"metadata": {"name": "l", "resourceVersion": "<rv>"}, "spec": {"holderIdentity": "third"}})),
    case("a lease of no length", post(_LEASES, lease(leaseDurationSeconds=0))),
    case("an event", post("events", event()), get("events/e")),
    case("an event in the wrong namespace", post("events", {**event(), "involvedObject": {"kind": "Pod", "namespace": "other", "name": "p"}})),
    case("an event about a node", post("/api/v1/namespaces/default/events", {**event("<ns>"), "involvedObject": {"kind": "Node", "name": "n"}}),
         hidden(delete("/api/v1/namespaces/default/events/<ns>"))),
    case("an event of the old group in the new", hidden(post("events", event(source={"component": "x"}, count=2))), get(f"{_EVENTS}/e")),
    case("an event of the new group in the old", post(_EVENTS, {
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "example.com/s",
        "reportingInstance": "s-1", "action": "Binding", "reason": "Scheduled", "type": "Normal", "note": "hello",
        "regarding": {"kind": "Pod", "namespace": "<ns>", "name": "p"}}), get("events/e")),
    case("an event of the new group that lacks all", post(_EVENTS, {"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000001Z",
        "regarding": {"kind": "Pod", "namespace": "<ns>", "name": "p"}}, only=("code", "reason"))),
    case("an event is patched", hidden(post("events", event(count=1))), strategic("events/e", {"count": 2}, only=("count",))),
    case("a node", post("/api/v1/nodes", node("<ns>-n", status={"capacity": {"cpu": "8", "memory": "65536Ki"}})), hidden(delete(_NODE))),
    case("quantities of every form", post("pods", {"metadata": {"name": "p"}, "spec": _MEASURED}, only=("code", "message", "spec.containers", "status.qosClass"))),
    case("a node is cordoned", _TAINTED, strategic(_NODE, {"spec": {"unschedulable": True}}, only=("spec",)),
         strategic(_NODE, {"spec": {"unschedulable": None}}, only=("spec",)), hidden(delete(_NODE))),
    case("a node's taints are replaced", _TAINTED, strategic(_NODE, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, only=("spec",)),
         strategic(_NODE, {"spec": {"taints": [{"key": "b", "value": "v", "effect": "NoExecute"}]}}, only=("spec",)), hidden(delete(_NODE))),
    case("a taint of no effect", _TAINTED, merge(_NODE, {"spec": {"taints": [{"key": "a", "effect": "Whatever"}]}}, only=("code", "reason")), hidden(delete(_NODE))),
    case("a node's status", _TAINTED, strategic(f"{_NODE}/status", {"status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [
        {"type": "Ready", "status": "True", "reason": "Ok", "message": "m"}]}}, only=("status",)), hidden(delete(_NODE))),
    case("a node's status is not set through the node", _TAINTED, merge(_NODE, {"status": {"allocatable": {"cpu": "1"}}}, only=("status.allocatable",)), hidden(delete(_NODE))),
    case("a node as a table", hidden(post("/api/v1/nodes", node("<ns>-n", metadata={"labels": {"node-role.kubernetes.io/gpu": ""}}, status={
        "conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.4"}}))),
         get(_NODE, accept=TABLE), hidden(delete(_NODE))),
    case("a namespace", post("/api/v1/namespaces", {"metadata": {"name": "<ns>-two"}}), hidden(delete("/api/v1/namespaces/<ns>-two"))),
    case("a namespace with a dot", post("/api/v1/namespaces", {"metadata": {"name": "<ns>.two"}})),
    case("a namespace being deleted takes nothing new", hidden(post("/api/v1/namespaces", {"metadata": {"name": "<ns>-two"}})),
         delete("/api/v1/namespaces/<ns>-two", only=("kind", "metadata.name", "status")),
         post("/api/v1/namespaces/<ns>-two/configmaps", {"metadata": {"name": "c"}})),
    case("a namespace is finalized", hidden(post("/api/v1/namespaces", {"metadata": {"name": "<ns>-two"}})), hidden(delete("/api/v1/namespaces/<ns>-two")),
         put("/api/v1/namespaces/<ns>-two/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<ns>-two"}, "spec": {"finalizers": []}}, only=("kind", "metadata.name", "status.phase")),
         get("/api/v1/namespaces/<ns>-two")),
    case("a priority class", post(_PC, {"metadata": {"name": "<ns>"}, "value": 7}), merge(f"{_PC}/<ns>", {"value": 8}), hidden(delete(f"{_PC}/<ns>"))),
    case("a priority class too high", post(_PC, {"metadata": {"name": "<ns>"}, "value": 1000000001})),
    case("a priority class of the system", post(_PC, {"metadata": {"name": "system-<ns>"}, "value": 1})),
    case("a budget", post("policy/v1:poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}})),
    case("a budget of both kinds", post("policy/v1:poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": {"maxUnavailable": 1, "minAvailable": 1, "selector": {}}}, only=("code", "reason"))),
    case("a claim", post("persistentvolumeclaims", {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})),
    case("a claim for nothing", post("persistentvolumeclaims", {"metadata": {"name": "v"}, "spec": {}}, only=("code", "reason"))),
    case("a storage class", post("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "<ns>"}, "provisioner": "example.com/p"}),
         hidden(delete("/apis/storage.k8s.io/v1/storageclasses/<ns>"))),
    case("a service", post("services", {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}})),
    case("a service named with a digit first", post("services", {"metadata": {"name": "1s"}, "spec": {"clusterIP": "None"}}, only=("code", "reason"))),
    case("a role and its binding", post("rbac.authorization.k8s.io/v1:roles", {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
         post("rbac.authorization.k8s.io/v1:rolebindings", {"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
              "subjects": [{"kind": "User", "name": "u"}]})),
    case("may I", post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}, only=("status.allowed", "kind", "apiVersion"))),
    case("the resources of core", get("/api/v1", only=("kind", "groupVersion"))),
    case("the resources of a group", get("/apis/coordination.k8s.io/v1", only=("kind", "apiVersion", "groupVersion"))),
    case("a group", get("/apis/apps")),
    case("the scheduling of nothing", get("/apis/apps/v9", only=("code",))),
    case("health", get("/readyz"), get("/livez"), get("/healthz")),
    case("a definition", post(_CRD, definition("<ns>.example.com"), only=("spec", "metadata.generation", "metadata.name")),
         hidden(delete(f"{_CRD}/widgets.<ns>.example.com"))),
    case("a definition misnamed", post(_CRD, {**definition("<ns>.example.com"), "metadata": {"name": "wrong"}}, only=("code", "reason"))),
    case("a definition without a schema", post(_CRD, definition("<ns>.example.com", schema=None), only=("code", "reason"))),
    case("a custom object", *_SERVED, post(_W, widget(spec={"a": 1}, more=[1, "x"])), get(f"{_W}/w"), get(_W), _GONE),
    case("a custom object without a kind", *_SERVED, post(_W, {"metadata": {"name": "w"}}, only=("code", "reason")), _GONE),
    case("a custom object is patched", *_SERVED, hidden(post(_W, widget(spec={"a": 1}))), merge(f"{_W}/w", {"spec": {"b": [1]}}),
         Step("PATCH", f"{_W}/w", {"spec": {}}, "application/strategic-merge-patch+json", only=("code", "reason")), _GONE),
    case("a custom object's generation", *_SERVED, hidden(post(_W, widget(spec={"a": 1}))), merge(f"{_W}/w", {"metadata": {"labels": {"x": "y"}}}, only=("metadata.generation",)),
         merge(f"{_W}/w", {"spec": {"a": 2}}, only=("metadata.generation",)), _GONE),
    case("a custom object is replaced without a version", *_SERVED, hidden(post(_W, widget())), put(f"{_W}/w", widget(spec={"a": 2})), _GONE),
    case("a custom status is apart", *_WITH_STATUS, post(_W, widget(spec={"a": 1}, status={"s": 1}), only=("spec", "status", "metadata.generation")),
         merge(f"{_W}/w/status", {"status": {"s": 2}, "spec": {"a": 9}}, only=("spec", "status", "metadata.generation")),
         merge(f"{_W}/w", {"status": {"s": 3}, "spec": {"a": 4}}, only=("spec", "status", "metadata.generation")), _GONE),
    case("a custom status where there is none", *_SERVED, hidden(post(_W, widget())), merge(f"{_W}/w/status", {"status": {}}, only=("code", "reason")), _GONE),
    case("a watch of custom objects", *_SERVED, hidden(post(_W, widget("first"), save={"rv": "metadata.resourceVersion"})),
         watch(f"{_W}?resourceVersion=<rv>"), hidden(post(_W, widget())), hidden(delete(f"{_W}/w")), seen(2), _GONE),
    case("a watch from an expired version", *_SERVED, watch(f"{_W}?resourceVersion=1"), seen(1), _GONE),
    case("a table of custom objects", *_SERVED, hidden(post(_W, widget())), get(_W, accept=TABLE, only=("columnDefinitions", "rows.0.cells.0", "kind")), _GONE),
    case("custom objects in discovery", *_SERVED, get("/apis/<ns>.example.com/v1"), get("/apis/<ns>.example.com"), _GONE),
]  # fmt: skip
__all__ = ["CASES", "Step"]
