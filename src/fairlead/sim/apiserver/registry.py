"""Which kinds are served now: the built-in ones and those that CustomResourceDefinitions add."""

from collections.abc import Iterator
from typing import Any

from fairlead.sim.apiserver.kinds import BUILT_IN, Kind

Object = dict[str, Any]
# Groups in the order that the real server lists them; others follow by name.
_ORDER = (
    "", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "apps", "batch",
    "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
    "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
)  # fmt: skip


_CUSTOM_VERBS = (
    "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
)  # fmt: skip


class KindRegistry:
    """Looks kinds up by path and by name."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in BUILT_IN:
            self._kinds[kind.group, kind.version, kind.plural] = kind
        self.revision = 0  # grows when the set of kinds changes

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def named(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object's apiVersion and kind name."""
        matching = (each for each in self if each.api_version == api_version and each.kind == kind)
        return next(matching, None)

    def plural(self, group_resource: str) -> Kind:
        """The kind that stores a resource, e.g. `deployments.apps`."""
        return next(kind for kind in self if kind.group_resource == group_resource)

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._kinds.values()))

    def groups(self) -> dict[str, dict[str, list[Kind]]]:
        """Group -> version -> kinds, as discovery shows them."""
        found: dict[str, dict[str, list[Kind]]] = {}
        for kind in self:
            found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        rank = {group: index for index, group in enumerate(_ORDER)}
        return dict(sorted(found.items(), key=lambda item: (rank.get(item[0], 99), item[0])))

    def define(self, crd: Object) -> None:
        """Serves what a CustomResourceDefinition describes; replaces what it described before."""
        self.undefine(crd)
        for kind in kinds_of(crd):
            self._kinds[kind.group, kind.version, kind.plural] = kind
        self.revision += 1

    def undefine(self, crd: Object) -> None:
        spec = crd["spec"]
        for key in [key for key in self._kinds if self._is_from(key, spec)]:
            del self._kinds[key]
        self.revision += 1

    def _is_from(self, key: tuple[str, str, str], spec: Object) -> bool:
        group, _, plural = key
        return bool(self._kinds[key].custom) and (group, plural) == (
            spec["group"], spec["names"]["plural"],
        )  # fmt: skip


def kinds_of(crd: Object) -> Iterator[Kind]:
    spec = crd["spec"]
    names = spec["names"]
    for version in spec.get("versions", []):
        if version.get("served"):
            yield Kind(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                namespaced=spec.get("scope") == "Namespaced",
                short=tuple(names.get("shortNames", ())),
                categories=tuple(names.get("categories", ())),
                subresources=tuple(sorted(version.get("subresources") or {})),
                verbs=_CUSTOM_VERBS,
                singular=names.get("singular", names["kind"].lower()),
                list_kind=names.get("listKind", names["kind"] + "List"),
                custom=version,
            )
