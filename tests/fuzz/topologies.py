"""Objects that describe the topology, with much in them that can be changed."""

from fuzz.objects import SELECTOR, Json

_LEVELS = {"levels": [
    {"nodeLabel": "zone"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"},
]}  # fmt: skip


def _member(kind: str, **selector: Json) -> Json:
    return {"type": kind, "selector": selector}


#: By dialect.
TOPOLOGIES: dict[str, Json] = {
    "kai": {"spec": _LEVELS},
    "kueue": {"spec": _LEVELS},
    "volcano": {
        "spec": {
            "tier": 1, "tierName": "rack",
            "members": [
                _member("Node", exactMatch={"name": "gpus-1"}),
                _member("Node", regexMatch={"pattern": "^gpus-[0-2]+$"}),
                _member("Node", labelMatch=SELECTOR),
                _member("Node", labelMatch={"matchLabels": {"zone": "a"}}),
                _member("HyperNode", exactMatch={"name": "b"}),
            ],
        },
        "status": {"nodeCount": 3, "conditions": [{"type": "Ready", "status": "True"}]},
    },
}  # fmt: skip
