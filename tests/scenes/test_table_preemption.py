"""Making room for the important: a table, and stories that take more than one step."""

import pytest

from happenings import cordoned, goes, node_comes, node_goes, node_labelled, path_of
from preemption_scenes import EACH_FOUR, FOUR, SCENES, Scene, gpus, has, wants
from stages import Stage
from tables import HOME, Body, node, params, rows, selector
from volume_scenes import PREEMPTION as ABOUT_VOLUMES

TABLE = rows(SCENES, ABOUT_VOLUMES)
HELD = {"metadata": {"finalizers": ["example.com/hold"]}}


@pytest.mark.parametrize("scene", params(TABLE))
def test_those_go_who_have_to_and_nobody_else(play: Stage, scene: Scene) -> None:
    set_up(play, scene.nodes, scene.there, scene.budgets, scene.objects)
    path = play.ask("asks", scene.asks)
    if scene.on:
        assert play.wait_bound(path) in scene.on.split()
    else:
        play.wait_refused(path)
        play.mark()
    gone = [name for name in scene.there if leaving(play, name)]
    assert len(gone) == 1 if scene.victims == "?" else gone == scene.victims.split()


def test_a_nomination_is_kept_from_the_same_and_lower_but_not_from_higher(play: Stage) -> None:
    high = nominated(play)
    lower, same = play.ask("lower", wants(2, "low")), play.ask("same", wants(2))
    play.wait_refused(lower)
    play.wait_refused(same)
    assert play.wait_bound(play.ask("above", wants(2, "higher"))) == "a"
    release(play, "x")
    play.mark()
    assert not play.node_of(high)


def test_a_nomination_is_redeemed_when_the_victim_is_gone(play: Stage) -> None:
    high = nominated(play)
    lower = play.ask("lower", wants(2, "low"))
    play.wait_refused(lower)
    release(play, "x")
    assert play.wait_bound(high) == "a"
    assert play.nominated(high) == ""
    play.mark()
    assert not play.node_of(lower)


def test_the_node_of_a_nominated_pod_that_goes_is_for_others(play: Stage) -> None:
    nominated(play)
    lower = play.ask("lower", wants(2, "low"))
    play.wait_refused(lower)
    goes("asks")(play)
    assert play.wait_bound(lower) == "a"


def test_nobody_else_is_evicted_while_a_victim_takes_its_time(play: Stage) -> None:
    set_up(play, EACH_FOUR, {"x": has(4, **HELD), "y": has(4, on="b", priority="middle", **HELD)})
    high = play.ask("asks", wants(4))
    play.soon(lambda: play.nominated(high) == "a", "nominated")
    play.soon(lambda: leaving(play, "x"), "x evicted")
    before = play.attempts()
    for label in ("one", "two", "three"):
        node_labelled("b", f"{label}=x")(play)
        play.mark()
    assert not leaving(play, "y")
    assert play.attempts() == before
    release(play, "x")
    assert play.wait_bound(high) == "a"


def test_a_more_important_pod_takes_the_nominated_node(play: Stage) -> None:
    set_up(play, FOUR, {"x": has(2, **HELD), "y": has(2, **HELD)})
    middle = play.ask("middle", wants(2, "middle"))
    play.soon(lambda: play.nominated(middle) == "a", "middle nominated")
    high = play.ask("asks", wants(4))
    play.soon(lambda: play.nominated(high) == "a", "high nominated")
    play.soon(lambda: play.nominated(middle) == "", "the nomination of middle cleared")
    release(play, "x")
    release(play, "y")
    assert play.wait_bound(high) == "a"
    assert not play.node_of(middle)


def test_a_pod_goes_elsewhere_when_it_can(play: Stage) -> None:
    """Its promised node is cordoned; what it was promised there is for others."""
    high = nominated(play)
    lower = play.ask("lower", wants(2, "low", nodeSelector={"disk": "ssd"}))
    play.wait_refused(lower)
    node_comes("b", gpus(4))(play)
    assert play.wait_bound(high) == "b"
    assert play.wait_bound(lower) == "a"


def test_a_nominated_node_that_is_cordoned_does_not_bind(play: Stage) -> None:
    high = nominated(play)
    cordoned("a", now=True)(play)
    release(play, "x")
    play.mark()
    assert not play.node_of(high)
    node_comes("b", gpus(4))(play)
    assert play.wait_bound(high) == "b"


def test_others_are_evicted_elsewhere_when_the_nominated_node_is_gone(play: Stage) -> None:
    set_up(play, EACH_FOUR, {"x": has(4, **HELD), "y": has(4, on="b", priority="middle")})
    high = play.ask("asks", wants(4))
    play.soon(lambda: leaving(play, "x"), "x evicted")
    node_goes("a")(play)
    release(play, "x")
    assert play.wait_bound(high) == "b"


def test_a_nomination_is_remembered_over_a_restart(play: Stage) -> None:
    high = nominated(play, EACH_FOUR | {"b": gpus(4)}, {"y": has(4, on="b", priority="middle")})
    with play.interval():
        lower = play.ask("lower", wants(2, "low"))
    play.wait_refused(lower)
    play.wait_refused(high)
    assert play.nominated(high) == "a"
    assert not leaving(play, "y")
    release(play, "x")
    assert play.wait_bound(high) == "a"
    assert not play.node_of(lower)


def test_two_at_once_do_not_evict_the_same(play: Stage) -> None:
    set_up(play, EACH_FOUR, {"x": has(4, **HELD), "y": has(4, on="b", **HELD)})
    paths = [play.ask(name, wants(4)) for name in ("one", "two")]
    play.soon(lambda: {play.nominated(path) for path in paths} == {"a", "b"}, "one node each")
    release(play, "x")
    release(play, "y")
    assert {play.wait_bound(path) for path in paths} == {"a", "b"}


def test_two_at_once_share_a_node(play: Stage) -> None:
    set_up(play, FOUR, {"x": has(2), "y": has(2)})
    paths = [play.ask(name, wants(2)) for name in ("one", "two")]
    assert [play.wait_bound(path) for path in paths] == ["a", "a"]
    assert leaving(play, "x")
    assert leaving(play, "y")


def test_the_important_one_is_not_starved_by_many_small_ones(play: Stage) -> None:
    set_up(play, FOUR, {f"x-{number}": has(1) for number in range(4)})
    small = [play.ask(f"small-{number}", wants(1, "low")) for number in range(6)]
    for path in small:
        play.wait_refused(path)
    assert play.wait_bound(play.ask("asks", wants(4))) == "a"
    assert not any(play.node_of(path) for path in small)


def test_a_gentle_pod_goes_first_when_there_is_room(play: Stage) -> None:
    set_up(play, FOUR, {"x": has(4)})
    small = play.ask("small", wants(4, "low"))
    gentle = play.ask("asks", wants(4, "gentle"))
    play.wait_refused(small)
    play.wait_refused(gentle)
    play.wait_out_backoff(gentle)  # of both: the one that ends first would go first
    goes("x")(play)
    assert play.wait_bound(gentle) == "a"
    assert not play.node_of(small)


def test_denied_evictions_are_no_reason_to_hurry_nor_to_give_up(play: Stage) -> None:
    set_up(play, FOUR, {"x": has(4)})
    with play.nobody_may_delete():
        high = play.ask("asks", wants(4))
        play.wait_refused(high)
        before, began_s = play.attempts(), play.now_s()
        play.soon(lambda: play.attempts() >= before + 2, "tried twice more")
        took_s = play.now_s() - began_s
    assert play.wait_bound(high) == "a"
    assert took_s > 1.0


# -- nominations by others -----------------------------------------------------------------------

GATED = [{"name": "example.com/wait"}]


def test_a_nomination_by_somebody_else_is_followed(play: Stage) -> None:
    set_up(play, {"a": gpus(4), "b": gpus(8), "c": gpus(4)}, {})
    for name in ("a", "b", "c"):
        path = nominated_by_hand(play, f"for-{name}", wants(2, "low"), name)
        assert play.wait_bound(path) == name
        assert play.nominated(path) == ""


def test_a_nomination_for_too_small_a_node_is_dropped(play: Stage) -> None:
    set_up(play, FOUR, {})
    path = nominated_by_hand(play, "large", wants(5, "low"), "a")
    play.wait_refused(path)
    play.soon(lambda: play.nominated(path) == "", "the nomination cleared")
    assert play.wait_bound(play.ask("small", wants(4, "low"))) == "a"


def test_a_nomination_for_an_unfit_node_is_not_followed(play: Stage) -> None:
    set_up(play, {"a": node(room="cpu=1", taints="x:NoSchedule"), "b": node()}, {})
    path = nominated_by_hand(play, "asks", wants(0, "low"), "a")
    assert play.wait_bound(path) == "b"


def test_a_nomination_does_not_hold_up_the_more_important(play: Stage) -> None:
    set_up(play, FOUR, {"x": has(2, priority="higher")})
    low = play.ask("low", wants(4, "low"))
    play.wait_refused(low)
    play.change(f"{low}/status", {"status": {"nominatedNodeName": "@a"}})
    assert play.wait_bound(play.ask("high", wants(2))) == "a"


def nominated_by_hand(play: Stage, name: str, what: Body, node_name: str) -> str:
    """A pod that had a nomination when its gate was lifted."""
    gated = {**what, "spec": {**what["spec"], "schedulingGates": GATED}}
    path = play.ask(name, gated)
    play.change(f"{path}/status", {"status": {"nominatedNodeName": f"@{node_name}"}})
    play.change(path, {"spec": {"schedulingGates": []}})
    return path


# -- telling the stories -------------------------------------------------------------------------


def set_up(
    play: Stage,
    nodes: dict[str, Body],
    there: dict[str, Body],
    budgets: dict[str, int] | None = None,
    objects: tuple[tuple[str, Body], ...] = (),
) -> None:
    play.clear()
    for collection, body in objects:
        play.make(collection, body)
    for app, allowed in (budgets or {}).items():
        make_budget(play, app, allowed)
    for name, what in nodes.items():
        play.add_node(name, what)
    for name, what in there.items():
        play.add_pod(name, what)
    play.ready()


def nominated(
    play: Stage, nodes: dict[str, Body] | None = None, more: dict[str, Body] | None = None
) -> str:
    """An important pod waits for a node with two free GPUs, until a victim is gone from there."""
    disk = {"a": gpus(4, "disk=ssd")}
    set_up(play, {**(nodes or {}), **disk}, {"x": has(2, **HELD), **(more or {})})
    path = play.ask("asks", wants(4))
    play.soon(lambda: play.nominated(path) == "a", "nominated")
    play.soon(lambda: leaving(play, "x"), "x evicted")
    return path


def leaving(play: Stage, name: str) -> bool:
    """Is the pod gone, or on its way out?"""
    found = play.get(path_of(name))
    return not found or "deletionTimestamp" in found["metadata"]


def release(play: Stage, name: str) -> None:
    """What kept the victim is gone, and the victim with it."""
    play.change(path_of(name), {"metadata": {"finalizers": None}})


def make_budget(play: Stage, app: str, allowed: int) -> None:
    collection = f"/apis/policy/v1/namespaces/{HOME}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": selector(f"app={app}")}
    play.make(collection, {"metadata": {"name": app}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        "observedGeneration": 1,
    }  # fmt: skip
    play.change(f"{collection}/{app}/status", {"status": status})
