"""What Fairlead leaves aside without harm, and what it cannot do instead of an extender."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.apps.findings import Finding
from fairlead.apps.kube_scheduler.format import Configuration, Extender

_ALL_NODES = "ignored: Fairlead looks at all nodes, so it never misses a better one"
_BACKOFF = "ignored: a pod that was refused is tried again after 1 s at first, later after 10 s"
_PROFILING = "ignored: Fairlead serves no profiles of itself"
#: Keys that do not change where pods go, with what to know about them.
_HARMLESS: Mapping[str, str] = {
    "parallelism": "ignored: Fairlead asks about all nodes at once, on one core",
    "percentageOfNodesToScore": _ALL_NODES,
    "podInitialBackoffSeconds": _BACKOFF,
    "podMaxBackoffSeconds": _BACKOFF,
    "enableProfiling": _PROFILING,
    "enableContentionProfiling": _PROFILING,
    "delayCacheUntilActive": "ignored: Fairlead reads the cluster as soon as it starts",
}
_CONNECTION: Mapping[str, str] = {
    "kubeconfig": "ignored: say it with --kubeconfig, or leave Fairlead to find it as kubectl does",
    "qps": "ignored: the API server sets the pace",
    "burst": "ignored: the API server sets the pace",
    "contentType": "ignored: Fairlead speaks JSON",
    "acceptContentTypes": "ignored: Fairlead speaks JSON",
}
_DEFAULT_NAME = "default-scheduler"
_CLASH = (
    f"pods of {_DEFAULT_NAME!r} will be served: see to it that no kube-scheduler in this cluster "
    "serves that name, too"
)
_EXTENDER = (
    "Fairlead calls no extenders; write its rules as a Fairlead plugin (docs/plugins.md), or leave "
    "the pods that need it with kube-scheduler"
)


def ignored(config: Configuration, found: Mapping[str, Any]) -> Iterator[Finding]:
    """One note for each key that stands in the file and has no effect."""
    defaults = Configuration(config.api_version, config.kind)
    pairs = zip(config.__struct_fields__, config.__struct_encode_fields__, strict=True)
    changed = {key for name, key in pairs if getattr(config, name) != getattr(defaults, name)}
    yield from (Finding(key, text) for key, text in _HARMLESS.items() if key in changed)
    for key in found.get("clientConnection", {}):
        yield Finding(f"clientConnection.{key}", _CONNECTION[key])
    for place, profile in enumerate(config.profiles):
        if profile.percentage_of_nodes_to_score is not None:
            yield Finding(f"profiles[{place}].percentageOfNodesToScore", _ALL_NODES)


def clash(names: Sequence[str]) -> Iterator[Finding]:
    """Two schedulers that serve one name get into each other's way."""
    if _DEFAULT_NAME in names:
        yield Finding(f"profiles[{names.index(_DEFAULT_NAME)}].schedulerName", _CLASH)


def extenders(found: Sequence[Extender], *, ignorable: bool) -> Iterator[Finding]:
    for place, extender in enumerate(found):
        if extender.ignorable == ignorable:
            yield Finding(f"extenders[{place}]", f"{extender.url_prefix}: {_EXTENDER}")
