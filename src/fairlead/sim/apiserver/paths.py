"""Paths of the API: which kind, namespace, object and subresource they name."""

from collections.abc import Mapping

from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.registry import KindRegistry


def locate(kinds: KindRegistry, path: str, query: Mapping[str, str]) -> Call | None:
    """The call that a path makes; None when nothing is served there."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        return _locate(kinds, "", parts[1], parts[2:], query)
    if len(parts) >= 4 and parts[0] == "apis":
        return _locate(kinds, parts[1], parts[2], parts[3:], query)
    return None


def _locate(
    kinds: KindRegistry, group: str, version: str, rest: list[str], query: Mapping[str, str]
) -> Call | None:
    if rest[0] == "watch":  # the old way to ask for a watch
        query = {**query, "watch": "true"}
        rest = rest[1:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        return None
    kind = kinds.find(group, version, rest[0])
    if kind is None or (namespace and not kind.namespaced):
        return None
    name, subresource = rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in kind.subresources:
        return None
    if kind.namespaced and not namespace and name:
        return None
    kept = _kept_as(kinds, kind)
    return Call(kept, namespace, name, subresource, query, view=kind if kept is not kind else None)


def _kept_as(kinds: KindRegistry, kind: Kind) -> Kind:
    """The kind in whose form an object is stored: core's Event, a definition's storage version."""
    if kind.store:
        return kinds.find("", "v1", kind.store) or kind
    if kind.custom and not kind.custom.get("storage"):
        for other in kinds:
            if other.group_resource == kind.group_resource and (other.custom or {}).get("storage"):
                return other
    return kind
