"""What happens to an object of any kind on its way in; kinds refine it."""

from typing import Any, ClassVar

from fairlead.base import names
from fairlead.sim.apiserver.status import (
    Cause,
    invalid,
    required,
)
from fairlead.sim.apiserver.strategy.metadata import validate_metadata

Object = dict[str, Any]


class Strategy:
    """The rules of one kind: defaults, what a client may set, and what is wrong with an object."""

    creates_on_update = False
    allows_blind_update = True
    counts_generations = False
    has_status = False
    first_status: ClassVar[Object] = {}

    def default(self, obj: Object) -> None:
        """Fills in, in place, what the client left open."""

    def prepare_create(self, obj: Object) -> None:
        if self.has_status:
            obj["status"] = dict(self.first_status)
        if self.counts_generations:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object) -> None:
        """The status is the controllers' alone; a change of the spec is a new generation."""
        if self.has_status:
            _take(new, old, "status")
        if self.counts_generations:
            changed = _without_status(new) != _without_status(old)
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + changed

    def prepare_status(self, new: Object, old: Object) -> None:
        for name in {*new, *old} - {"status", "metadata", "kind", "apiVersion"}:
            _take(new, old, name)
        _take(new["metadata"], old["metadata"], "generation")

    def name_problems(self, name: str) -> list[str]:
        return names.subdomain_problems(name)

    def validate(self, obj: Object) -> list[Cause]:
        return self.validate_meta(obj)

    def validate_meta(self, obj: Object) -> list[Cause]:
        return validate_metadata(obj["metadata"], self.name_problems)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return []

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return []

    def warnings(self, obj: Object) -> list[str]:
        """What the client should know although the object is accepted."""
        return []


class SpecStrategy(Strategy):
    """A kind with a spec, a status and generations."""

    counts_generations = True
    has_status = True


def _take(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _without_status(obj: Object) -> Object:
    return {
        name: value
        for name, value in obj.items()
        if name not in ("status", "metadata", "kind", "apiVersion")
    }


def immutable(new: Object, old: Object, path: str) -> list[Cause]:
    """A complaint when the value at a dotted path changed."""
    before, after = at(old, path), at(new, path)
    return [] if before == after else [invalid(path, after, "field is immutable")]


def at(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def need(obj: Object, *paths: str) -> list[Cause]:
    """A complaint for every dotted path that leads to nothing."""
    return [required(path) for path in paths if at(obj, path) in (None, "", [], {})]
