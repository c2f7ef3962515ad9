"""Branches of what is rarely used: corners of the API about pods and about storage."""

from collections.abc import Callable, Mapping

from oracle.branches_beyond import claims_of
from oracle.case import Object
from oracle.seen import Seen, leaving
from oracle.some_oddities import GOLD, MIGRATED, MOVED

Branches = Mapping[str, Callable[[Seen], object]]


def _ends(container: Object) -> bool:
    return container.get("restartPolicy") != "Always"


def _only_limits(container: Object) -> bool:
    resources = container["resources"]
    return "cpu" in resources.get("limits", {}) and "cpu" not in resources["requests"]


def _twice(seen: Seen) -> bool:
    keys = [rule["topologyKey"] for rule in seen.spec.get("topologySpreadConstraints", ())]
    return len(keys) > len(set(keys))


ODD_PODS: Branches = {
    "toleration: for a while": lambda s: any(
        "tolerationSeconds" in toleration for toleration in s.spec.get("tolerations", ())
    ),
    "ports: of a container that ends": lambda s: any(
        "ports" in container and _ends(container) for container in s.spec.get("initContainers", ())
    ),
    "fit: memory for the pod as a whole": lambda s: (
        "memory" in s.spec.get("resources", {}).get("requests", {})
    ),
    "fit: a limit alone": lambda s: any(map(_only_limits, s.spec["containers"])),
}
ODD_SPREAD: Branches = {"spread: one key twice": _twice}
ODD_IMAGES: Branches = {
    "image: a volume": lambda s: any("image" in volume for volume in s.spec.get("volumes", ())),
}

# -- storage -------------------------------------------------------------------------------------


def _in_question(seen: Seen) -> list[Object]:
    """Volumes that a claim of the probe has, or could be given."""
    claims = claims_of(seen)
    bound = {claim["spec"].get("volumeName") for claim in claims}
    wanted = {c["spec"]["storageClassName"] for c in claims if "volumeName" not in c["spec"]}
    return [
        volume
        for volume in seen.case.of_kind("PersistentVolume")
        if volume["metadata"]["name"] in bound or volume["spec"]["storageClassName"] in wanted
    ]


def _some_volume(holds: Callable[[Object], object]) -> Callable[[Seen], object]:
    return lambda s: any(map(holds, _in_question(s)))


def _migrated(seen: Seen) -> bool:
    nodes = seen.case.of_kind("CSINode")
    return any(MIGRATED in node["metadata"].get("annotations", {}) for node in nodes)


def _of_old(volume: Object) -> bool:
    return any(moved.source in volume["spec"] for moved in MOVED)


def _insists(seen: Seen) -> bool:
    drivers = seen.case.of_kind("CSIDriver")
    return any("preventPodSchedulingIfMissing" in driver["spec"] for driver in drivers)


ODD_STORAGE: Branches = {
    "volume: of a plugin of old": lambda s: _migrated(s) and any(map(_of_old, _in_question(s))),
    "volume: in blocks": _some_volume(lambda v: v["spec"].get("volumeMode") == "Block"),
    "volume: leaves": _some_volume(leaving),
    "volume: of another quality": _some_volume(
        lambda v: v["spec"].get("volumeAttributesClassName") == GOLD
    ),
    "volume: meant for a claim": _some_volume(
        lambda v: "claimRef" in v["spec"] and v["status"]["phase"] != "Bound"
    ),
    "volume: of a driver that wants to be there": lambda s: _insists(s) and _in_question(s),
    "claim: for blocks": lambda s: any("volumeMode" in c["spec"] for c in claims_of(s)),
    "claim: of a quality": lambda s: any(
        "volumeAttributesClassName" in claim["spec"] for claim in claims_of(s)
    ),
}
