"""The kubelet's view of claims, at every revision since the audit began.

A kubelet starts a pod only if each of its claims is reserved for it, and a driver prepares a device
for one claim at a time. Both are read from the history of the API server.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from claim_sums import oversold
from dra_objects import RESOURCE, Object
from fairlead.sim.controlplane import ControlPlane

#: By kind, the spec of an object that no scheduler or controller acts on.
_LAST: dict[str, Object] = {
    "pod": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "x"}]},
    "claim": {"devices": {}},
}


class ClaimAudit:
    """`slices` are published all the time: counters and capacities in them are added up."""

    def __init__(
        self, plane: ControlPlane, namespace: str, slices: Sequence[Object] = ()
    ) -> None:  # fmt: skip
        self._plane = plane
        self._slices = slices
        # Pods are read first: what was written to claims before the last of their binds is in the
        # history of claims then, also while pods are still being bound.
        self._folders = {
            "pod": f"/api/v1/namespaces/{namespace}/pods",
            "claim": f"{RESOURCE}/namespaces/{namespace}/resourceclaims",
        }
        self._since = {what: self._list(path)["metadata"]["resourceVersion"]
                       for what, path in self._folders.items()}  # fmt: skip

    def _list(self, path: str) -> Object:
        status, found = self._plane.api("GET", path)
        assert status == 200, found
        return found

    def _history(self) -> list[tuple[int, str, str, Object]]:
        """All changes of claims and pods, in order: revision, what, type of change, object."""
        found = []
        for what, path in self._folders.items():
            for change in self._changes(path, self._since[what], _LAST[what]):
                version = int(change["object"]["metadata"]["resourceVersion"])
                found.append((version, what, change["type"], change["object"]))
        return sorted(found, key=lambda change: change[0])

    def _changes(self, path: str, since: str, spec: Object) -> Iterator[Object]:
        """All until now: an object that is created now tells that the others have been told."""
        last = {"metadata": {"generateName": "last-"}, "spec": spec}
        status, created = self._plane.api("POST", path, last)
        assert status == 201, created
        name = created["metadata"]["name"]
        with self._plane.connect() as client:
            for line in client.lines(f"{path}?watch=1&resourceVersion={since}"):
                change = json.loads(line)
                assert change["type"] in ("ADDED", "MODIFIED", "DELETED"), change
                if change["object"]["metadata"]["name"] == name:
                    break
                yield change
            else:
                raise AssertionError(f"the watch of {path} ended before {name} was in it")
        assert self._plane.api("DELETE", f"{path}/{name}?gracePeriodSeconds=0")[0] == 200

    def check(self) -> int:
        """How many pods were started; fails on what a kubelet or a driver would refuse."""
        claims: dict[str, Object] = {}
        started: set[str] = set()
        for _, what, change, obj in self._history():
            name = obj["metadata"]["name"]
            if what == "pod":
                if obj["spec"].get("nodeName") and obj["metadata"]["uid"] not in started:
                    started.add(obj["metadata"]["uid"])
                    _may_start(obj, claims)
            elif change == "DELETED":
                claims.pop(name, None)
            else:
                claims[name] = obj
                _prepared_once(claims)
                too_much = oversold(self._slices, claims.values())
                assert not too_much, too_much
        return len(started)


def _may_start(pod: Object, claims: dict[str, Object]) -> None:
    for name in _claims_of(pod):
        users = claims[name].get("status", {}).get("reservedFor", [])
        assert any(_is_for(user, pod) for user in users), (pod, claims[name])


def _is_for(user: Object, pod: Object) -> bool:
    """The pod, or its PodGroup, which a kubelet knows by name."""
    group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    if user["resource"] == "podgroups" and user.get("apiGroup") == "scheduling.k8s.io":
        return user["name"] == group
    return bool(user["uid"] == pod["metadata"]["uid"])


def _claims_of(pod: Object) -> list[str]:
    made = {each["name"]: each.get("resourceClaimName")
            for each in pod.get("status", {}).get("resourceClaimStatuses", [])}  # fmt: skip
    entries: list[dict[str, Any]] = pod["spec"].get("resourceClaims", [])
    extended = pod.get("status", {}).get("extendedResourceClaimStatus")
    special = [extended["resourceClaimName"]] if extended else []
    return [*(each.get("resourceClaimName") or made[each["name"]] for each in entries), *special]


def _prepared_once(claims: dict[str, Object]) -> None:
    held: Counter[tuple[str, str, str]] = Counter()
    for claim in claims.values():
        allocation = claim.get("status", {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", []):
            if not result.get("adminAccess") and not result.get("shareID"):
                held[result["driver"], result["pool"], result["device"]] += 1
    assert not [device for device, count in held.items() if count > 1], held
