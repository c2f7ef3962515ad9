"""Slices, classes and claims, drawn at random: what drivers publish, and what goes wrong."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

NODE = "node-a"
LABELS = {"zone": "z1", "rank": "3"}
DRIVERS = ("gpu.example.com", "net.example.com")
_ROOT = "resource.kubernetes.io/root"
_OWN = {driver: f'device.attributes["{driver}"]' for driver in DRIVERS}
_SIZE = f'device.capacity["{DRIVERS[0]}"].memory'
_SELECTORS = (
    'device.driver == "gpu.example.com"',
    'device.driver == "net.example.com"',
    f'{_OWN[DRIVERS[0]]}.?type.orValue("") == "big"',
    f'{_OWN[DRIVERS[0]]}.type == "big"',
    f"has({_OWN[DRIVERS[0]]}.index) && {_OWN[DRIVERS[0]]}.index < 4",
    f"{_OWN[DRIVERS[0]]}.?index.orValue(0) != 1",
    "device.allowMultipleAllocations != true",
    f'has({_SIZE}) && {_SIZE}.compareTo(quantity("20Gi")) >= 0',
    "true",
)
_NODES: tuple[Json, ...] = (
    {"nodeName": NODE},
    {"nodeName": NODE},
    {"nodeName": NODE},
    {"nodeName": "node-b"},
    {"allNodes": True},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["z1", "z2"]}]}]}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["z2", "z1"]},
        {"key": "rank", "operator": "Gt", "values": ["2"]}]}]}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "NotIn", "values": ["z1"]}]}]}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [NODE]}]}]}},
)  # fmt: skip
_TOLERATIONS: tuple[Json, ...] = (
    {"operator": "Exists"},
    {"key": "sick", "operator": "Exists", "effect": "NoExecute"},
    {"key": "sick", "operator": "Equal", "value": "a", "tolerationSeconds": 30},
)
#: The API server takes any amount in a request.
_ODD_AMOUNTS = (
    "-1Gi", "-1", "-500m", "0", "1500m", "1G", "9E", "10E", "9223372036854775807", "20Ei",
)  # fmt: skip


class World:
    """One question: a node, what is published, what is held, and claims."""

    #: How many worlds have a feature.
    shares: Mapping[str, float] = {
        "counters": 0.3, "shares": 0.3, "taints": 0.25, "errors": 0.15, "places": 0.3,
        "damage": 0.12, "constraints": 0.5, "conditions": 0.15, "admin": 0.15, "all": 0.15,
        "capacity": 0.2, "configs": 0.3,
    }  # fmt: skip

    #: How many ask for amounts that make no sense.
    odd_share = 0.15

    def __init__(self, draw: random.Random, apart: random.Random | None = None) -> None:
        """`apart` draws what came later, so that a seed draws all else as it did before."""
        self.draw = draw
        self.apart = apart or draw
        self._has_odd_amounts = self.apart.random() < self.odd_share
        #: A world has some of the features: with all of them nothing would ever fit.
        self.has = {name: draw.random() < share for name, share in self.shares.items()}
        self.devices: list[tuple[str, str, Json]] = []
        self.slices = [part for number in range(self._pools()) for part in self._pool(number)]
        draw.shuffle(self.slices)

    def question(self) -> Json:
        draw = self.draw
        return {
            "slices": self.slices,
            "classes": [self._class(name) for name in ("first", "second", "third")],
            "held": self._held(),
            "claims": [self._claim(number) for number in range(draw.choice((1, 1, 1, 2, 3)))],
            "node": {"metadata": {"name": NODE, "labels": LABELS}},
        }

    def _chance(self, share: float) -> bool:
        return self.draw.random() < share

    # -- what is published

    def _pools(self) -> int:
        """How many there are."""
        return self.draw.choice((1, 1, 2, 3))

    def _places(self, pool: int) -> Sequence[Json]:
        """Which nodes the slices of a pool may be for."""
        return _NODES if self.has["places"] else _NODES[:1]

    def _device_places(self) -> Sequence[Json]:
        """Which nodes a device may be for that says so itself."""
        return _NODES

    def _pool(self, number: int) -> list[Json]:
        draw = self.draw
        driver = draw.choice(DRIVERS)
        pool = f"pool-{draw.randrange(3)}-{number}"
        count, generation = draw.choice((1, 1, 1, 2)), draw.randrange(1, 3)
        places = self._places(number)
        counted = self.has["counters"] and self._chance(0.7)
        parts = [self._slice(driver, pool, number, draw.choice(places), counted)
                 for number in range(count)]  # fmt: skip
        if counted:
            parts.append(self._counter_slice(driver, pool, draw.choice(_plain(places))))
        total = len(parts)
        if self.has["damage"] and self._chance(0.2):
            total += draw.choice((-1, 1))
        for part in parts:
            part["spec"]["pool"] = {
                "name": pool, "generation": generation, "resourceSliceCount": max(total, 1)
            }  # fmt: skip
        if self.has["damage"]:
            self._damage(parts)
        return parts

    def _damage(self, parts: list[Json]) -> None:
        draw = self.draw
        part = draw.choice(parts)
        match draw.randrange(4):
            case 0:
                part["spec"]["pool"] = {**part["spec"]["pool"], "generation": draw.randrange(1, 4)}
            case 1:
                parts.remove(part)
            case 2 if part["spec"].get("devices"):
                part["spec"]["devices"].append(dict(part["spec"]["devices"][0]))
            case _:
                for device in part["spec"].get("devices", ()):
                    for use in device.get("consumesCounters", ()):
                        use["counterSet"] = "unknown"

    def _slice(self, driver: str, pool: str, number: int, nodes: Json, counted: bool) -> Json:
        draw = self.draw
        name = f"{draw.choice('abc')}-{driver}-{pool}-{number}"
        per_device = self.has["places"] and self._chance(0.2)
        devices = [self._device(driver, f"d{number}{draw.choice('xyz')}{index}", counted)
                   for index in range(draw.choice((2, 3, 4, 6)))]  # fmt: skip
        spec: Json = {"driver": driver, "devices": devices}
        if per_device:
            spec["perDeviceNodeSelection"] = True
            for device in devices:
                device.update(draw.choice(self._device_places()))
        else:
            spec |= nodes
        self.devices += [(driver, pool, device) for device in devices]
        return {"metadata": {"name": name}, "spec": spec}

    def _counter_slice(self, driver: str, pool: str, nodes: Json) -> Json:
        draw = self.draw
        sets: list[Json] = [
            {"name": f"set-{number}", "counters": {
                "memory": {"value": draw.choice(("40Gi", "80Gi", "30Gi"))},
                "slots": {"value": draw.choice(("2", "3", "1500m", "0"))},
            }}
            for number in range(2)
        ]  # fmt: skip
        if self._chance(0.05):
            sets[1]["name"] = "set-0"
        if self._chance(0.05):
            sets[0]["counters"]["slots"] = {"value": "-1"}
        name = f"{draw.choice('abc')}-{driver}-{pool}-counters"
        return {
            "metadata": {"name": name},
            "spec": {"driver": driver, "sharedCounters": sets, **nodes},
        }

    def _device(self, driver: str, name: str, counted: bool) -> Json:
        draw = self.draw
        device: Json = {"name": name, "attributes": self._attributes(driver), "capacity": {}}
        shareable = self.has["shares"] and self._chance(0.6)
        if shareable:
            device["allowMultipleAllocations"] = True
        for key in ("memory", "slots"):
            if self._chance(0.85 if key == "memory" else 0.3):
                device["capacity"][key] = self._capacity(key, shareable)
        if counted and self._chance(0.8):
            device["consumesCounters"] = [
                {"counterSet": f"set-{number}", "counters": {
                    "memory": {"value": draw.choice(("10Gi", "20Gi", "40Gi"))},
                    **({"slots": {"value": draw.choice(("1", "500m", "0"))}}
                       if self._chance(0.6) else {}),
                }}
                for number in draw.choice(((0,), (1,), (0, 1)))
            ]  # fmt: skip
        if self.has["taints"] and self._chance(0.4):
            device["taints"] = [
                {"key": "sick", "value": draw.choice("ab"),
                 "effect": draw.choice(("NoSchedule", "NoExecute", "None"))}
                for _ in range(draw.choice((1, 2)))
            ]  # fmt: skip
        if self.has["conditions"] and self._chance(0.3):
            device["bindingConditions"] = ["ready"]
            device["bindingFailureConditions"] = ["failed"]
            device["bindsToNode"] = self._chance(0.5)
        return device

    def _attributes(self, driver: str) -> Json:
        draw = self.draw
        drawn: Json = {
            "type": {"string": draw.choice(("big", "small"))},
            f"{driver}/index" if self._chance(0.1) else "index": {"int": draw.randrange(6)},
            _ROOT: draw.choice(({"string": "r0"}, {"string": "r1"}, {"string": "r2"}, {"int": 1},
                                {"version": "1.0.0"}, {"bool": True})),
            "link": {"int": draw.randrange(2)},
        }  # fmt: skip
        gone = 0.15 if self.has["errors"] else 0.0
        found = {name: value for name, value in drawn.items()
                 if not self._chance(gone if name != _ROOT else 0.1)}  # fmt: skip
        if self.has["errors"] and self._chance(0.05):
            found["odd"] = {"version": "1.99999999999999999999.0"}
        return found

    def _capacity(self, key: str, shareable: bool) -> Json:
        draw = self.draw
        value = draw.choice(("10Gi", "40Gi", "80Gi")) if key == "memory" else draw.choice("248")
        found: Json = {"value": value}
        if shareable and self._chance(0.8):
            least = "1Gi" if key == "memory" else "1"
            found["requestPolicy"] = draw.choice((
                {"default": least},
                {"default": least, "validValues": [least, "5Gi" if key == "memory" else "2"]},
                {"default": least, "validRange": {"min": least}},
                {"default": least, "validRange": {"min": least, "step": least}},
                {"default": least, "validRange": {
                    "min": least, "max": "8Gi" if key == "memory" else "2", "step": least}},
                {"validRange": {"min": least, "step": "3Gi" if key == "memory" else "1"}},
            ))  # fmt: skip
        return found

    # -- what is asked for

    def _class(self, name: str) -> Json:
        draw = self.draw
        chosen = (
            [] if self._chance(0.55) else draw.sample(self._selectors(), draw.choice((1, 1, 2)))
        )
        spec: Json = {"selectors": [{"cel": {"expression": each}} for each in chosen]}
        if self.has["configs"]:
            spec["config"] = [{"opaque": {"driver": DRIVERS[0], "parameters": {"of": name}}}]
        return {"metadata": {"name": name}, "spec": spec}

    def _selectors(self) -> list[str]:
        careless = _SELECTORS[3]
        return [each for each in _SELECTORS if self.has["errors"] or each != careless]

    def _claim(self, number: int) -> Json:
        draw = self.draw
        requests = [self._request(f"r{index}") for index in range(draw.choice((1, 1, 1, 2, 2, 3)))]
        devices: Json = {"requests": requests}
        if self.has["constraints"]:
            devices["constraints"] = [
                self._constraint(requests) for _ in range(draw.choice((0, 1, 1, 2)))
            ]
        if self.has["configs"]:
            devices["config"] = [
                {"requests": self._names(requests), "opaque": {
                    "driver": DRIVERS[0], "parameters": {"number": index}}}
                for index in range(draw.choice((0, 1, 2)))
            ]  # fmt: skip
        meta = {"namespace": "team", "name": f"claim-{number}", "uid": f"claim-{number}"}
        return {"metadata": meta, "spec": {"devices": devices}}

    def _request(self, name: str) -> Json:
        draw = self.draw
        if self._chance(0.25):
            needs = [
                {"name": f"s{index}", **self._need()} for index in range(draw.choice((1, 2, 3)))
            ]
            return {"name": name, "firstAvailable": needs}
        need = self._need()
        if self.has["admin"] and self._chance(0.4):
            need["adminAccess"] = True
        return {"name": name, "exactly": need}

    def _need(self) -> Json:
        draw = self.draw
        need: Json = {
            "deviceClassName": draw.choice(("first", "second", "third")),
            "allocationMode": "ExactCount",
            "count": draw.choice((1, 1, 1, 1, 2, 3)),
        }
        if self._chance(0.02):
            need["count"] = draw.choice((16, 33))
        if self.has["all"] and self._chance(0.4):
            need |= {"allocationMode": "All", "count": 0}
        if self._chance(0.2):
            chosen = draw.sample(self._selectors(), 1)
            need["selectors"] = [{"cel": {"expression": each}} for each in chosen]
        if self.has["taints"] and self._chance(0.5):
            need["tolerations"] = [draw.choice(_TOLERATIONS)]
        if (self.has["capacity"] or self.has["shares"]) and self._chance(0.5):
            amounts = {"memory": draw.choice(("1Gi", "1Gi", "3Gi", "4500Mi", "20Gi", "100Gi"))}
            if self._chance(0.2):
                amounts["slots"] = draw.choice(("1", "2", "1500m"))
            need["capacity"] = {"requests": amounts}
        if self._has_odd_amounts and self.apart.random() < 0.3:
            amounts = {self.apart.choice(("memory", "slots")): self.apart.choice(_ODD_AMOUNTS)}
            need["capacity"] = {"requests": amounts}
        return need

    def _constraint(self, requests: list[Json]) -> Json:
        draw = self.draw
        attribute = draw.choice((_ROOT, _ROOT, f"{DRIVERS[0]}/index", f"{DRIVERS[0]}/link"))
        kind = draw.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        return {"requests": self._names(requests), kind: attribute}

    def _names(self, requests: list[Json]) -> list[str]:
        names = [
            f"{request['name']}/{need['name']}"
            for request in requests
            for need in request.get("firstAvailable", ())
        ] + [request["name"] for request in requests]
        return (
            [] if self._chance(0.5) else self.draw.sample(names, self.draw.randint(1, len(names)))
        )

    # -- what is held

    def _held(self) -> list[Json]:
        draw = self.draw
        share = draw.choice((0.0, 0.0, 0.2, 0.5))
        held = [each for each in self.devices if self._chance(share)]
        return [
            {
                "metadata": {"namespace": "team", "name": f"held-{index}", "uid": f"held-{index}"},
                "spec": {"devices": {}},
                "status": {"allocation": {"devices": {"results": self._results(index, *each)}}},
            }
            for index, each in enumerate(held)
        ]

    def _results(self, number: int, driver: str, pool: str, device: Json) -> list[Json]:
        result: Json = {"request": "r", "driver": driver, "pool": pool, "device": device["name"]}
        if self.has["admin"] and self._chance(0.2):
            return [{**result, "adminAccess": True}]
        if not device.get("allowMultipleAllocations") or self._chance(0.1):
            return [result]
        shares = []
        for index in range(self.draw.choice((1, 2))):
            share = {**result, "shareID": f"00000000-0000-4000-8000-{number:06}{index:06}"}
            if device["capacity"] and self._chance(0.9):
                share["consumedCapacity"] = {
                    name: "1Gi" if name == "memory" else "1" for name in device["capacity"]
                }
            shares.append(share)
        return shares


def _plain(places: Sequence[Json]) -> list[Json]:
    """Those without a selector."""
    return [place for place in places if "nodeSelector" not in place]
