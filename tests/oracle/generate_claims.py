"""Clusters with devices of drivers, and pods that claim them, from a seed."""

from oracle.case import Case, Object
from oracle.configurations import DEFAULT, DEVICES
from oracle.draws import Draw
from oracle.some_devices import DrawnDevices, label_for_administrators, use_claims
from oracle.some_nodes import CALM, WIDGET, namespaces, nodes
from oracle.some_pods import any_pod, probe, subjects

#: The feature of these cases.
CLAIMS = "claims"
PROBES = 6
#: What a probe may ask for besides.
_BESIDES = {"node", "names", "affinity"}


def generate_claims(seed: int) -> Case:
    """One cluster of a few nodes; every third asks the profile that counts devices in scores."""
    draw = Draw(f"claims of {seed}")
    cluster = nodes(draw, {CALM})[: draw.weighted({1: 2, 2: 3, 3: 3, 4: 1})]
    for node in cluster:
        if draw.chance(0.2):
            node["status"]["allocatable"] = {**node["status"]["allocatable"], WIDGET: "2"}
    names = [node["metadata"]["name"] for node in cluster]
    devices = DrawnDevices(draw, names, Draw(f"later claims of {seed}"))
    spaces = namespaces(draw)
    label_for_administrators(spaces)
    made: list[Object] = []
    probes = []
    for number in range(PROBES):
        pod = _probe(draw, f"probe-{number}", names)
        pod["spec"]["schedulerName"] = DEFAULT if seed % 3 else DEVICES
        made += use_claims(draw, pod, devices)
        probes.append(pod)
    objects = [*spaces, *devices.objects(), *made, *cluster]
    return Case(f"claims-seed-{seed}", objects, probes, [CLAIMS])


def _probe(draw: Draw, name: str, nodes: list[str]) -> Object:
    if draw.chance(0.2):
        return probe(draw, name, nodes, _BESIDES, subjects(draw, _BESIDES), 1)
    return any_pod(draw, name)
