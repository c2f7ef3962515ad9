"""Rarely used corners of the API, put on top of a drawn case by lots of their own."""

from collections.abc import Sequence
from typing import NamedTuple

from oracle.case import Object, copied
from oracle.draws import HOST, ZONE, Draw
from oracle.some_nodes import IMAGES
from oracle.some_volumes import KEEP, LATER, LOCAL


class Moved(NamedTuple):
    """A plugin of old that became a CSI driver, and how a volume of it names its disk."""

    plugin: str
    driver: str
    source: str
    key: str


MOVED = (
    Moved("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gcePersistentDisk", "pdName"),
    Moved("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "awsElasticBlockStore", "volumeID"),
)
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
GOLD = "gold"


def make_odd(draw: Draw, things: Sequence[Object], pods: Sequence[Object]) -> None:
    """Changes some of the storage and of the pods; each may get at most one of a kind."""
    for pod in pods:
        _make_pod_odd(draw, pod["spec"])
    by_kind = {
        "CSIDriver": _insist,
        "CSINode": _migrate,
        "PersistentVolume": _make_volume_odd,
        "PersistentVolumeClaim": _make_claim_odd,
    }
    for thing in things:
        if thing["kind"] in by_kind:
            by_kind[thing["kind"]](draw, thing)
    _promise_volumes(draw, things)


# -- pods ----------------------------------------------------------------------------------------


def _make_pod_odd(draw: Draw, spec: Object) -> None:
    if draw.chance(0.1):
        image = {"reference": draw.one(list(IMAGES)), "pullPolicy": "IfNotPresent"}
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "image", "image": image}]
    if draw.chance(0.3):
        _linger(draw, spec.get("tolerations", ()))
    if draw.chance(0.1) and spec.get("initContainers"):
        _open_while_starting(draw, spec["initContainers"][0])
    if draw.chance(0.15):
        _spread_twice(draw, spec.get("topologySpreadConstraints", []))
    if "resources" in spec and draw.chance(0.5):
        _share_memory(draw, spec)
    if draw.chance(0.05):
        _only_limit(draw.one(spec["containers"]))


def _linger(draw: Draw, tolerations: Sequence[Object]) -> None:
    """How long a taint is borne makes no difference to who may come."""
    for toleration in tolerations:
        if toleration.get("effect") == "NoExecute":
            toleration["tolerationSeconds"] = draw.one((0, 60))


def _open_while_starting(draw: Draw, container: Object) -> None:
    """A host port of an init container that ends takes nothing; one of a sidecar does."""
    port = draw.one((80, 443))
    container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "SCTP"}]


def _spread_twice(draw: Draw, rules: list[Object]) -> None:
    """Two rules about one key, of which one is a wish."""
    if len(rules) == 1:
        more = copied(rules[0])
        hard = more["whenUnsatisfiable"] == "DoNotSchedule"
        more["whenUnsatisfiable"] = "ScheduleAnyway" if hard else "DoNotSchedule"
        more["maxSkew"] = draw.randint(1, 3)
        more.pop("minDomains", None)
        rules.append(more)


def _share_memory(draw: Draw, spec: Object) -> None:
    """Memory for the pod as a whole, which may not be less than its containers'."""
    spec["resources"]["requests"]["memory"] = draw.one(("4Gi", "8Gi"))
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        if "memory" in container["resources"]["requests"]:
            container["resources"]["requests"]["memory"] = "64Mi"


def _only_limit(container: Object) -> None:
    """What is limited and not asked for is asked for, too."""
    resources = container["resources"]
    if "cpu" not in resources["requests"]:
        resources["limits"] = {**resources.get("limits", {}), "cpu": "1500m"}


# -- storage -------------------------------------------------------------------------------------


def _insist(draw: Draw, driver: Object) -> None:
    """Since 1.37, a driver may want to be on the node; before, nobody hears it."""
    if draw.chance(0.4):
        driver["spec"]["preventPodSchedulingIfMissing"] = True


def _migrate(draw: Draw, node: Object) -> None:
    if draw.chance(0.4):
        moved = draw.one(MOVED)
        node["metadata"]["annotations"] = {MIGRATED: moved.plugin}
        limit = {"count": draw.one((0, 1, 2))}
        found = {"name": moved.driver, "nodeID": node["metadata"]["name"], "allocatable": limit}
        node["spec"]["drivers"].append(found)


def _make_volume_odd(draw: Draw, volume: Object) -> None:
    spec, name = volume["spec"], volume["metadata"]["name"]
    what = draw.weighted(
        {"": 14, "block": 1, "class": 1, "leaves": 1, "moved": 3, "no affinity": 1}
    )
    match what:
        case "block":
            spec["volumeMode"] = "Block"
        case "class":
            spec["volumeAttributesClassName"] = GOLD
        case "leaves":
            volume["metadata"] |= {"finalizers": [KEEP], "deletionTimestamp": "soon"}
        case "moved":
            moved = draw.one(MOVED)
            del spec["csi"]
            spec[moved.source] = {moved.key: name}
        case "no affinity":
            line = {"key": HOST, "operator": "DoesNotExist"}
            terms = [{"matchExpressions": [line]}, {"matchExpressions": [{**line, "key": ZONE}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}


def _make_claim_odd(draw: Draw, claim: Object) -> None:
    match draw.weighted({"": 16, "block": 1, "class": 1}):
        case "block":
            claim["spec"]["volumeMode"] = "Block"
        case "class":
            claim["spec"]["volumeAttributesClassName"] = GOLD


def _promise_volumes(draw: Draw, things: Sequence[Object]) -> None:
    """Somebody wrote the name of a claim that still waits into a volume."""
    claims = [
        claim
        for claim in things
        if claim["kind"] == "PersistentVolumeClaim"
        and "volumeName" not in claim["spec"]
        and claim["spec"]["storageClassName"] in (LATER, LOCAL)
    ]
    for volume in things:
        free = volume["kind"] == "PersistentVolume" and "claimRef" not in volume["spec"]
        if free and claims and draw.chance(0.12):
            mine = draw.one(claims)["metadata"]
            volume["spec"]["claimRef"] = {key: mine[key] for key in ("name", "namespace")}
