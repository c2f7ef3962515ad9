"""Clusters and pods from a seed: the same seed and features always make the same case."""

from collections.abc import Collection

from oracle.case import Case
from oracle.draws import Draw
from oracle.some_nodes import namespaces, nodes
from oracle.some_pods import bound_pods, probe

#: Everything that can be drawn. A feature that Fairlead lacks is left out of `FEATURES`.
ALL_FEATURES = frozenset(
    {"node", "names", "affinity", "spread", "scores", "images", "features", "volumes", "preemption"}
)
FEATURES = frozenset({"node", "affinity", "spread"})

PROBES = 8


def generate(seed: int, features: Collection[str] = FEATURES) -> Case:
    """One cluster and a handful of probes."""
    draw = Draw(seed)
    cluster = nodes(draw, features)
    names = [node["metadata"]["name"] for node in cluster]
    objects = [*namespaces(draw), *bound_pods(draw, names, features), *cluster]
    probes = [probe(draw, f"probe-{number}", names, features) for number in range(PROBES)]
    return Case(f"seed-{seed}", objects, probes, sorted(features))
