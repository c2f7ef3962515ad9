"""What Fairlead leaves aside without harm."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.apps.config.findings import Finding
from fairlead.apps.config.kube_scheduler.format import Configuration

_ALL_NODES = "ignored: Fairlead evaluates all nodes"
_BACKOFF = "ignored: the backoff of Fairlead is 1 s at first and 10 s at most"
_PROFILING = "ignored: Fairlead has no profiling endpoints"
#: Keys that do not change where pods go, with what to know about them.
_HARMLESS: Mapping[str, str] = {
    "parallelism": "ignored: Fairlead evaluates all nodes at once, on one core",
    "percentageOfNodesToScore": _ALL_NODES,
    "podInitialBackoffSeconds": _BACKOFF,
    "podMaxBackoffSeconds": _BACKOFF,
    "enableProfiling": _PROFILING,
    "enableContentionProfiling": _PROFILING,
    "delayCacheUntilActive": "ignored: Fairlead reads the cluster as soon as it starts",
}
_CONNECTION: Mapping[str, str] = {
    "kubeconfig": "ignored: use --kubeconfig; the default is the kubeconfig of kubectl",
    "qps": "ignored: the API server sets the rate",
    "burst": "ignored: the API server sets the rate",
    "contentType": "ignored: Fairlead uses JSON",
    "acceptContentTypes": "ignored: Fairlead uses JSON",
}
_DEFAULT_NAME = "default-scheduler"
_CLASH = (
    f"pods of {_DEFAULT_NAME!r} are served: make sure that no kube-scheduler in this cluster "
    "serves the same name"
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
