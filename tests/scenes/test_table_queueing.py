"""When a refused pod tries again: a table of rule by event."""

import pytest

from fairlead.model.behaviour import KUBERNETES_1_36
from queueing_turns import BOUND, QUIET, TURNS, Turn
from stages import Stage
from tables import apart, node, params, pod, rows, term
from volume_scenes import QUEUEING as ABOUT_VOLUMES

TABLE = rows(TURNS, ABOUT_VOLUMES)


@pytest.mark.parametrize("turn", params(TABLE))
def test_a_refused_pod_tries_again_when_that_could_help(play: Stage, turn: Turn) -> None:
    play.clear()
    for collection, body in turn.objects:
        play.make(collection, body)
    for name, labels in turn.namespaces.items():
        play.add_namespace(name, labels)
    for name, what in turn.nodes.items():
        play.add_node(name, what)
    for number, there in enumerate(turn.there):
        play.add_pod(f"there-{number}", there)
    play.ready()
    path = play.ask("asks", turn.asks)
    play.soon(lambda: turn.because in play.condition(path).get("message", ""), turn.because)
    play.mark()
    before = play.attempts()
    turn.happens(play)
    follows = _by_kube(turn, play) if play.is_kube else turn.follows
    if follows == BOUND:
        play.wait_bound(path)
        return
    play.mark()
    assert (play.attempts() == before) is (follows == QUIET)
    assert not play.node_of(path)


def _by_kube(turn: Turn, play: Stage) -> str:
    old = play.behaviour is KUBERNETES_1_36
    return (old and turn.kube_1_36) or turn.kube or turn.follows


def test_all_that_are_alike_follow_each_other(play: Stage) -> None:
    """A node with room for all of them comes: each lets the next one try."""
    play.clear()
    play.ready()
    paths = [play.ask(f"asks-{number}", pod("app=me", "cpu=1")) for number in range(4)]
    for path in paths:
        play.wait_refused(path)
    play.add_node("a", node())
    for path in paths:
        play.wait_bound(path)


def test_they_do_so_when_somebody_meanwhile_minds_one_of_their_labels(play: Stage) -> None:
    """Labels matter from then on, and what helps one helps those like it no longer."""
    play.clear()
    play.add_node("a", node("zone=z1", "cpu=1"))
    play.ready()
    minded = play.ask("asks-minded", pod("mine=minded", "cpu=2"))
    play.wait_refused(minded)
    paths = [play.ask(f"asks-{number}", pod("mine=fine", "cpu=2")) for number in range(3)]
    for path in paths:
        play.wait_refused(path)
    play.add_pod("minds", pod(on="a", affinity=apart(term("zone", "mine=minded"))))
    play.mark()
    play.add_node("b", node("zone=z1", "cpu=6"))
    for path in paths:
        play.wait_bound(path)
    assert not play.node_of(minded)
