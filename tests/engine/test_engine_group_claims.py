"""Claims of PodGroups: one for all pods of a group, reserved for the group."""

from dataclasses import replace

import pytest
from test_gang_claims import engine_with, prepares, show, step_of

from builders import a_pod, decide, see
from claim_objects import a_claim, a_slice, an_allocation
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind, FreeClaim
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ClaimUser
from fairlead.model.gangs import GangSpec, GroupClaim, GroupClaims, Membership
from fairlead.model.pods import Pod

GROUP = "native/default/g"
USER = ClaimUser("u-g", "g", "podgroups", "scheduling.k8s.io")
OWNED = {"owner": "u-g", "owner_group": "default/g"}


def a_group(*entries: GroupClaim, minimum: int = 2) -> events.GangSeen:
    return events.GangSeen(GangSpec(GROUP, minimum, claims=GroupClaims("u-g", entries)))


def a_member(name: str, use: ClaimUse) -> Pod:
    own = replace(use, pod=f"default/{name}", owner=f"u-{name}") if use.template else use
    return a_pod(name, uid=f"u-{name}", claims=(own,), gang=Membership(GROUP))


def users(engine: Engine) -> list[ClaimUser | None]:
    return [write.user for asked in prepares(engine) for write in step_of(asked).writes]


MADE = ClaimUse("shared", "default/made", template="t", group="default/g")


@pytest.mark.parametrize(
    ("entry", "for_group"),
    [
        (GroupClaim("shared", template="t"), True),
        (GroupClaim("shared", template="other"), False),
        (GroupClaim("other", template="t"), False),
        (GroupClaim("shared", "made"), False),
    ],
)
def test_a_claim_is_of_the_group_if_its_entry_has_the_same_name_and_template(
    entry: GroupClaim, for_group: bool
) -> None:
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), a_claim("made", **OWNED))
    engine.handle(a_group(entry), now=0.0)
    see(engine, a_member("a", MADE), a_member("b", MADE))

    assert users(engine) == ([USER, USER] if for_group else [None, None])


def test_a_claim_made_for_another_group_is_not_used() -> None:
    made = a_claim("made", owner="u-h", owner_group="default/h")
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), made)
    engine.handle(a_group(GroupClaim("shared", template="t")), now=0.0)
    see(engine, a_member("a", MADE), a_member("b", MADE))

    assert prepares(engine) == []
    assert engine.cluster.claims.problem_with(a_member("a", MADE).request.claims[0]) == (
        "ResourceClaim default/made was not created for Pod default/a "
        "(neither Pod nor PodGroup g is the owner)"
    )


def test_a_pod_is_bound_when_its_claim_is_reserved_for_its_group() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim("made", **OWNED))
    engine.handle(a_group(GroupClaim("shared", template="t"), minimum=1), now=0.0)
    pod = a_member("a", MADE)
    see(engine, pod)
    (asked,) = prepares(engine)
    (write,) = step_of(asked).writes
    show(engine, replace(write.claim, allocation=write.allocation, reserved_for=(USER,)), now=1.0)

    made = engine.handle(events.Prepared(pod.uid), now=1.0)

    assert any(isinstance(each, Bind) for each in made)


@pytest.mark.parametrize("has_node", [False, True])
def test_a_claim_of_a_group_is_freed_only_while_no_pod_of_it_has_a_node(has_node: bool) -> None:
    held = a_claim("made", **OWNED, allocation=an_allocation("n9", "gpu-0"), reserved_for=(USER,))
    engine = engine_with(a_slice("n1", "gpu-0", "gpu-1"), held)
    engine.handle(a_group(GroupClaim("shared", template="t"), minimum=1), now=0.0)
    if has_node:
        see(engine, replace(a_member("running", MADE), node="n9"))
    see(engine, a_member("a", MADE))

    freed = [each.claim for each in decide(engine) if isinstance(each, FreeClaim)]

    assert freed == ([] if has_node else [held])


def test_after_the_group_is_gone_its_claims_are_those_of_pods() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim("c"))
    groups = engine.cluster.claims.groups
    use = ClaimUse("shared", "default/c", group="default/g")
    engine.handle(a_group(GroupClaim("shared", "c")), now=0.0)
    assert groups.user_of(use) == USER
    engine.handle(events.GangGone(GROUP), now=1.0)
    assert groups.user_of(use) is None
