"""The live view: from a state to lines, at the sizes that terminals have."""

import io
import re

import pytest
from rich.console import Console

from fairlead.apps.up.queue_bars import QueueBar
from fairlead.apps.up.view import Decision, NodeRow, Screen, clock, render

SIZES = [(80, 24), (120, 30), (200, 50), (40, 10)]


def lines(screen, width=80, height=24, *, colour=False):
    file = io.StringIO()
    system = "256" if colour else None
    console = Console(
        file=file, width=width, height=height, force_terminal=colour, color_system=system
    )
    console.print(render(screen, width, height))
    return file.getvalue().splitlines()


def a_row(name="n1", gpus="AA..", **more):
    return NodeRow(name, "H100", gpus, **more)


def a_screen(**more):
    defaults = {
        "elapsed_s": 65.0,
        "nodes": (a_row("n1", "AAB."), a_row("n2", "...x")),
        "queue": {"to try": 1, "backing off": 0, "no node fits": 2},
        "decisions": (
            Decision(64.0, "train-1", bound=True, text="n1", mark="B"),
            Decision(60.0, "huge-1", bound=False, text="0/2 nodes are available: too few"),
        ),
        "bound": 7,
        "binds_per_s": 1.4,
        "hint": "kubectl get pods",
    }
    return Screen(**{**defaults, **more})


def many(count):
    return tuple(a_row(f"node-{number:04d}", "AAAAAAA.") for number in range(count))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("nodes", [0, 2, 12, 1000])
def test_it_fills_the_terminal_and_no_more(width, height, nodes):
    long = Decision(1.0, "p" * 70, bound=False, text="why " * 100)
    shown = lines(a_screen(nodes=many(nodes), decisions=(long,) * 60), width, height)
    assert len(shown) == height
    assert max(len(line) for line in shown) <= width


def test_gpus_are_told_apart_without_colour():
    shown = "\n".join(lines(a_screen()))
    assert "n1  A  A  B  .  3/4" in shown
    assert "n2  .  .  .  x  0/4" in shown
    assert "3/8 GPUs" in shown


def test_every_piece_of_work_has_a_colour():
    [line] = [each for each in lines(a_screen(), colour=True) if "n1" in each and "3/4" in each]
    assert line.count("\x1b[") >= 3


def test_decisions_say_where_or_why():
    shown = lines(a_screen())
    assert any("train-1 bound to n1" in line.replace("  ", " ") for line in shown)
    assert any("huge-1" in line and "waits: 0/2 nodes are available" in line for line in shown)


def test_a_refusal_stays_in_sight_while_somebody_waits():
    latest = tuple(Decision(9.0, f"p-{number}", bound=True, text="n1") for number in range(99))
    waiting = Decision(1.0, "huge-1", bound=False, text="too few GPUs")
    shown = lines(a_screen(decisions=(*latest, waiting), waiting=(waiting,)))
    assert "huge-1" in shown[-2]


@pytest.mark.parametrize(("width", "height"), SIZES[:3])
def test_the_queue_the_rates_and_the_hint_are_there(width, height):
    shown = "\n".join(lines(a_screen(p50_ms=3.0, p99_ms=1500.0), width, height))
    for words in (
        "1 to try, 0 backing off, 2 no node fits",
        "bound 7 (1.4/s)",
        "p50 3 ms p99 1.5 s",
        "kubectl get pods",
        "1:05",
    ):
        assert words in shown


def test_a_node_in_trouble_says_so():
    nodes = (a_row("n1", state="not ready"), a_row("n2", state="cordoned"))
    shown = "\n".join(lines(a_screen(nodes=nodes)))
    assert "not ready" in shown
    assert "cordoned" in shown


def test_nodes_that_do_not_fit_are_counted():
    shown = "\n".join(lines(a_screen(nodes=many(1000))))
    assert "more nodes with" in shown
    assert "7000/8000 GPUs" in shown


def test_a_wide_terminal_shows_decisions_beside_the_nodes():
    shown = lines(a_screen(), 200, 50)
    assert any("n1" in line and "│" in line and "train-1" in line for line in shown)


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (65, "1:05"), (3661, "1:01:01")])
def test_time_reads_like_a_clock(seconds, text):
    assert clock(seconds) == text


QUEUES = (
    QueueBar("company", 0, 8, 6, 8.0, 2),
    QueueBar("research", 1, 4, 1, 5.0, 2, "R"),
    QueueBar("product", 1, 2, 5, 3.0, 0, "P", limit=6),
)


def test_queues_are_bars_of_what_they_use_beside_guarantee_and_fair_share():
    shown = lines(a_screen(nodes=(a_row("n1", "RPPPPP.."),), queues=QUEUES), 120, 30)
    research = next(line for line in shown if "research" in line)
    assert research.startswith(" R    research ")
    assert "1 of 4 guaranteed, fair share 5, 2 pending" in research
    assert research.count("░") == 3 * research.count("█") == 18
    product = next(line for line in shown if "product" in line)
    assert product.count("▓") == 17  # of 18, one is where the mark of the fair share is
    assert "limit 6" in product


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_queues_leave_room_for_the_rest(width, height):
    many = QUEUES * 20
    shown = lines(a_screen(queues=many), width, height)
    assert len(shown) == height
    assert max(len(line) for line in shown) <= width
    assert any("n1" in line for line in shown)


def test_a_team_has_one_colour_in_its_bar_and_on_its_gpus():
    shown = lines(a_screen(nodes=(a_row("n1", "R..."),), queues=QUEUES), 120, 30, colour=True)
    research = next(line for line in shown if "research" in line)
    node = next(line for line in shown if "n1" in line)
    used = re.search(r"\x1b\[1;30;48;5;(\d+)m R ", node)
    assert used
    assert f"48;5;{used[1]}m R " in research
    assert f"38;5;{used[1]}m█" in research
