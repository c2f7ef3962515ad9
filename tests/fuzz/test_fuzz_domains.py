"""Mutated ComputeDomains and pods with their channels: no object ends anything but itself."""

import copy
import json
from collections.abc import Iterable
from random import Random

import pytest

from fairlead.apps.explain.compute_domains import domain_lines, domains_answer
from fairlead.engine import events
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.compute_domains import decode_compute_domain
from fairlead.model.compute_domains import CHANNEL_DRIVER
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.searching import batches
from fuzz.target import Target

CASES, STEPS = 20, 30
DOMAIN: Json = {
    "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "t"}}},
    "status": {"status": "NotReady", "nodes": [{"name": "sane-0", "cliqueID": "a.1"}]},
}
_CHANNEL: Json = {
    "spec": {"devices": {
        "requests": [{"name": "c", "exactly": {"deviceClassName": "deviceclass-0", "count": 1,
                                               "allocationMode": "ExactCount"}}],
        "config": [{"opaque": {"driver": CHANNEL_DRIVER, "parameters": {
            "kind": "ComputeDomainChannelConfig", "domainID": "u-a"}}}]}},
}  # fmt: skip


def _named(rng: Random, obj: Json) -> bytes:
    found: Json = mutated(rng, copy.deepcopy(obj))
    found = found if isinstance(found, dict) else {}
    name = rng.choice("ab")
    found["metadata"] = {"name": name, "namespace": "default", "uid": f"u-{name}"}
    return json.dumps(found).encode()


def _show(target: Target, rng: Random) -> None:
    if rng.random() < 0.5:
        domain = decode_compute_domain(_named(rng, DOMAIN))
        gone = rng.random() < 0.2
        target.feed(events.ClaimObjectGone(domain) if gone else events.ClaimObjectSeen(domain))
    else:
        target.feed(events.ClaimObjectSeen(decode_claim(_named(rng, _CHANNEL))))


def _a_pod(rng: Random, number: int) -> Json:
    said = {"fairlead.dev/gang": "g", "fairlead.dev/gang-min": rng.choice(("1", "2"))}
    of = rng.choice(({"resourceClaimName": "a"}, {"resourceClaimTemplateName": "t"}))
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"p{number}", "annotations": said if rng.random() < 0.8 else {}},
        "spec": {"schedulerName": "gpu-scheduler", "resourceClaims": [{"name": "c", **of}],
                 "containers": [{"name": "main", "image": "x"}]},
    }  # fmt: skip


def _try(seed: int) -> None:
    rng = Random(seed)
    target = Target(rng)
    for number in range(STEPS):
        if rng.random() < 0.6:
            _show(target, rng)
        else:
            target.show(_a_pod(rng, rng.randint(0, number)))
        target.decide(rng.choice((0, 1, 3)))
        for entry in list(target.engine.queue.gangs()):
            for pod in entry.unit.pods:
                found = domains_answer(target.engine, pod, nodes=True)
                list(domain_lines(found.get("computeDomains", [])))
    target.check()


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_compute_domain_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        _try(seed)
