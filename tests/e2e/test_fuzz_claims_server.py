"""Mutated slices, classes and claims that the real API server accepts: nothing is given twice.

Counters, shares, administrator access, taints, alternatives, constraints and binding conditions are
drawn. `make fuzz SEED= FOR=` tries others.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from claim_audit import ClaimAudit
from dra_objects import RESOURCE, STRATEGIC
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods
from fuzz.claims import SaneDevices
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.searching import cases, no_timeout
from oracle.draws import Draw
from oracle.some_devices import ADMIN_LABEL, CLASSES
from test_faults import scheduling, until

pytestmark = [pytest.mark.server, pytest.mark.slow]

STEPS, WORLDS = 40, 3
_MERGE = "application/merge-patch+json"


class ServedDevices:
    """Drawn devices of one node, and changes to all that may change."""

    def __init__(self, plane: ControlPlane, pods: Pods, node: str, seed: int) -> None:
        self.plane, self.pods, self.node = plane, pods, node
        self.rng = Random(seed)
        self.drawn = SaneDevices(Draw(f"devices of {seed}"), [node])
        self.accepted: Counter[str] = Counter()
        self._claims = f"{RESOURCE}/namespaces/{pods.namespace}/resourceclaims"
        self._made: list[str] = []
        self.slices: list[Json] = []
        for obj in self.drawn.objects():
            if obj["kind"] == "ResourceSlice":
                self.slices.append(self._make("resourceslices", obj) or {})
            elif obj["kind"] == "DeviceClass":
                self._make("deviceclasses", obj)
        assert all(self.slices), "what is drawn is accepted"

    def _make(self, plural: str, obj: Json) -> Json | None:
        status, answer = self.plane.api("POST", f"{RESOURCE}/{plural}", obj)
        if status != 201:
            return None
        self.accepted[plural] += 1
        self._made.append(f"{RESOURCE}/{plural}/{answer['metadata']['name']}")
        return answer

    def change(self) -> None:
        ways: tuple[Callable[[], Any], ...] = (
            self.ask, self.ask, self.ask, self._publish, self._reclassify, self._report, self._end,
        )  # fmt: skip
        self.rng.choice(ways)()

    def ask(self, odd: float = 0.4) -> str:
        """A pod with one claim or two, mutated or not; its name."""
        name, uses = f"asks-{len(self._made)}-{self.rng.randrange(1000)}", []
        for entry in range(self.rng.choice((1, 1, 2))):
            spec: Any = self.drawn.claim_spec()
            if self.rng.random() < odd:
                spec = mutated(self.rng, {"spec": spec}).get("spec")
            meta = {"name": f"{name}-{entry}"}
            body = {"apiVersion": "resource.k8s.io/v1", "metadata": meta, "spec": spec}
            if self.plane.api("POST", self._claims, body)[0] == 201:
                self.accepted["resourceclaims"] += 1
                uses.append({"name": f"e{entry}", "resourceClaimName": meta["name"]})
        if uses:
            self.pods.create(name, resourceClaims=uses)
        return name if uses else ""

    def _publish(self) -> None:
        """Slices of other pools for the node, and changes of those that are there."""
        part = mutated(self.rng, self.rng.choice(self.slices))
        spec = part.get("spec") if isinstance(part.get("spec"), dict) else {}
        pool = spec.get("pool") if isinstance(spec.get("pool"), dict) else {}
        spec["pool"] = {**pool, "name": f"odd-{self.rng.randrange(3)}"}
        name = f"odd-{self.pods.namespace[-20:]}-{self.rng.randrange(6)}".replace("--", "-")
        obj = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": name}, "spec": spec}
        if self._make("resourceslices", obj) is None:
            path = f"{RESOURCE}/resourceslices/{name}"
            self.plane.api("PATCH", path, {"spec": spec}, content_type=_MERGE)

    def _reclassify(self) -> None:
        found = mutated(self.rng, self.drawn._device_class(self.rng.choice(CLASSES)))
        path = f"{RESOURCE}/deviceclasses/{self.rng.choice(CLASSES)}"
        patch = {"spec": copy.deepcopy(found.get("spec"))}
        status, _ = self.plane.api("PATCH", path, patch, content_type=_MERGE)
        self.accepted["deviceclasses"] += status == 200

    def _report(self) -> None:
        """A driver says that devices are ready, or that they failed."""
        for claim in self._all_claims():
            results = claim.get("status", {}).get("allocation", {}).get("devices", {})
            for result in results.get("results", ()):
                if result.get("bindingConditions"):
                    self._say(claim, result)

    def _say(self, claim: Json, result: Json) -> None:
        kind = self.rng.choice(("ready", "ready", "failed"))
        condition = {"type": kind, "status": "True", "reason": "R", "message": "m",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        named = {key: result[key] for key in ("driver", "pool", "device", "shareID")
                 if key in result}  # fmt: skip
        patch = {"status": {"devices": [{**named, "conditions": [condition]}]}}
        path = f"{self._claims}/{claim['metadata']['name']}/status"
        self.plane.api("PATCH", path, patch, content_type=STRATEGIC)

    def _end(self) -> None:
        names = [name for name in self.pods.nodes() if name.startswith("asks-")]
        if names:
            self.pods.delete(self.rng.choice(names))

    def _all_claims(self) -> list[Json]:
        found: list[Json] = self.plane.api("GET", self._claims)[1]["items"]
        return found

    def remove(self) -> None:
        for name in self.pods.nodes():
            self.pods.delete(name)
        for claim in self._all_claims():
            path = f"{self._claims}/{claim['metadata']['name']}"
            self.plane.api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=_MERGE)
            self.plane.api("DELETE", path)
        for path in self._made:
            self.plane.api("DELETE", path)

    def ask_plainly(self) -> None:
        """After all is removed, one device is published and claimed."""
        spec = {"driver": "plain.example.com", "nodeName": self.node, "devices": [{"name": "d"}],
                "pool": {"name": "plain", "generation": 1, "resourceSliceCount": 1}}  # fmt: skip
        kind = {"apiVersion": "resource.k8s.io/v1"}
        name = f"plain-{self.pods.namespace[-20:]}"
        assert self._make("resourceslices", {**kind, "metadata": {"name": name}, "spec": spec})
        selector = {"cel": {"expression": "device.driver == 'plain.example.com'"}}
        a_class = {**kind, "metadata": {"name": "plain"}, "spec": {"selectors": [selector]}}
        assert self._make("deviceclasses", a_class)
        request = {"name": "r", "exactly": {"deviceClassName": "plain"}}
        claim = {
            **kind,
            "metadata": {"name": "plain"},
            "spec": {"devices": {"requests": [request]}},
        }
        assert self.plane.api("POST", self._claims, claim)[0] == 201
        use = [{"name": "it", "resourceClaimName": "plain"}]
        self.pods.create("plain", resourceClaims=use)


@pytest.fixture
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    with control_plane.start_controller_manager(["resourceclaim-controller"]):
        yield


async def try_world(plane: ControlPlane, pods: Pods, node: str, seed: int) -> Counter[str]:
    devices = await asyncio.to_thread(ServedDevices, plane, pods, node, seed)
    audit = ClaimAudit(plane, pods.namespace, devices.slices)
    try:
        async with scheduling(plane) as (_, scheduler):
            for _ in range(STEPS):
                await asyncio.to_thread(devices.change)
            name = await asyncio.to_thread(devices.ask, 0.0)
            await until(lambda: not name or pods.node(name) or pods.condition(name))
            started = await asyncio.to_thread(audit.check)
            await asyncio.to_thread(devices.remove)
            await asyncio.to_thread(devices.ask_plainly)
            await until(lambda: pods.node("plain") == node)
            assert scheduler._containment.failures.counts == {}
    except BaseException:
        print(f"seed {seed}")
        raise
    finally:
        await asyncio.to_thread(devices.remove)
    return devices.accepted + Counter(started=started)


@no_timeout
async def test_what_the_server_accepts_gives_no_device_twice(
    control_plane: ControlPlane, create_nodes: Any, namespace: str, controllers: None
) -> None:
    labels = {"metadata": {"labels": {ADMIN_LABEL: "true"}}}
    control_plane.api("PATCH", f"/api/v1/namespaces/{namespace}", labels, content_type=_MERGE)
    (node,) = create_nodes(["fuzzed-devices"], labels={"topology.kubernetes.io/zone": "z1"})
    pods, total = Pods(control_plane, namespace), Counter[str]()
    for seed in cases(WORLDS):
        total += await try_world(control_plane, pods, node, seed)
    assert total["started"] >= 2 * WORLDS, total
    assert min(total[kind] for kind in ("resourceslices", "resourceclaims")) > WORLDS, total
