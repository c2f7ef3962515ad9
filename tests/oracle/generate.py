"""Clusters and pods from a seed: the same seed and features always make the same case."""

from collections.abc import Collection

from oracle.case import Case
from oracle.configurations import DEFAULT
from oracle.draws import Draw
from oracle.some_budgets import budgets
from oracle.some_extras import gated_pods, keep_from_evicting, weigh_down
from oracle.some_nodes import CALM, namespaces, nodes
from oracle.some_nominations import nominate_some, nominated_pods
from oracle.some_oddities import make_odd
from oracle.some_owners import adopt, owners
from oracle.some_pods import bound_pods, probe, subjects
from oracle.some_volumes import part_claims, storage, use_volumes

#: Everything that can be drawn.
ALL_FEATURES = frozenset(
    {
        "node",
        "names",
        "affinity",
        "spread",
        "scores",
        "images",
        "features",
        "volumes",
        "preemption",
        "nominations",
        "arguments",
    }
)
#: What Fairlead has; whoever adds one of the others puts it in here.
FEATURES = ALL_FEATURES

PROBES = 8


def generate(
    seed: int,
    features: Collection[str] = FEATURES,
    *,
    calm: bool = False,
    scheduler: str = DEFAULT,
) -> Case:
    """One cluster and a handful of probes; in a calm cluster scores have more to decide.

    `scheduler` is the name that the probes ask by, one of those that have a configuration.
    """
    draw = Draw(seed)
    wanted = sorted(features)
    if calm:
        features = {*features, CALM}
    cluster = nodes(draw, features)
    names = [node["metadata"]["name"] for node in cluster]
    bound = bound_pods(draw, names, features)
    # Pods with volumes ask for little else, or few would get as far as their volumes.
    stores = "volumes" in features and draw.chance(0.4)
    most = 1 if stores else 3
    weights = subjects(draw, features)
    probes = [probe(draw, f"probe-{n}", names, features, weights, most) for n in range(PROBES)]
    more = []
    if "scores" in features:
        more += owners(draw)
        for pod in probes:
            if draw.chance(0.4):
                adopt(draw, pod, more)
    if stores:
        more += storage(draw, names)
        for pod in (*bound, *probes):
            if draw.chance(0.8 if pod in probes else 0.3):
                use_volumes(draw, pod, more)
        part_claims(bound, more)
    make_odd(Draw(f"oddities of {seed}"), more, probes)
    if "preemption" in features:
        more += budgets(draw, bound)
        keep_from_evicting(probes, bound)
    extras = Draw(f"extras of {seed}")
    weigh_down(extras, (*bound, *probes))
    waiting = gated_pods(extras)
    if "nominations" in features:
        nominations = Draw(f"nominations of {seed}")
        nomination = nominated_pods(nominations, names, features)
        for pod in nomination:
            if stores and nominations.chance(0.4):
                use_volumes(nominations, pod, more)
        waiting += nomination
        nominate_some(nominations, probes, bound, names)
    for pod in probes:
        pod["spec"]["schedulerName"] = scheduler
    name = "-".join(["calm"] * calm + [scheduler] * (scheduler != DEFAULT) + ["seed", str(seed)])
    return Case(name, [*namespaces(draw), *more, *bound, *waiting, *cluster], probes, wanted)
