"""LeaderWorkerSets and Dynamo: their topology rules hold for whole groups."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, pod_term, see
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind
from fairlead.kube.gangs.api import PodWords
from fairlead.kube.gangs.fairlead import FairleadGangs
from fairlead.kube.gangs.grove import Grove
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.leader_groups import led_group
from fairlead.model.pods import Pod

LWS, RACK = "leaderworkerset.sigs.k8s.io/", "example.com/rack"


def racks(**nodes: tuple[str, int]) -> Engine:
    """Nodes with their racks and GPUs."""
    made = [
        a_node(name, gpus=gpus, labels={RACK: rack, "kubernetes.io/hostname": name})
        for name, (rack, gpus) in nodes.items()
    ]
    return an_engine(*made)


def a_leader(group: str, size: str = "3", index: str = "0", **more: object) -> Pod:
    """As the controller makes it, with its terms of affinity."""
    near = (pod_term(RACK, **{LWS + "group-key": group}),)
    pod = a_pod(f"{group}-{index}", gpus=4, uid=f"{group}-{index}", required_affinity=near, **more)
    said = {LWS + "exclusive-topology": RACK, LWS + "size": size}
    labels = {LWS + "group-key": group, LWS + "worker-index": index, LWS + "name": "serve"}
    return replace(pod, annotations=said, labels=labels)


def nodes_of(engine: Engine, *pods: Pod) -> dict[str, str]:
    see(engine, *pods)
    return {each.pod.uid: each.node for each in decide(engine) if isinstance(each, Bind)}


def test_a_leader_goes_where_its_whole_group_has_room() -> None:
    engine = racks(a=("r1", 4), b=("r1", 4), c=("r2", 4), d=("r2", 4), e=("r2", 4))
    assert nodes_of(engine, a_leader("g")) == {"g-0": "c"}, "r1 has room for two of three"


def test_a_leader_whose_group_fits_nowhere_is_placed_as_before() -> None:
    engine = racks(a=("r1", 4), b=("r1", 4), c=("r2", 4))
    assert nodes_of(engine, a_leader("g")) == {"g-0": "a"}


@pytest.mark.parametrize("size", ["", "x", "1", "-3", "99999999", "²"])
def test_a_size_that_is_none_changes_nothing(size: str) -> None:
    engine = racks(a=("r1", 4), c=("r2", 4), d=("r2", 4), e=("r2", 4))
    assert nodes_of(engine, a_leader("g", size)) == {"g-0": "a"}


def test_workers_and_pods_without_the_term_lead_no_group() -> None:
    assert led_group(a_leader("g")) == (RACK, 3)
    assert led_group(a_leader("g", index="1")) is None
    without = a_leader("g")
    without = replace(without, request=replace(without.request, required_affinity=()))
    assert led_group(without) is None


# -- groups as gangs ---------------------------------------------------------------------------


def of_group(group: str, index: str, **said: str) -> Membership | None:
    labels = {LWS + "name": "serve", LWS + "group-index": group, LWS + "worker-index": index}
    annotations = {LWS + "size": "3", "fairlead.dev/gang-topology": f"required: {RACK}", **said}
    return FairleadGangs().membership(PodWords("ns", f"serve-{group}-{index}", labels, annotations))


def test_each_group_with_a_topology_rule_is_a_gang_of_all_its_pods() -> None:
    first, second = of_group("0", "2"), of_group("1", "0")
    assert first is not None
    assert second is not None
    assert (first.gang, first.rank) == ("fairlead/ns/serve-0", 2)
    assert second.gang == "fairlead/ns/serve-1"
    spec = first.spec
    assert isinstance(spec, GangSpec)
    assert (spec.minimum, [rule.level for rule in spec.topology]) == (3, [RACK])


def test_groups_of_one_set_get_a_rack_each() -> None:
    engine = racks(a=("r1", 8), b=("r1", 4), c=("r2", 8), d=("r2", 4))
    pods = [
        a_pod(f"{group}-{n}", uid=f"{group}-{n}", gpus=4, gang=of_group(group, str(n)))
        for group in "01"
        for n in range(3)
    ]
    found = nodes_of(engine, *pods)
    assert len(found) == 6
    for group in "01":
        its = {found[f"{group}-{n}"] for n in range(3)}
        assert its in ({"a", "b"}, {"c", "d"})


def test_what_cannot_be_a_gang_is_said() -> None:
    with pytest.raises(FairleadError, match="workers are created only when their leader"):
        of_group("0", "0", **{LWS + "exclusive-topology": RACK})
    with pytest.raises(FairleadError, match=r"fairlead\.dev/gang is missing"):
        of_group("0", "0", **{LWS + "size": "many"})


def test_without_a_rule_the_pods_of_a_set_are_no_gang() -> None:
    labels = {LWS + "name": "serve", LWS + "group-index": "0", LWS + "worker-index": "0"}
    assert FairleadGangs().membership(PodWords("ns", "p", labels, {LWS + "size": "3"})) is None


# -- Dynamo ------------------------------------------------------------------------------------

_RACK = b'{"packConstraint":{"required":"example.com/rack"}}'
_HOST = b'{"packConstraint":{"required":"kubernetes.io/hostname"}}'


def test_prefill_and_decode_of_a_dynamo_deployment_get_one_rack() -> None:
    """As Grove describes the graph: one domain for all, and a narrower one for a service."""
    raw = (
        b'{"podgroups":['
        b'{"name":"llm-0-frontend","minReplicas":1},'
        b'{"name":"llm-0-prefill","minReplicas":2,"topologyConstraint":' + _HOST + b"},"
        b'{"name":"llm-0-decode","minReplicas":2}],"topologyConstraint":' + _RACK + b"}"
    )
    spec = Grove().spec("grove/default/llm-0", raw)
    engine = racks(a=("r1", 4), b=("r2", 4), c=("r2", 2), d=("r1", 1))
    gpus = {"frontend": 0, "prefill": 2, "decode": 1}
    pods = [
        a_pod(
            f"{role}-{n}",
            uid=f"{role}-{n}",
            gpus=gpus[role],
            gang=Membership(spec.key, f"llm-0-{role}", spec=spec),
        )
        for role, count in (("frontend", 1), ("prefill", 2), ("decode", 2))
        for n in range(count)
    ]
    found = nodes_of(engine, *pods)
    assert len(found) == 5, "six GPUs are in rack r2 only"
    assert set(found.values()) <= {"b", "c"}
    assert found["prefill-0"] == found["prefill-1"] == "b"
