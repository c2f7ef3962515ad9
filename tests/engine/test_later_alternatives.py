"""Gangs whose claims get later alternatives (`firstAvailable`), so that they fit whole."""

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from test_gang_claims import devices_of, step_of

from builders import SCHEDULER, a_node, decide, see, without_annotations
from claim_objects import a_claim, a_claim_user, a_claiming_pod, a_slice, an_allocation
from fairlead.apps.config.profiles import built_in, claiming
from fairlead.engine import alternative_settings, events, later_alternatives
from fairlead.engine.alternative_settings import settings
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Evict, Instruction, Prepare
from fairlead.model.claims import DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.model.devices import CounterSet, Device, DeviceClass, DeviceForm
from fairlead.model.gangs import GangSpec, Membership, TopologyRule

KEY = "fairlead/default/g"
SIZES = {"whole": 4, "half": 2, "quarter": 1}


def an_engine(*nodes: str, cards: int = 1, tries_later: bool = True, **more: Any) -> Engine:
    """Nodes with cards that can be used whole, as halves or as quarters."""
    profile = claiming(built_in(SCHEDULER), tries_later=tries_later, **more)
    engine = Engine({SCHEDULER: profile}, encode=without_annotations)
    for size in SIZES:
        show(engine, DeviceClass(size, (f"device.attributes['gpu.nvidia.com'].size == '{size}'",)))
    for name in nodes:
        engine.handle(events.NodeSeen(a_node(name, gpus=0)), now=0.0)
        show(engine, *cards_of(name, cards))
    return engine


def cards_of(node: str, cards: int) -> list[Any]:
    total = (("slots", 4),)
    sets = tuple(CounterSet(f"card-{card}", total) for card in range(cards))
    parts = [
        Device(
            DeviceForm(f"{size}-{card}-{at}",
                       consumes=(CounterSet(f"card-{card}", (("slots", slots),)),)),
            (("size", size),),
        )
        for card in range(cards) for size, slots in SIZES.items() for at in range(4 // slots)
    ]  # fmt: skip
    return [
        a_slice(node, *parts, slice_count=2),
        a_slice(node, name=f"{node}-sets", slice_count=2, counter_sets=sets),
    ]


def show(engine: Engine, *objects: Any, now: float = 0.0) -> None:
    for each in objects:
        engine.handle(events.ClaimObjectSeen(each), now=now)


def wanting(name: str, *sizes: str) -> ResourceClaim:
    needs = tuple(DeviceNeed(size, name=size) for size in sizes)
    return a_claim(name, requests=(DeviceRequest("r", first_available=needs),))


def gang(engine: Engine, *claims: ResourceClaim, minimum: int | None = None, **more: Any) -> None:
    show(engine, *claims)
    membership = Membership(KEY, spec=GangSpec(KEY, minimum or len(claims)))
    see(engine, *(a_claiming_pod(f"m{at}", claim.name, gang=membership, **more)
                  for at, claim in enumerate(claims)))  # fmt: skip


def taken(made: list[Instruction]) -> list[str]:
    """The sizes of the devices that the members get."""
    asked = [each for each in made if isinstance(each, Prepare)]
    return [device.partition("-")[0] for each in asked for device in devices_of(each)]


def said(made: list[Instruction]) -> str:
    return next(each.message for each in made if isinstance(each, AnnounceFailure))


def test_two_members_have_half_a_card_each() -> None:
    engine = an_engine("n1")
    claims = [wanting(f"c{at}", "whole", "half") for at in range(2)]
    gang(engine, *claims)
    made = decide(engine)
    assert taken(made) == ["half", "half"]
    asked = [each for each in made if isinstance(each, Prepare)]
    writes = [write for each in asked for write in step_of(each).writes]
    named = {write.claim.key: write.claim for write in writes}
    assert named == {claim.key: claim for claim in claims}, "with all of their alternatives"
    assert engine.cluster.claims.claims == {claim.key: claim for claim in claims}
    assert {device.request for write in writes if write.allocation
            for device in write.allocation.devices} == {"r/half"}  # fmt: skip


def test_without_the_option_the_first_member_takes_the_card() -> None:
    """As kube-scheduler does; the gang waits."""
    engine = an_engine("n1", tries_later=False)
    gang(engine, wanting("a", "whole", "half"), wanting("b", "whole", "half"))
    made = decide(engine)
    assert not taken(made)
    assert "1 of 2 pods fit" in said(made)
    assert "alternatives" not in said(made)


def test_first_alternatives_stay_where_the_gang_fits_with_them() -> None:
    engine = an_engine("n1", "n2")
    gang(engine, wanting("a", "whole", "half"), wanting("b", "whole", "half"))
    assert taken(decide(engine)) == ["whole", "whole"]


def test_as_many_members_as_possible_keep_their_first_alternative() -> None:
    engine = an_engine("n1", "n2")
    gang(engine, *(wanting(f"c{at}", "whole", "half", "quarter") for at in range(3)))
    assert sorted(taken(decide(engine))) == ["half", "half", "whole"]


@pytest.mark.parametrize("most", [64, 1])
def test_a_large_gang_gets_later_alternatives_for_as_few_as_possible(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """All settings are tried, or only some."""
    monkeypatch.setattr(alternative_settings, "MOST_SETTINGS", most)
    engine = an_engine("n1", cards=8)
    gang(engine, *(wanting(f"c{at}", "whole", "half") for at in range(12)))
    assert sorted(taken(decide(engine))) == ["half"] * 8 + ["whole"] * 4


def test_members_that_share_a_claim_have_one_alternative() -> None:
    engine = an_engine("n1")
    show(engine, wanting("shared", "whole", "half"), wanting("own", "half"))
    membership = Membership(KEY, spec=GangSpec(KEY, 3))
    for name, claim in (("a", "shared"), ("b", "shared"), ("c", "own")):
        see(engine, a_claiming_pod(name, claim, gang=membership))
    made = [each for each in decide(engine) if isinstance(each, Prepare)]
    assert {each.pod.name: devices_of(each) for each in made}.keys() == {"a", "b", "c"}
    assert {device for each in made for device in devices_of(each)} == {"half-0-0", "half-0-1"}


def test_a_gang_that_does_not_fit_whatever_it_gets_waits_and_keeps_nothing() -> None:
    engine = an_engine("n1")
    gang(engine, *(wanting(f"c{at}", "whole", "half") for at in range(3)))
    made = decide(engine)
    assert not taken(made)
    assert "were tried" not in said(made), "all of them were"
    assert not engine.cluster.claims.held


def test_when_some_were_left_out_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternative_settings, "MOST_SETTINGS", 1)
    engine = an_engine("n1")
    gang(engine, *(wanting(f"c{at}", "whole", "half") for at in range(3)))
    assert said(decide(engine)).endswith("Not all later alternatives of its claims were tried.")


def test_a_gang_that_waits_is_tried_when_a_card_is_free() -> None:
    engine = an_engine("n1")
    show(engine, a_claim("other", allocation=an_allocation("n1", "whole-0-0")))
    gang(engine, wanting("a", "whole", "half"), wanting("b", "whole", "half"))
    assert not taken(decide(engine))
    show(engine, a_claim("other"), now=30.0)
    assert taken(decide(engine, now=60.0)) == ["half", "half"]


def test_what_a_gang_lacks_besides_devices_is_not_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []
    monkeypatch.setattr(later_alternatives, "settings", tried.append)
    engine = an_engine("n1", cards=4)
    gang(engine, wanting("a", "whole", "half"), wanting("b", "whole", "half"), cpu=60_000)
    assert not taken(decide(engine))
    assert not tried


def test_the_search_goes_on_in_later_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_alternatives, "_TURN_WORK", 1)
    engine = an_engine("n1")
    gang(engine, *(wanting(f"c{at}", "whole", "half", "quarter") for at in range(4)))
    made: list[Instruction] = []
    turns = 0
    while not made and turns < 20:
        attempt = engine.decide(now=1.0)
        assert attempt is not None
        made, turns = [*attempt.instructions], turns + 1
    assert turns > 3
    assert taken(made) == ["quarter"] * 4


def test_the_search_ends_after_some_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_alternatives, "_TURN_WORK", 1)
    monkeypatch.setattr(later_alternatives, "_MOST_TURNS", 3)
    engine = an_engine("n1")
    gang(engine, *(wanting(f"c{at}", "whole", "half", "quarter") for at in range(4)))
    made = decide(engine)
    assert not taken(made)
    assert "Not all later alternatives" in said(made)


def every(*claims: ResourceClaim, fits: bool = False) -> list[Any]:
    """All settings, if none fits, or each that is not the answer."""
    left = settings(claims)
    found = [next(left)]
    while True:
        try:
            found.append(left.send(fits))
        except StopIteration:
            return found


def test_settings_leave_out_as_little_as_possible_first() -> None:
    found = every(wanting("a", "whole", "half"), wanting("b", "whole", "half"))
    assert found == [
        ({"default/b": (1,)}, True),
        ({"default/a": (1,), "default/b": (1,)}, True),
    ]


def test_the_number_of_settings_is_limited() -> None:
    """Thirty-two requests with eight alternatives each, a hundred times."""
    needs = tuple(DeviceNeed("gpu", name=f"n{at}") for at in range(8))
    requests = tuple(DeviceRequest(f"r{at}", first_available=needs) for at in range(32))
    claims = [a_claim(f"c{at}", requests=requests) for at in range(100)]
    assert len(every(*claims)) <= 8
    assert len(every(*claims, fits=True)) < 16


@pytest.mark.parametrize("seed", range(25))
def test_a_gang_fits_whenever_some_alternatives_do(seed: int) -> None:
    """On one node with one to three cards; and with the earliest that are possible."""
    lots = Random(seed)
    cards, members = lots.randint(1, 3), lots.randint(1, 5)
    lists = [("whole", "half"), ("whole", "half", "quarter"), ("half", "quarter"), ("whole",)]
    sizes = [lots.choice(lists) for _ in range(members)]
    engine = an_engine("n1", cards=cards)
    gang(engine, *(wanting(f"c{at}", *each) for at, each in enumerate(sizes)))
    possible = [choice for choice in product(*sizes) if _fit(choice, cards)]
    found = taken(decide(engine))
    if not possible:
        assert not found
        return
    assert len(found) == members
    best = min(sum(each.index(size) for each, size in zip(sizes, choice, strict=True))
               for choice in possible)  # fmt: skip
    assert _lateness(engine, sizes) == best


def _fit(choice: tuple[str, ...], cards: int) -> bool:
    """Sizes divide each other: the largest first fit if any order does."""
    free = [4] * cards
    for slots in sorted((SIZES[size] for size in choice), reverse=True):
        at = next((at for at, left in enumerate(free) if left >= slots), None)
        if at is None:
            return False
        free[at] -= slots
    return True


def _lateness(engine: Engine, sizes: list[tuple[str, ...]]) -> int:
    held = engine.cluster.claims.held
    return sum(each.index(held[f"u-c{at}"][0].device.partition("-")[0])
               for at, each in enumerate(sizes))  # fmt: skip


def test_nobody_is_evicted_if_later_alternatives_are_enough() -> None:
    engine = an_engine("n1", "n2", preempts=True)
    low = replace(a_claiming_pod("low", "low"), node="n2")
    has = an_allocation("n2", "whole-0-0")
    show(engine, a_claim("low", allocation=has, reserved_for=(a_claim_user(low),)))
    see(engine, low)
    gang(engine, wanting("a", "whole", "half"), wanting("b", "whole", "half"), priority=10)
    made = decide(engine)
    assert taken(made) == ["half", "half"]
    assert not [each for each in made if isinstance(each, Evict)]


def test_a_gang_in_one_rack_has_later_alternatives_there() -> None:
    """Each rack has a node with one card."""
    engine = an_engine()
    for name in ("n1", "n2"):
        node = a_node(name, gpus=0, labels={"example.com/rack": name})
        engine.handle(events.NodeSeen(node), now=0.0)
        show(engine, *cards_of(name, 1))
    spec = GangSpec(KEY, 2, topology=(TopologyRule("example.com/rack"),))
    show(engine, *(wanting(name, "whole", "half") for name in "ab"))
    see(engine, *(a_claiming_pod(f"m-{name}", name, gang=Membership(KEY, spec=spec))
                  for name in "ab"))  # fmt: skip
    made = decide(engine)
    assert taken(made) == ["half", "half"]
    assert len({each.node for each in made if isinstance(each, Prepare)}) == 1


def test_looking_at_a_gang_changes_nothing() -> None:
    """What `fairlead explain` says of a gang before it is tried."""
    engine = an_engine("n1")
    claims = [wanting(f"c{at}", "whole", "half") for at in range(2)]
    gang(engine, *claims)
    (entry,) = engine.queue.gangs()
    outlook = engine.gang_outlook(entry.unit.pod)
    assert outlook is not None
    assert outlook.state == "fits"
    assert engine.cluster.claims.claims == {claim.key: claim for claim in claims}
    assert not engine.cluster.claims.held
    assert taken(decide(engine)) == ["half", "half"]
