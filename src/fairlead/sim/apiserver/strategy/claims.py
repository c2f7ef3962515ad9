"""ResourceClaims and their templates: defaults, what is refused, and what must not change."""

from collections.abc import Iterator
from typing import Any

from fairlead.sim.apiserver.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    required,
    too_many,
    unsupported,
)
from fairlead.sim.apiserver.strategy.base import Strategy, at, immutable, need

Object = dict[str, Any]

_MOST_REQUESTS, _MOST_RESULTS, _MOST_USERS = 32, 32, 256
_NOT_A_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
#: What a write of the status does not change.
_OF_OBJECT = (
    "labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp",
)  # fmt: skip


class ClaimStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        _default_spec(obj.setdefault("spec", {}))
        for report in at(obj, "status.devices") or ():
            report.setdefault("conditions", None)

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        for name in _OF_OBJECT:
            new["metadata"].pop(name, None)
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
        _drop_reports(new, old)

    def validate(self, obj: Object) -> list[Cause]:
        return self.validate_meta(obj) + _spec_causes(obj["spec"], "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return immutable(new, old, "spec")

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return [
            *_user_causes(new, old),
            *_allocation_causes(new, old),
            *_report_causes(new),
        ]


class ClaimTemplateStrategy(Strategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("metadata", {})
        _default_spec(spec.setdefault("spec", {}))

    def validate(self, obj: Object) -> list[Cause]:
        return self.validate_meta(obj) + _spec_causes(obj["spec"]["spec"], "spec.spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return immutable(new, old, "spec")


# -- what is asked for -------------------------------------------------------------------------


def _default_spec(spec: Object) -> None:
    devices = spec.setdefault("devices", {})
    if not devices.get("requests"):
        devices["requests"] = None
    for request in devices["requests"] or ():
        for _, asked in _needs(request, ""):
            if asked.setdefault("allocationMode", "ExactCount") == "ExactCount":
                asked.setdefault("count", 1)


def _needs(request: Object, path: str) -> Iterator[tuple[str, Object]]:
    """What it asks for, or its alternatives, with their paths."""
    if request.get("exactly") is not None:
        yield f"{path}.exactly", request["exactly"]
    for number, each in enumerate(request.get("firstAvailable") or ()):
        yield f"{path}.firstAvailable[{number}]", each


def _spec_causes(spec: Object, path: str) -> list[Cause]:
    requests = at(spec, "devices.requests") or []
    causes = too_many(f"{path}.devices.requests", len(requests), _MOST_REQUESTS)
    seen: set[str] = set()
    for number, request in enumerate(requests[:_MOST_REQUESTS]):
        where = f"{path}.devices.requests[{number}]"
        causes += _request_causes(request, where)
        name = request.get("name", "")
        causes += [duplicate(where, name)] if name in seen else []
        seen.add(name)
    names = {*_names_of(spec)}
    for number, constraint in enumerate(at(spec, "devices.constraints") or ()):
        causes += _constraint_causes(constraint, f"{path}.devices.constraints[{number}]", names)
    return causes


def _names_of(spec: Object) -> Iterator[str]:
    """Names of requests, and of their alternatives."""
    for request in at(spec, "devices.requests") or ():
        yield request.get("name", "")
        for each in request.get("firstAvailable") or ():
            yield f"{request.get('name', '')}/{each.get('name', '')}"


def _request_causes(request: Object, path: str) -> list[Cause]:
    given = [name for name in ("exactly", "firstAvailable") if request.get(name) is not None]
    if not given:
        return [required(path, "exactly one of `exactly` or `firstAvailable` is required")]
    return [cause for where, each in _needs(request, path) for cause in _need_causes(each, where)]


def _need_causes(asked: Object, path: str) -> list[Cause]:
    causes = [] if asked.get("deviceClassName") else [required(f"{path}.deviceClassName")]
    mode, count = asked["allocationMode"], asked.get("count", 0)
    if mode == "All" and count:
        why = "must not be specified when allocationMode is 'All'"
        causes.append(invalid(f"{path}.count", count, why))
    elif mode == "ExactCount" and count <= 0:
        causes.append(invalid(f"{path}.count", count, "must be greater than zero"))
    elif mode not in ("All", "ExactCount"):
        causes.append(unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    return causes


def _constraint_causes(constraint: Object, path: str, names: set[str]) -> list[Cause]:
    causes = [
        invalid(f"{path}.requests[{number}]", name, _NOT_A_REQUEST)
        for number, name in enumerate(constraint.get("requests") or ())
        if name not in names
    ]
    if not (constraint.get("matchAttribute") or constraint.get("distinctAttribute")):
        # The words of the API server, also where none is set.
        why = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
        causes.append(required(path, f"{why}, but multiple fields are set"))
    return causes


# -- what it has -------------------------------------------------------------------------------


def _user_causes(new: Object, old: Object) -> Iterator[Cause]:
    path, users = "status.reservedFor", at(new, "status.reservedFor") or []
    yield from too_many(path, len(users), _MOST_USERS)
    seen: set[str] = set()
    for number, user in enumerate(users[:_MOST_USERS]):
        where = f"{path}[{number}]"
        yield from (required(f"{where}.{cause.field}") for cause in need(user, *_OF_USER))
        if user.get("uid", "") in seen:
            yield duplicate(where, user.get("uid", ""))
        seen.add(user.get("uid", ""))
    if users and not at(new, "status.allocation"):
        yield forbidden_field(path, "may not be specified when `allocated` is not set")
    before = {user.get("uid") for user in at(old, "status.reservedFor") or ()}
    if "deletionTimestamp" in new["metadata"] and seen - before:
        yield forbidden_field(path, "new entries may not be added while "
                              "`deallocationRequested` or `deletionTimestamp` are set")  # fmt: skip


_OF_USER = ("resource", "name", "uid")


def _allocation_causes(new: Object, old: Object) -> Iterator[Cause]:
    path = "status.allocation"
    before, after = at(old, path), at(new, path)
    if before and after and before != after:
        yield invalid(path, after, "field is immutable")
    results, names = at(new, f"{path}.devices.results") or [], {*_names_of(new["spec"])}
    yield from too_many(f"{path}.devices.results", len(results), _MOST_RESULTS)
    for number, result in enumerate(results[:_MOST_RESULTS]):
        if result.get("request", "") not in names:
            field = f"{path}.devices.results[{number}].request"
            yield invalid(field, result.get("request", ""), _NOT_A_REQUEST)


# -- what drivers report -----------------------------------------------------------------------

_Device = tuple[str, str, str, str]


def _device(found: Object) -> _Device:
    driver, pool, device, share = ("driver", "pool", "device", "shareID")
    return (found.get(driver, ""), found.get(pool, ""), found.get(device, ""),
            found.get(share) or "")  # fmt: skip


def _allocated(claim: Object) -> set[_Device]:
    return {_device(each) for each in at(claim, "status.allocation.devices.results") or ()}


def _drop_reports(new: Object, old: Object) -> None:
    """Reports about devices that the claim had, and has no more."""
    gone = _allocated(old) - _allocated(new)
    left = [each for each in at(new, "status.devices") or () if _device(each) not in gone]
    if left:
        new["status"]["devices"] = left
    else:
        new.get("status", {}).pop("devices", None)


def _report_causes(new: Object) -> Iterator[Cause]:
    known = _allocated(new)
    for number, report in enumerate(at(new, "status.devices") or ()):
        key = _device(report)
        if key not in known:
            shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), key, strict=True))
            yield invalid(
                f"status.devices[{number}]", shown, "must be an allocated device in the claim"
            )
