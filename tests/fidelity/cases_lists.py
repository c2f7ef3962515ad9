"""Lists: selectors, pages, versions, forms."""

# A table: a case reads best on few lines.
# ruff: noqa: E501

from fidelity.objects import binding, config, event, pod
from fidelity.script import PARTIAL, PARTIAL_LIST, TABLE, case, delete, get, hidden, merge, post

_THREE = tuple(
    hidden(post("configmaps", config(name, labels={"n": name, "tier": "x" if name != "b" else "y"})))
    for name in ("b", "a", "d")
)  # fmt: skip
_NAMES = (
    "kind",
    "apiVersion",
    "items.0.metadata.name",
    "items.1.metadata.name",
    "items.2.metadata.name",
)
_PODS = (
    hidden(post("pods", pod("p"))), hidden(post("pods", pod("q"))),
    hidden(post("pods/q/binding", binding("q", "somewhere"))),
)  # fmt: skip

CASES = [
    case("an empty list", get("configmaps?labelSelector=none")),
    case("a list is ordered by name", *_THREE, get("configmaps", only=_NAMES)),
    case("items of a list carry no kind", hidden(post("configmaps", config())), get("configmaps?fieldSelector=metadata.name%3Dc")),
    case("labels: equal", *_THREE, get("configmaps?labelSelector=tier%3Dx", only=_NAMES)),
    case("labels: unequal", *_THREE, get("configmaps?labelSelector=tier!%3Dx,n", only=_NAMES)),
    case("labels: in", *_THREE, get("configmaps?labelSelector=n+in+(a,b)", only=_NAMES)),
    case("labels: notin", *_THREE, get("configmaps?labelSelector=n+notin+(a,b),n", only=_NAMES)),
    case("labels: exists and not", *_THREE, get("configmaps?labelSelector=n,!other", only=_NAMES)),
    case("labels: two terms", *_THREE, get("configmaps?labelSelector=tier%3Dx,n%3Da", only=_NAMES)),
    case("labels: greater and less", *(hidden(post("configmaps", config(name, labels={"size": size}))) for name, size in (("s", "3"), ("m", "20"), ("l", "x"))),
         get("configmaps?labelSelector=size%3E5", only=_NAMES), get("configmaps?labelSelector=size%3C5", only=_NAMES)),
    case("labels: spaces", *_THREE, get("configmaps?labelSelector=%20tier%20%3D%20x%20,%20n%20in%20(a,%20d)%20", only=_NAMES)),
    case("labels: an empty value", hidden(post("configmaps", config("e", labels={"n": ""}))), get("configmaps?labelSelector=n%3D", only=_NAMES)),
    case("labels: nonsense", get("configmaps?labelSelector=a%3D%3D%3Db", only=("code", "reason"))),
    case("labels: an illegal key", get("configmaps?labelSelector=a%20b%3Dc", only=("code", "reason"))),
    case("fields: name", *_THREE, get("configmaps?fieldSelector=metadata.name%3Da", only=_NAMES)),
    case("fields: name, not", *_THREE, get("configmaps?fieldSelector=metadata.name!%3Da&labelSelector=n", only=_NAMES)),
    case("fields: namespace", *_THREE, get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D<ns>&labelSelector=n", only=_NAMES)),
    case("fields: unknown on a config map", get("configmaps?fieldSelector=data%3Da", only=("code", "reason"))),
    case("fields: unknown on a pod", get("pods?fieldSelector=spec.foo%3Da")),
    case("fields: unknown on a node", get("/api/v1/nodes?fieldSelector=spec.foo%3Da", only=("code", "reason"))),
    case("fields: nonsense", get("pods?fieldSelector=nonsense", only=("code", "reason"))),
    case("pods by node", *_PODS, get("pods?fieldSelector=spec.nodeName%3Dsomewhere", only=_NAMES)),
    case("pods without a node", *_PODS, get("pods?fieldSelector=spec.nodeName%3D", only=_NAMES)),
    case("pods by phase and scheduler", *_PODS, get("pods?fieldSelector=status.phase%3DPending,spec.schedulerName%3Ddefault-scheduler", only=_NAMES)),
    case("pods by phase, not", *_PODS, get("pods?fieldSelector=status.phase!%3DPending", only=_NAMES)),
    case("pods in all namespaces by node", *_PODS, get("/api/v1/pods?fieldSelector=spec.nodeName%3Dsomewhere,metadata.namespace%3D<ns>", only=_NAMES)),
    case("events by object", hidden(post("events", event())), hidden(post("events", event("f", reason="Other"))),
         get("events?fieldSelector=involvedObject.name%3Dp,involvedObject.kind%3DPod,reason%3DScheduled", only=_NAMES)),
    case("events by type", hidden(post("events", event())), get("events?fieldSelector=type%3DWarning", only=("items",))),
    case("events of the new group by object", hidden(post("events", event())),
         get("events.k8s.io/v1:events?fieldSelector=regarding.name%3Dp", only=_NAMES)),
    case("a page", *_THREE, get("configmaps?limit=2&labelSelector=n", only=(*_NAMES, "metadata.continue", "metadata.remainingItemCount"))),
    case("pages to the end", *(hidden(post("pods", pod(name))) for name in "abc"),
         get("pods?limit=2", save={"next": "metadata.continue"}, only=(*_NAMES, "metadata.remainingItemCount")),
         get("pods?limit=2&continue=<next>", only=(*_NAMES, "metadata.continue", "metadata.remainingItemCount"))),
    case("pages see one version", *(hidden(post("pods", pod(name))) for name in "abc"),
         hidden(get("pods?limit=1", save={"next": "metadata.continue"})), hidden(delete("pods/b")), hidden(post("pods", pod("bb"))),
         get("pods?limit=5&continue=<next>", only=_NAMES)),
    case("a continue token that is none", get("configmaps?limit=1&continue=nonsense", only=("code", "reason"))),
    case("continue with a version", *(hidden(post("pods", pod(name))) for name in "ab"),
         hidden(get("pods?limit=1", save={"next": "metadata.continue"})), get("pods?continue=<next>&resourceVersion=5")),
    # Version 0 is whatever the server's cache holds, so the case first waits until that has the pod.
    case("list at version 0", hidden(post("pods", pod(), save={"rv": "metadata.resourceVersion"})),
         hidden(get("pods?resourceVersion=<rv>&resourceVersionMatch=NotOlderThan")),
         get("pods?resourceVersion=0", only=_NAMES)),
    case("list not older than", hidden(post("pods", pod(), save={"rv": "metadata.resourceVersion"})),
         get("pods?resourceVersion=<rv>&resourceVersionMatch=NotOlderThan", only=_NAMES)),
    case("list exactly at", hidden(post("pods", pod("a"), save={"rv": "metadata.resourceVersion"})), hidden(post("pods", pod("b"))),
         hidden(merge("pods/a", {"metadata": {"labels": {"x": "y"}}})),
         get("pods?resourceVersion=<rv>&resourceVersionMatch=Exact")),
    case("list at a version of the future", get("pods?resourceVersion=999999999")),
    case("get at a version of the future", hidden(post("pods", pod())), get("pods/p?resourceVersion=999999999")),
    case("list with a match and no version", get("pods?resourceVersionMatch=Exact")),
    case("list with a match that is none", get("pods?resourceVersion=1&resourceVersionMatch=Around")),
    case("list exactly at 0", get("pods?resourceVersion=0&resourceVersionMatch=Exact")),
    case("list with a version that is None", get("pods?resourceVersion=None")),
    case("get with a version that is None", hidden(post("pods", pod())), get("pods/p?resourceVersion=None")),
    case("list with a limit that is none", get("pods?limit=many", only=("code", "reason"))),
    case("sendInitialEvents on a list", get("pods?sendInitialEvents=true")),
    case("a table of pods", hidden(post("pods", pod())), get("pods", accept=TABLE)),
    case("a table of one pod", hidden(post("pods", pod())), get("pods/p", accept=TABLE)),
    case("a table without objects", hidden(post("pods", pod())), get("pods?includeObject=None", accept=TABLE, only=("rows",))),
    case("a table with whole objects", hidden(post("pods", pod())), get("pods?includeObject=Object", accept=TABLE, only=("rows.0.object",))),
    case("a table of config maps", hidden(post("configmaps", config())), get("configmaps?fieldSelector=metadata.name%3Dc", accept=TABLE)),
    case("a table of events", hidden(post("events", event(firstTimestamp="2026-01-01T00:00:00Z", count=3))), get("events", accept=TABLE, only=("rows.0.cells.1", "rows.0.cells.2", "rows.0.cells.3", "rows.0.cells.6", "rows.0.cells.8", "columnDefinitions"))),
    case("metadata only", hidden(post("pods", pod())), get("pods/p", accept=PARTIAL)),
    case("a list of metadata only", hidden(post("pods", pod())), get("pods", accept=PARTIAL_LIST)),
    case("only forms that nobody serves", hidden(post("pods", pod())), get("pods/p", accept="text/html", only=("code", "reason"))),
]  # fmt: skip
