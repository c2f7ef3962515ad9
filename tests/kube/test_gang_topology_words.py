"""The annotation fairlead.dev/gang-topology."""

import pytest

from fairlead.kube.gangs.api import PodWords
from fairlead.kube.gangs.fairlead import TOPOLOGY, FairleadGangs
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import GangSpec, Group, TopologyRule

ZONE = "topology.kubernetes.io/zone"


def spec_of(text: str) -> GangSpec:
    said = {"fairlead.dev/gang": "train", "fairlead.dev/gang-min": "8", TOPOLOGY: text}
    membership = FairleadGangs().membership(PodWords("team", "train-0", annotations=said))
    assert membership is not None
    assert membership.spec is not None
    return membership.spec


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (f"required: {ZONE}", (TopologyRule(ZONE),)),
        ("preferred: rack", (TopologyRule("rack", required=False),)),
        (
            f" required:{ZONE} ; preferred: rack,patience 10m; ",
            (TopologyRule(ZONE), TopologyRule("rack", required=False, patience_s=600.0)),
        ),
        ("required: rack, patience 1h30m", (TopologyRule("rack", patience_s=5400.0),)),
    ],
)
def test_rules(text: str, rules: tuple[TopologyRule, ...]) -> None:
    assert spec_of(text).topology == rules
    assert spec_of(text).groups == ()


def test_sets_are_a_group_of_all_pods() -> None:
    spec = spec_of("preferred: zone; sets of 4: hostname")
    rule = TopologyRule("hostname")
    assert spec.groups == (Group("", 8, set_size=4, set_topology=(rule,)),)
    assert spec.topology == (TopologyRule("zone", required=False),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; write for example"),
        ("rack", "has 'rack'; write for example 'required: "),
        ("wanted: rack", "has 'wanted: rack'"),
        ("required:", "has the level ''; write a node label or the name of a level"),
        ("required: a b", "has the level 'a b'"),
        ("required: rack, 10m", "has '10m'; write for example 'patience 10m'"),
        ("required: rack, patience soon", "'soon' is no length of time"),
        ("required: rack, patience 0s", "has a patience of 0s; write 1s or more"),
        ("sets of 1: rack", "has sets of 1; write a number from 2"),
        ("sets of 2: rack; sets of 4: rack", "has two sizes of sets"),
        (";".join(["required: rack"] * 9), "has 9 rules; the limit is 8"),
        ("required: rack;" * 1000, "is longer than 2048 characters"),
    ],
)
def test_what_is_no_rule_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(FairleadError) as caught:
        spec_of(text)
    assert str(caught.value).startswith(TOPOLOGY)
    assert says in str(caught.value)


def test_rules_without_a_gang_are_refused() -> None:
    with pytest.raises(FairleadError, match="gang is missing"):
        FairleadGangs().membership(PodWords("t", "p", annotations={TOPOLOGY: "required: rack"}))
