"""Which claims a pod uses, and what they ask for, as data and as text."""

from collections.abc import Iterator
from typing import Any

from fairlead.cluster.claim_details import AskedClaim, asked_claims
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod

Answer = dict[str, Any]

_NOT_MADE = "not made yet: does the template exist, and does kube-controller-manager run?"


def claims_answer(cluster: Cluster, pod: Pod) -> Answer:
    """Nothing, unless the pod names claims."""
    found = asked_claims(pod.request.claims, cluster.claims)
    return {"claims": [_told(each) for each in found]} if found else {}


def _told(found: AskedClaim) -> Answer:
    return {
        "entry": found.use.entry,
        "claim": found.use.key,
        "template": found.use.template,
        "asks": found.asks,
        "devices": [str(device) for device in found.devices],
        "problem": found.problem,
    }


def asked_claim_lines(claims: list[Answer]) -> Iterator[str]:
    """The answer as text."""
    for claim in claims:
        name = claim["claim"] or f"of template {claim['template']}, {_NOT_MADE}"
        asks = f" asks for {claim['asks']}" if claim["asks"] else ""
        has = f", has {', '.join(claim['devices'])}" if claim["devices"] else ""
        problem = f": {claim['problem']}" if claim["problem"] and claim["claim"] else ""
        yield f"claim {claim['entry']} ({name}){asks}{has}{problem}"
