"""Branches of what is beyond feasibility by itself: scores, volumes and evictions."""

from collections.abc import Callable, Mapping

from oracle.case import Object, labels_of
from oracle.eviction import means
from oracle.judge import best_nodes, feasible_nodes
from oracle.seen import APART, NEAR, Seen, leaving
from oracle.some_volumes import LATER, LOCAL, SELECTED

Branches = Mapping[str, Callable[[Seen], object]]

# -- scores --------------------------------------------------------------------------------------


def competing(seen: Seen) -> list[Object]:
    """The nodes among which scores decided; none where there was nothing to decide."""
    fit = feasible_nodes(seen.probed.judged) if seen.placed else set()
    return [n for n in seen.nodes if n["metadata"]["name"] in fit] if len(fit) > 1 else []


def _if_competing(took: Callable[[Seen], object]) -> Callable[[Seen], object]:
    return lambda s: competing(s) and took(s)


def _soft_taints(seen: Seen) -> bool:
    taints = [t for node in competing(seen) for t in node["spec"].get("taints", ())]
    return any(t["effect"] == "PreferNoSchedule" for t in taints)


def _keyless(seen: Seen) -> bool:
    keys = {rule["topologyKey"] for rule in seen.spread(hard=False)}
    return any(key not in labels_of(node) for key in keys for node in competing(seen))


def _owned_by(kind: str) -> Callable[[Seen], object]:
    return _if_competing(
        lambda s: any(
            owner["kind"] == kind for owner in s.probed.probe["metadata"].get("ownerReferences", ())
        )
    )


def _served(seen: Seen) -> bool:
    """A Service means the probe."""
    own = seen.probed.probe["metadata"]
    labels = labels_of(seen.probed.probe).items()
    return any(
        service["metadata"]["namespace"] == own["namespace"]
        and service["spec"]["selector"].items() <= labels
        for service in seen.case.of_kind("Service")
    )


SCORES: Branches = {
    "score: only one fits": lambda s: s.placed and not competing(s),
    "score: several fit": competing,
    "score: a tie": _if_competing(lambda s: len(best_nodes(s.probed.judged)) > 1),
    "score: preferred node affinity": _if_competing(lambda s: s.preferred_nodes()),
    "score: soft taints": _soft_taints,
    "score: soft spread": _if_competing(lambda s: s.spread(hard=False)),
    "score: soft spread, and a node without the key": _keyless,
    "score: prefers to be near": _if_competing(lambda s: s.soft_terms(NEAR)),
    "score: prefers to be apart": _if_competing(lambda s: s.soft_terms(APART)),
    "score: others prefer": _if_competing(
        lambda s: any(s.soft_terms(NEAR, APART, of=pod) for pod in s.bound)
    ),
    "score: others require": _if_competing(lambda s: any(s.terms(NEAR, of=p) for p in s.bound)),
    "score: spread by default, of a Service": _if_competing(_served),
    "score: spread by default, of a ReplicaSet": _owned_by("ReplicaSet"),
    "score: spread by default, of a StatefulSet": _owned_by("StatefulSet"),
    "score: spread by default, of a ReplicationController": _owned_by("ReplicationController"),
}

IMAGES: Branches = {
    "image: on some of the nodes": _if_competing(
        lambda s: len({str(node["status"].get("images")) for node in competing(s)}) > 1
    ),
}

FEATURES: Branches = {
    "features: refused": lambda s: s.says("required features"),
    "features: met": lambda s: (
        s.placed and any("restartPolicyRules" in c for c in s.spec["containers"])
    ),
}

# -- volumes -------------------------------------------------------------------------------------


def claims_of(seen: Seen) -> list[Object]:
    """Claims of the probe that are there."""
    own = seen.probed.probe["metadata"]["namespace"]
    sources = (volume.get("persistentVolumeClaim") for volume in seen.spec.get("volumes", ()))
    names = {source["claimName"] for source in sources if source}
    return [
        claim
        for claim in seen.case.of_kind("PersistentVolumeClaim")
        if claim["metadata"]["namespace"] == own and claim["metadata"]["name"] in names
    ]


def _waits_for(name: str) -> Callable[[Seen], object]:
    return lambda s: (
        s.theirs.waits
        and any(
            claim["spec"].get("storageClassName") == name and "volumeName" not in claim["spec"]
            for claim in claims_of(s)
        )
    )


def _told(text: str) -> Callable[[Seen], object]:
    return lambda s: s.says(text)


VOLUMES: Branches = {
    "volume: bound, and placed": lambda s: (
        s.placed and any("volumeName" in claim["spec"] for claim in claims_of(s))
    ),
    "volume: WFFC static match": _waits_for(LOCAL),
    "volume: WFFC provisioned or matched": _waits_for(LATER),
    "volume: WFFC finds none": _told("didn't find available persistent volumes to bind"),
    "volume: a node was selected already": lambda s: any(
        SELECTED in claim["metadata"].get("annotations", {}) for claim in claims_of(s)
    ),
    "volume: of other nodes": _told("didn't match PersistentVolume's node affinity"),
    "volume: of another zone": _told("no available volume zone"),
    "volume: no capacity": _told("not have enough free storage"),
    "volume: too many": _told("exceed max volume count"),
    "volume: a disk in use": _told("no available disk"),
    "volume: for one pod alone": _told("ReadWriteOncePod"),
    "claim: missing": _told('persistentvolumeclaim "missing" not found'),
    "claim: unbound, and not to wait": _told("unbound immediate"),
    "claim: leaves": _told("is being deleted"),
    "claim: lost": _told("bound to non-existent persistentvolume"),
    "claim: of a volume that is gone": _told("pv-gone"),
    "claim: ephemeral": _told("waiting for ephemeral volume controller"),
}

# -- evictions -----------------------------------------------------------------------------------


def _on_nominated(seen: Seen) -> list[Object]:
    """Pods of less importance where room is made."""
    own = seen.spec.get("priority", 0)
    return [
        pod
        for pod in seen.bound
        if pod["spec"]["nodeName"] == seen.theirs.nominated and pod["spec"].get("priority", 0) < own
    ]


def _budgeted(seen: Seen) -> bool:
    budgets = seen.case.of_kind("PodDisruptionBudget")
    return any(means(budget, pod) for pod in _on_nominated(seen) for budget in budgets)


def _gains_nothing(seen: Seen) -> bool:
    """Evicting everybody less important would still not do, somewhere."""
    told = seen.theirs.message.partition(" preemption: ")[2]
    return any(word in told for word in ("Insufficient", "rules", "constraints", "ports"))


def _makes_room_for(text: str) -> Callable[[Seen], object]:
    return lambda s: s.theirs.nominated and s.says(text)


PREEMPTION: Branches = {
    "eviction: makes room": lambda s: s.theirs.nominated,
    "eviction: several victims": lambda s: len(s.theirs.victims) > 1,
    "eviction: some are spared": lambda s: len(_on_nominated(s)) > len(s.theirs.victims) > 0,
    "eviction: of resources": _makes_room_for("Insufficient"),
    "eviction: of a pod's place": _makes_room_for("Too many pods"),
    "eviction: of ports": _makes_room_for("ports"),
    "eviction: of pods that must not be near": _makes_room_for("anti-affinity"),
    "eviction: of spread pods": _makes_room_for("spread constraints"),
    "eviction: of who has a claim alone": _makes_room_for("ReadWriteOncePod"),
    "eviction: under a budget": _budgeted,
    "eviction: beside a pod that leaves": lambda s: any(leaving(p) for p in _on_nominated(s)),
    "eviction: never": lambda s: s.says("preemptionPolicy=Never"),
    "eviction: nobody less important": lambda s: s.says("No preemption victims found"),
    "eviction: would not be enough": _gains_nothing,
}
