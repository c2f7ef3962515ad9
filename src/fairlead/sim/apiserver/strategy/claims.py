"""ResourceClaims and their templates: defaults, and what must not change."""

from typing import Any

from fairlead.sim.apiserver.status import Cause, invalid
from fairlead.sim.apiserver.strategy.base import SpecStrategy, Strategy, at, immutable

Object = dict[str, Any]


class ClaimStrategy(SpecStrategy):
    """An allocation comes and goes; it does not become another one."""

    def default(self, obj: Object) -> None:
        _default_requests(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        path = "status.allocation"
        before, after = at(old, path), at(new, path)
        moved = before and after and before != after
        causes = [invalid(path, after, "field is immutable")] if moved else []
        return immutable(new, old, "spec") + causes


class ClaimTemplateStrategy(Strategy):
    def default(self, obj: Object) -> None:
        _default_requests((obj.get("spec") or {}).get("spec") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return immutable(new, old, "spec")


def _default_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        needs = [request["exactly"]] if request.get("exactly") else request.get("firstAvailable")
        for need in needs or ():
            if need.setdefault("allocationMode", "ExactCount") == "ExactCount":
                need.setdefault("count", 1)
