"""Devices and claims of all features, changed at random, told to a scheduler without a cluster.

What drivers publish for the sane nodes stays as it is; mutated slices are in pools of their own.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from claim_sums import oversold
from fairlead.apps.run.claim_watches import ClaimWatches
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.engine import events
from fairlead.engine.instructions import FreeClaim, Instruction, Prepare
from fairlead.kube.claims.kinds import CLAIM_KINDS, TAINT_RULES
from fairlead.kube.claims.patches import allocation_json
from fairlead.kube.claims.special import special_claim_object
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.claim_writer import _completed
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.target import _NO_CLIENT, Found, Target
from oracle.draws import Draw
from oracle.some_devices import CLASSES, DrawnDevices

NODES = ("sane-0", "cards-0")
STEPS = 60
_RULES = TAINT_RULES.path("v1")


class SaneDevices(DrawnDevices):
    """Pools are whole and valid; any of them may have counters, shares and taints."""

    shares: Mapping[str, float] = DrawnDevices.shares | {
        "damage": 0.0, "counters": 0.6, "shares": 0.5, "admin": 0.4, "conditions": 0.3,
    }  # fmt: skip


class ClaimTarget(Target):
    """Also writes claims as asked, some of them not to the end."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        watches = ClaimWatches(_NO_CLIENT, self.feed, self.containment.supervise)
        decode = self._strict(CLAIM_KINDS[TAINT_RULES])
        self._rules = Reflector(_NO_CLIENT, _RULES, decode, watches._on_change)
        #: By name, as the API server has them.
        self.claims: dict[str, Json] = {}
        self.slices: list[Json] = []
        self.allocated = 0

    def publish(self, part: Json) -> None:
        self.slices.append(self.show(part))

    def tell_rule(self, rule: Json) -> None:
        self._version += 1
        meta = {"name": "rule", "uid": "rule", "resourceVersion": str(self._version)}
        told = {"type": "MODIFIED", "object": {**rule, "metadata": meta}}
        self._rules._feed.apply(json.dumps(told).encode())

    def show_claim(self, claim: Json) -> Json:
        shown = self.show(
            claim, "MODIFIED" if claim["metadata"]["name"] in self.claims else "ADDED"
        )
        self.claims[shown["metadata"]["name"]] = shown
        if found := oversold(self.slices, self.claims.values()):
            raise Found(f"devices were given twice: {found}")
        return shown

    def end_pod(self, uid: str) -> None:
        """It is gone, and the controller frees what only it used."""
        self.show(self.pods[uid], "DELETED")
        for claim in list(self.claims.values()):
            status = claim.get("status", {})
            users = [each for each in status.get("reservedFor", ()) if each["uid"] != uid]
            if status.get("reservedFor") and users != status["reservedFor"]:
                left = {**status, "reservedFor": users} if users else {}
                self.show_claim({**claim, "status": left})

    # -- what is done about it ---------------------------------------------------------------

    def _perform(self, made: Instruction) -> None:
        match made:
            case Prepare(pod=pod, steps=steps) if all(isinstance(s, ClaimStep) for s in steps):
                writes = [write for step in steps for write in step.writes]
                self._prepare(pod, writes)
            case FreeClaim(claim=claim) if claim.name in self.claims:
                self.show_claim({**self.claims[claim.name], "status": {}})
            case _:
                super()._perform(made)

    def _prepare(self, pod: Pod, writes: list[ClaimWrite]) -> None:
        """Some attempts end after any of their writes, and leave what is written."""
        ends_after = self._rng.randrange(len(writes)) if self._rng.random() < 0.15 else None
        for place, write in enumerate(writes):
            if place == ends_after or not self._write(pod, write):
                self.feed(events.PrepareFailed(pod.uid, "claims cannot be written"))
                return
        self.feed(events.Prepared(pod.uid))

    def _write(self, pod: Pod, write: ClaimWrite) -> bool:
        """Whether the claim is as it was decided on."""
        if write.mappings:
            made = special_claim_object(pod, f"special-{self._version}", write.claim.requests)
            claim: Json | None = self.show_claim(made)
        else:
            claim = self.claims.get(write.claim.name)
        if claim is None:
            return False
        status = copy.deepcopy(claim.get("status") or {})
        if write.allocation is not None:
            if status.get("allocation"):
                return False
            given = _completed(replace(write.allocation, configs=()), self._now)
            status["allocation"] = allocation_json(given)
            self.allocated += 1
        user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        status["reservedFor"] = [*status.get("reservedFor", ()), user]
        self.show_claim({**claim, "status": status})
        return True


# -- a case --------------------------------------------------------------------------------------


class ClaimCase:
    """A seed: devices, then so many changes, each followed by some decisions."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.devices = SaneDevices(Draw(f"devices of {seed}"), NODES)
        self.target = ClaimTarget(self.rng)
        self._number = 0
        for obj in self.devices.objects():
            if obj["kind"] == "ResourceSlice":
                self.target.publish(obj)
            elif obj["kind"] == "DeviceClass":
                self.target.show(obj)

    def run(self) -> None:
        ways = (self._ask, self._ask, self._ask, self._publish, self._reclassify, self._taint,
                self._end, self._end)  # fmt: skip
        for _ in range(STEPS):
            self.rng.choice(ways)()
            self.target.decide(self.rng.choice((0, 1, 3)))
        self.target.check()

    def _named(self, obj: Json, prefix: str) -> Json:
        self._number += 1
        return {**obj, "metadata": {"name": f"{prefix}-{self._number}"}}

    def _ask(self) -> None:
        """A pod with claims as they should be, or with mutated ones."""
        pod: Json = self._named({"apiVersion": "v1", "kind": "Pod"}, "asks")
        uses = []
        for entry in range(self.rng.choice((1, 1, 2))):
            spec: Any = self.devices.claim_spec()
            kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
            if self.rng.random() < 0.4:
                spec = mutated(self.rng, {"spec": spec}).get("spec")
            claim = self.target.show_claim(self._named({**kind, "spec": spec}, "claim"))
            uses.append({"name": f"e{entry}", "resourceClaimName": claim["metadata"]["name"]})
        container = {"name": "c", "image": "x"}
        pod["spec"] = {"schedulerName": "gpu-scheduler", "containers": [container],
                       "resourceClaims": uses}  # fmt: skip
        self.target.show(pod)

    def _publish(self) -> None:
        part = mutated(self.rng, self.rng.choice(self.target.slices))
        spec = part.get("spec")
        if isinstance(spec, dict):
            pool = spec.get("pool")
            known = pool if isinstance(pool, dict) else {}
            spec["pool"] = {**known, "name": f"odd-{self.rng.randrange(3)}"}
        self.target.show({**self._named(part, "slice"), "kind": "ResourceSlice"})

    def _reclassify(self) -> None:
        """Also the classes that sane claims name."""
        name = self.rng.choice((*CLASSES, "other"))
        found = {**mutated(self.rng, self.devices._device_class(CLASSES[0])), "kind": "DeviceClass"}
        self.target.show({**found, "metadata": {"name": name}}, "MODIFIED")

    def _taint(self) -> None:
        selector = {"driver": "gpu.example.com", "pool": "odd-1", "device": "d0x0"}
        taint = {"key": "sick", "value": "a", "effect": self.rng.choice(("NoExecute", "None"))}
        rule = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
                "spec": {"deviceSelector": selector, "taint": taint}}  # fmt: skip
        self.target.tell_rule(mutated(self.rng, rule))

    def _end(self) -> None:
        ours = [uid for uid, pod in self.target.pods.items()
                if str(pod["metadata"]["name"]).startswith("asks-")]  # fmt: skip
        if ours:
            self.target.end_pod(self.rng.choice(ours))


def claims_story(seed: int) -> int:
    """How often a device was allocated."""
    case = ClaimCase(seed)
    case.run()
    return case.target.allocated
