"""Discovery: the groups, versions and resources there are, in both forms that clients ask for."""

from typing import Any

from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.registry import KindRegistry

Object = dict[str, Any]
VERSION: Object = {
    "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
    "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.4+fairlead", "gitCommit": "", "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
}  # fmt: skip
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SUBRESOURCE_VERBS = {
    "binding": ("create",), "eviction": ("create",), "finalize": ("update",), "log": ("get",),
    "scale": ("get", "patch", "update"), "status": ("get", "patch", "update"),
    "ephemeralcontainers": ("get", "patch", "update"),
}  # fmt: skip
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}


def core_versions(address: str) -> Object:
    served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": served}


def group_list(kinds: KindRegistry) -> Object:
    groups = [_group(group, versions) for group, versions in kinds.groups().items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: KindRegistry, name: str) -> Object | None:
    versions = kinds.groups().get(name)
    if not versions:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: dict[str, list[Kind]]) -> Object:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(kinds: KindRegistry, group_name: str, version: str) -> Object | None:
    """The APIResourceList of one group and version."""
    found = kinds.groups().get(group_name, {}).get(version)
    if found is None:
        return None
    resources = [entry for kind in found for entry in _resources(kind)]
    group_version = f"{group_name}/{version}" if group_name else version
    head = {"kind": "APIResourceList", "groupVersion": group_version}
    if group_name:
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    return {**head, "resources": resources}


def _resources(kind: Kind) -> list[Object]:
    main: Object = {
        "name": kind.plural, "singularName": kind.one, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": list(kind.verbs),
    }  # fmt: skip
    if kind.short:
        main["shortNames"] = list(kind.short)
    if kind.categories:
        main["categories"] = list(kind.categories)
    return [main, *(_subresource(kind, name) for name in kind.subresources)]


def _subresource(kind: Kind, name: str) -> Object:
    entry: Object = {
        "name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced,
    }  # fmt: skip
    if name in _SUBRESOURCE_KINDS:
        group_name, version, other = _SUBRESOURCE_KINDS[name]
        if group_name:
            entry |= {"group": group_name, "version": version}
        entry["kind"] = other
    else:
        entry["kind"] = kind.kind
    entry["verbs"] = list(_SUBRESOURCE_VERBS[name])
    return entry


def aggregated(kinds: KindRegistry, core: bool) -> Object:
    """Everything at once (apidiscovery.k8s.io/v2), for /api or for /apis."""
    items = [
        _aggregated_group(name, versions)
        for name, versions in kinds.groups().items()
        if (name == "") == core
    ]
    return {
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items,
    }  # fmt: skip


def _aggregated_group(name: str, versions: dict[str, list[Kind]]) -> Object:
    metadata: Object = {"name": name} if name else {}
    metadata["creationTimestamp"] = None
    listed = [
        {"version": version, "resources": [_aggregated(kind) for kind in found],
         "freshness": "Current"}
        for version, found in versions.items()
    ]  # fmt: skip
    return {"metadata": metadata, "versions": listed}


def _aggregated(kind: Kind) -> Object:
    entry: Object = {
        "resource": kind.plural, "responseKind": _response_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.one, "verbs": list(kind.verbs),
    }  # fmt: skip
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [_aggregated_subresource(kind, sub) for sub in kind.subresources]
    return entry


def _response_kind(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _aggregated_subresource(kind: Kind, name: str) -> Object:
    group_name, version, other = _SUBRESOURCE_KINDS.get(name, (kind.group, kind.version, kind.kind))
    answer = {"group": group_name, "version": version, "kind": other}
    return {"subresource": name, "responseKind": answer, "verbs": list(_SUBRESOURCE_VERBS[name])}
