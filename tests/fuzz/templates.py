"""ResourceClaims and their templates in manifests, as users write them for `what-if`."""

from random import Random
from typing import Any

from fairlead.apps.what_if.workload import ManifestDefaults, workload_of
from fairlead.engine.events import ClaimObjectSeen
from fairlead.model.errors import ConfigError
from fuzz.mutations import mutated

DEVICES: dict[str, Any] = {
    "requests": [
        {"name": "r", "exactly": {
            "deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount",
            "selectors": [{"cel": {"expression": "true"}}], "tolerations": [{"key": "k"}],
            "capacity": {"requests": {"memory": "1Gi"}},
        }},
        {"name": "s", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
    ],
    "constraints": [{"requests": ["r"], "matchAttribute": "gpu.nvidia.com/model"}],
    "config": [{"opaque": {"driver": "d", "parameters": {"a": 1}}}],
}  # fmt: skip
POD = {
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "schedulerName": "gpu-scheduler",
        "containers": [{"name": "main", "image": "x"}],
        "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}],
    },
}


def _drawn(rng: Random) -> dict[str, Any]:
    kind = rng.choice(("ResourceClaim", "ResourceClaimTemplate"))
    spec = {"devices": DEVICES}
    body = {"metadata": {"name": "t"}, "spec": spec if kind == "ResourceClaim" else {"spec": spec}}
    changed = mutated(rng, body)
    changed = changed if isinstance(changed, dict) else {}
    return {**changed, "apiVersion": "resource.k8s.io/v1", "kind": kind}


def sentence_about(seed: int) -> str:
    """The sentence that refuses it; empty: it was read."""
    objects = [_drawn(Random(seed)), POD]
    try:
        found = workload_of(objects, ManifestDefaults())
    except ConfigError as error:
        return str(error)
    claims = [event for event in found.events if isinstance(event, ClaimObjectSeen)]
    assert len(claims) + len(found.templates) == 1
    return ""
