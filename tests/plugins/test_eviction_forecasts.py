"""What rules that look around foresee is what they say when it has happened."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod
from examples import examples
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule
from fairlead.plugins.api import EvictionForecast
from fairlead.plugins.inter_pod_affinity import InterPodAffinity
from fairlead.plugins.pod_topology_spread import PodTopologySpread

NODES = 4
LINES = st.builds(
    Requirement,
    st.just("app"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sampled_from([("x",), ("y",), ("x", "y")]),
)
SELECTORS = st.none() | st.lists(LINES, max_size=2).map(lambda lines: LabelSelector(tuple(lines)))
KEYS = st.sampled_from(["zone", "host"])
TERMS = st.lists(st.builds(PodTerm, KEYS, SELECTORS, st.just(("default",))), max_size=2).map(tuple)
SPREADS = st.lists(
    st.builds(SpreadRule, KEYS, st.integers(1, 2), SELECTORS, st.integers(1, 3)), max_size=2
).map(tuple)
LABELS = st.fixed_dictionaries({}, optional={"app": st.sampled_from(["x", "y"])})
THERE = st.builds(
    lambda **told: told,
    node=st.integers(0, NODES - 1),
    labels=LABELS,
    priority=st.integers(0, 1),
    deleting=st.booleans(),
    anti_affinity=TERMS,
)
NODE_LABELS = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from(["z1", "z2"]), "host": st.sampled_from(["h1", "h2"])}
)


def a_cluster(labels: list[dict[str, str]], there: list[dict]) -> Cluster:
    cluster = Cluster()
    for number, of_node in enumerate(labels):
        cluster.put_node(a_node(f"n{number}", labels=of_node))
    for number, told in enumerate(there):
        cluster.confirm(a_pod(f"t{number}", **told | {"node": f"n{told['node']}"}))
    return cluster


@examples(150)
@given(
    st.lists(NODE_LABELS, min_size=NODES, max_size=NODES),
    st.lists(THERE, max_size=6),
    st.builds(
        a_pod,
        st.just("asks"),
        labels=LABELS,
        required_affinity=TERMS,
        anti_affinity=TERMS,
        spread=SPREADS,
    ),
    st.data(),
)
def test_foreseen_is_what_comes(labels, there, pod: Pod, data: st.DataObject) -> None:
    cluster = a_cluster(labels, there)
    request = pod.request_with((), cluster.columns.pods.keys_of_anti_affinity | {"app"})
    rules: list[EvictionForecast] = [InterPodAffinity(), PodTopologySpread()]
    row = data.draw(st.integers(0, NODES - 1))
    held = cluster.held_on(f"n{row}")
    for rule in rules:
        if not rule.applies(request, cluster.nodes):
            continue
        trial = rule.trial(request, cluster.nodes)
        foreseen = list(rule.reasons_without(request, cluster.nodes, 1))
        with cluster.draft(row) as draft:
            for each in held:
                if each.pod.priority < 1:
                    draft.take(each)
            ask = trial.at(row, [each.pod for each in held])
            assert ask() == rule.allows(request, cluster.nodes)[row]
            for before, after in zip(foreseen, rule.reasons(request, cluster.nodes), strict=True):
                assert before.text == after.text
                assert before.where[row] == after.where[row]
                assert before.resolvable[row] == after.resolvable[row]
            for each in held:
                if each.pod.priority < 1 and data.draw(st.booleans()):
                    draft.add(each)
                    assert ask() == rule.allows(request, cluster.nodes)[row]
        assert np.array_equal(
            rule.allows(request, cluster.nodes),
            ~np.any([reason.where for reason in rule.reasons(request, cluster.nodes)], axis=0),
        )
