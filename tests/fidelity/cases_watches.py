"""Watches: order, selections that objects enter and leave, versions, bookmarks."""

# A table: a case reads best on few lines.
# ruff: noqa: E501

from fidelity.objects import binding, config, pod
from fidelity.script import TABLE, case, delete, get, hidden, merge, post, seen, watch

_FIRST = hidden(post("pods", pod("first"), save={"rv": "metadata.resourceVersion"}))

CASES = [
    case("watch from now on", _FIRST, watch("pods?resourceVersion=<rv>"), hidden(post("pods", pod())),
         hidden(merge("pods/p", {"metadata": {"labels": {"a": "b"}}})), hidden(delete("pods/p")), seen(4)),
    case("watch without a version begins with what is there", _FIRST, watch("pods"), hidden(post("pods", pod())), seen(2)),
    case("watch from version 0", _FIRST, watch("pods?resourceVersion=0"), seen(1)),
    case("watch from before replays", _FIRST, hidden(post("pods", pod("second"))), hidden(delete("pods/first")),
         watch("pods?resourceVersion=<rv>"), seen(3)),
    case("watch sees a bind with its annotations at once", _FIRST, watch("pods?resourceVersion=<rv>"),
         hidden(post("pods/first/binding", binding("first", annotations={"example.com/gpus": "0"}))), seen(1)),
    case("watch by label: entering and leaving", _FIRST, watch("pods?resourceVersion=<rv>&labelSelector=go%3Dyes"),
         hidden(post("pods", pod())), hidden(merge("pods/p", {"metadata": {"labels": {"go": "yes"}}})),
         hidden(merge("pods/p", {"metadata": {"annotations": {"x": "y"}}})),
         hidden(merge("pods/p", {"metadata": {"labels": {"go": "no"}}})), hidden(delete("pods/p")), seen(3)),
    case("watch unbound pods", _FIRST, watch("pods?resourceVersion=<rv>&fieldSelector=spec.nodeName%3D"),
         hidden(post("pods", pod())), hidden(post("pods/p/binding", binding())), seen(2)),
    case("watch pods of a node", _FIRST, watch("pods?resourceVersion=<rv>&fieldSelector=spec.nodeName%3Dn"),
         hidden(post("pods", pod())), hidden(post("pods/p/binding", binding())),
         hidden(delete("pods/p", {"gracePeriodSeconds": 0})), seen(3)),
    case("watch one object by name", _FIRST, watch("pods?resourceVersion=<rv>&fieldSelector=metadata.name%3Dp"),
         hidden(post("pods", pod())), hidden(post("pods", pod("q"))), seen(1)),
    case("watch does not see other namespaces", hidden(post("configmaps", config(), save={"rv": "metadata.resourceVersion"})),
         watch("configmaps?resourceVersion=<rv>"),
         hidden(post("/api/v1/namespaces/default/configmaps", config(name="<ns>"))),
         hidden(delete("/api/v1/namespaces/default/configmaps/<ns>")), hidden(post("configmaps", config("d"))), seen(1)),
    case("a write that changes nothing is no event", _FIRST, watch("pods?resourceVersion=<rv>"),
         hidden(merge("pods/first", {})), hidden(merge("pods/first", {"metadata": {"labels": {"a": "b"}}})), seen(1)),
    case("the last finalizer: deletion seen", hidden(post("configmaps", config(finalizers=["example.com/a"]), save={"rv": "metadata.resourceVersion"})),
         watch("configmaps?resourceVersion=<rv>"), hidden(delete("configmaps/c")),
         hidden(merge("configmaps/c", {"metadata": {"finalizers": None}})), seen(2)),
    case("graceful deletion seen", _FIRST, hidden(post("pods/first/binding", binding("first"), save={})),
         watch("pods?resourceVersion=<rv>"), hidden(delete("pods/first")),
         hidden(delete("pods/first", {"gracePeriodSeconds": 0})), seen(3)),
    case("a version of the future is silent", watch("pods?resourceVersion=999999999&timeoutSeconds=1"), seen(0)),
    case("a version that is None", watch("pods?resourceVersion=None"), seen(0)),
    case("initial events", _FIRST, hidden(post("pods", pod("another"))),
         watch("pods?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"), seen(3)),
    case("initial events, then changes", _FIRST,
         watch("pods?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=<rv>"),
         hidden(post("pods", pod("later"))), seen(3)),
    case("initial events without a match", watch("pods?sendInitialEvents=true&allowWatchBookmarks=true"), seen(0)),
    case("a match without initial events", watch("pods?resourceVersion=1&resourceVersionMatch=NotOlderThan"), seen(0)),
    case("a watch that times out ends", _FIRST, watch("pods?resourceVersion=<rv>&timeoutSeconds=1"), seen(0)),
    case("a watch with an unknown field", watch("pods?fieldSelector=spec.foo%3D1"), seen(0)),
    case("a watch as a table", _FIRST, watch("pods?resourceVersion=<rv>", accept=TABLE), hidden(post("pods", pod())), seen(1)),
    case("the old path of a watch", _FIRST, watch("/api/v1/watch/namespaces/<ns>/pods?resourceVersion=<rv>"), hidden(post("pods", pod())), seen(1)),
    case("a collection deleted", *(hidden(post("pods", pod(name), save={"rv": "metadata.resourceVersion"})) for name in "ab"),
         watch("pods?resourceVersion=<rv>"), hidden(delete("pods")), seen(4), get("pods", only=("items",))),
]  # fmt: skip
