"""Devices of drivers, classes, and claims drawn by lot, for all nodes of a case."""

from collections.abc import Mapping, Sequence
from random import Random

from drawn_claims import DRIVERS, Json, World
from oracle.case import Object
from oracle.draws import ZONE, Draw
from oracle.some_nodes import WIDGET

API = "resource.k8s.io/v1"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
CLASSES = ("first", "second", "third")
#: Its devices also serve pods that ask for an extended resource.
EXTENDED = "third"
#: Who reserved a claim, so that no scheduler and no controller frees it.
STAYS = {"apiGroup": "example.com", "resource": "things", "name": "it", "uid": "it"}


class DrawnDevices(World):
    """What drivers publish on these nodes; all of it is taken by an API server."""

    shares: Mapping[str, float] = World.shares | {"damage": 0.2, "taints": 0.4, "conditions": 0.2}

    def __init__(self, draw: Draw, nodes: Sequence[str], apart: Draw | None = None) -> None:
        self.nodes = nodes
        self._has_more_rules = (apart or draw).chance(0.25)
        super().__init__(draw, apart)
        self._held_claims = self._held()
        #: Devices that a claim has: no two claims have the same one, or the same share.
        self._taken = {_device_of(held["status"]["allocation"]) for held in self._held_claims}

    def objects(self) -> list[Object]:
        """Slices, classes, and claims that others have."""
        return [
            *(_object("ResourceSlice", part) for part in self.slices),
            *(self._device_class(name) for name in CLASSES),
            *self._held_claims,
            *self._taint_rules(),
        ]

    def claim_spec(self) -> Json:
        spec: Json = self._claim(0)["spec"]
        return spec

    def _need(self) -> Json:
        need = super()._need()
        if "tolerations" in need and self._chance(0.5):
            need["tolerations"] = [{"operator": "Exists"}]
        return need

    def allocation(self) -> Json | None:
        """Of some device that no claim has, with the nodes that it is for."""
        free = [(driver, pool, device) for driver, pool, device in self.devices
                if (driver, pool, device["name"]) not in self._taken]  # fmt: skip
        if not free:
            return None
        results = self._results(100 + len(self._taken), *self.draw.choice(free))
        if any("adminAccess" in each for each in results):
            return None
        self._taken.add(_device_of({"devices": {"results": results}}))
        where = {"key": "metadata.name", "operator": "In", "values": [self.draw.choice(self.nodes)]}
        terms = {"nodeSelectorTerms": [{"matchFields": [where]}]}
        pinned = {"nodeSelector": terms} if self._chance(0.8) else {}
        # Without a time kube-scheduler tries to add one, which the API server does not take.
        allocated = {"allocationTimestamp": "2026-01-01T00:00:00Z"}
        return {"devices": {"results": results[:1]}, **pinned, **allocated}

    # -- what is published

    def _pools(self) -> int:
        return len(self.nodes) + self.draw.choice((0, 0, 1))

    def _places(self, pool: int) -> Sequence[Json]:
        own = {"nodeName": self.nodes[pool % len(self.nodes)]}
        if not self.has["places"] or (pool < len(self.nodes) and self._chance(0.5)):
            return (own,)
        return (own, own, {"allNodes": True}, _in_zones("z1", "z2"), _in_zones("z2", "z3"))

    def _device_places(self) -> Sequence[Json]:
        named = [{"nodeName": name} for name in self.nodes]
        return (*named, {"allNodes": True}, _in_zones("z1"), _in_zones("z3", "z2"))

    def _damage(self, parts: list[Json]) -> None:
        """One slice has no device twice: the API server does not take it. Two slices may."""
        super()._damage(parts)
        for spec in (part["spec"] for part in parts if "devices" in part["spec"]):
            spec["devices"] = _unique(spec["devices"], "name")
            for device in spec["devices"]:
                if "consumesCounters" in device:
                    uses = _unique(device["consumesCounters"], "counterSet")
                    device["consumesCounters"] = uses
        published = [part["spec"]["devices"] for part in parts if part["spec"].get("devices")]
        if len(published) > 1 and self._chance(0.3):
            published[1][0]["name"] = published[0][0]["name"]
        elif published and self._chance(0.3):
            published[0][0]["consumesCounters"] = [_UNKNOWN_COUNTERS]

    def _counter_slice(self, driver: str, pool: str, nodes: Json) -> Json:
        made = super()._counter_slice(driver, pool, nodes)
        for number, each in enumerate(made["spec"]["sharedCounters"]):
            each["name"] = f"set-{number}"
        return made

    def _capacity(self, key: str, shareable: bool) -> Json:
        made = super()._capacity(key, shareable)
        policy = made.get("requestPolicy")
        if policy:
            policy.setdefault("default", policy.get("validRange", {}).get("min"))
        return made

    def _device_class(self, name: str) -> Object:
        made = _object("DeviceClass", self._class(name))
        if name == EXTENDED:
            made["spec"]["extendedResourceName"] = WIDGET
        return made

    def _taint_rules(self) -> list[Object]:
        """Read by 1.37 alone."""
        rules = []
        if self.has["taints"] and not self._chance(0.5):
            rules.append(self._taint_rule(self.draw, "rule", ("NoSchedule", "None")))
        if self._has_more_rules:
            effects = ("NoSchedule", "NoExecute", "NoExecute", "None")
            rules += [self._taint_rule(self.apart, name, effects) for name in ("more", "most")]
            if self.apart.random() < 0.3:
                del rules[-1]["spec"]["deviceSelector"]  # it taints nothing
        return rules

    def _taint_rule(self, draw: Random, name: str, effects: Sequence[str]) -> Object:
        driver, pool, device = draw.choice(self.devices)
        selector = {"driver": driver, "pool": pool, "device": device["name"]}
        for field in ("driver", "pool", "device"):
            if draw.random() < 0.3:
                del selector[field]
        taint = {"key": "sick", "value": "a", "effect": draw.choice(effects)}
        spec = {"deviceSelector": selector, "taint": taint}
        return _object("DeviceTaintRule", {"metadata": {"name": name}, "spec": spec})

    # -- what is held

    def _held(self) -> list[Json]:
        return [_claim(f"held-{number}", _ONE, held["status"])
                for number, held in enumerate(super()._held())]  # fmt: skip


_UNKNOWN_COUNTERS = {"counterSet": "unknown", "counters": {"memory": {"value": "1Gi"}}}


def _device_of(allocation: Json) -> tuple[str, str, str]:
    first = allocation["devices"]["results"][0]
    return first["driver"], first["pool"], first["device"]


_ONE: Json = {
    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASSES[0]}}]}
}  # fmt: skip


def _claim(name: str, spec: Json, status: Json | None = None) -> Object:
    made = _object("ResourceClaim", {"metadata": {"name": name, "namespace": "team-a"}})
    return {**made, "spec": spec, **({"status": status} if status else {})}


def _unique(things: list[Json], key: str) -> list[Json]:
    return list({each[key]: each for each in things}.values())


def _object(kind: str, body: Json) -> Object:
    return {"apiVersion": API, "kind": kind, **body}


def _in_zones(*zones: str) -> Json:
    line = {"key": ZONE, "operator": "In", "values": list(zones)}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}


# -- what probes ask for -------------------------------------------------------------------------


def use_claims(draw: Draw, pod: Object, devices: DrawnDevices) -> list[Object]:
    """The pod uses claims from now on, or an extended resource; the claims and templates."""
    pod["metadata"]["namespace"] = "team-a"
    if draw.chance(0.12):
        _ask_for_extended(draw, pod)
        return []
    name = pod["metadata"]["name"]
    count = draw.weighted({1: 6, 2: 2, 3: 1})
    made = [_asked(draw, f"{name}-{number}", devices) for number in range(count)]
    uses = [_use(f"entry-{number}", each) for number, each in enumerate(made)]
    pod["spec"]["resourceClaims"] = uses
    return made


def _ask_for_extended(draw: Draw, pod: Object) -> None:
    for container in pod["spec"]["containers"]:
        amount = str(draw.one((1, 1, 2, 3)))
        for kind in ("requests", "limits"):
            container["resources"].setdefault(kind, {})[WIDGET] = amount


def _asked(draw: Draw, name: str, devices: DrawnDevices) -> Object:
    spec = devices.claim_spec()
    if draw.chance(0.3):
        metadata = {"name": name, "namespace": "team-a"}
        body = {"metadata": metadata, "spec": {"spec": spec}}
        return _object("ResourceClaimTemplate", body)
    allocation = devices.allocation() if draw.chance(0.12) else None
    if allocation is None:
        return _claim(name, spec)
    users = [] if devices.apart.random() < 0.4 else [STAYS]  # without users, it may be freed
    return _claim(name, _ONE, {"allocation": allocation, "reservedFor": users})


def _use(entry: str, made: Object) -> Object:
    kind = "resourceClaimTemplateName" if "Template" in made["kind"] else "resourceClaimName"
    return {"name": entry, kind: made["metadata"]["name"]}


def label_for_administrators(namespaces: Sequence[Object]) -> None:
    """Claims in the first namespace may ask for administrator access."""
    for namespace in namespaces:
        if namespace["metadata"]["name"] == "team-a":
            namespace["metadata"]["labels"][ADMIN_LABEL] = "true"


__all__ = ["DRIVERS", "DrawnDevices", "label_for_administrators", "use_claims"]
