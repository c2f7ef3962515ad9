"""`fairlead queue` as its readers see it: the tree, one queue, and who borrows from whom."""

from dataclasses import replace

import msgspec

from fairlead.apps.queues.detail_view import render_queue
from fairlead.apps.queues.rows import (
    QueueDetail,
    QueueListing,
    UnitRow,
    ancestors_of,
    borrowers_of,
    rows_of,
    with_unreclaimable,
)
from fairlead.apps.queues.view import render_queues
from fairlead.engine.unreclaimable_use import NOT_LOWER, PROTECTED, TOO_SHORT
from fairlead.model.queues import GPUS
from queue_reports import TREE, gpus, report

REASON = "queue research: limit nvidia.com/gpu 32, used 20, requested 16"
ROWS = [
    msgspec.structs.replace(row, reason=REASON if row.name == "research" else "")
    for row in rows_of(TREE)
]


def lines(found) -> list[str]:
    return [line.plain.rstrip() for line in found]


def test_the_tree_shows_each_queue_beneath_its_parent_with_its_figures():
    shown = lines(render_queues(QueueListing(ROWS), GPUS, None))
    assert shown[0] == "nvidia.com/gpu   used 60   guaranteed 64   pending units 1"
    assert [line.split("  ")[0] or line[:10].rstrip() for line in shown[2:4]] == [
        "QUEUE", "company",
    ]  # fmt: skip
    product = next(line for line in shown if "product" in line)
    assert product.startswith("  product")
    assert product.split() == [
        "product", "32", "-", "40", "8", "24", "1", "8", "h", "90.0/100", "h", "a", "day", "-",
        "4",
    ]  # fmt: skip
    research = next(line for line in shown if "research" in line)
    assert "1 (8 pods)" in research
    assert research.endswith("queue research: limit nvidia.com/gpu 32, used 20, requested 16")
    broken = next(line for line in shown if line.startswith("broken"))
    assert broken.endswith("its parent fairlead/none does not exist; create it")


def test_every_line_fits_the_terminal():
    for width in (60, 80, 120):
        shown = render_queues(QueueListing(ROWS, ["a note " * 40]), GPUS, width)
        assert max(line.cell_len for line in shown) <= width


def test_without_queues_it_says_so():
    (line,) = lines(render_queues(QueueListing([]), GPUS, 80))
    assert line.startswith("there are no queues")


def test_ancestors_are_found_from_the_top_and_a_cycle_ends():
    ads = next(row for row in ROWS if row.name == "ads")
    assert [row.name for row in ancestors_of(ads, ROWS)] == ["company", "product"]
    loop = rows_of([report("a", "b"), report("b", "a")])
    assert [row.name for row in ancestors_of(loop[0], loop)] == ["b"]


def test_borrowers_are_the_lowest_queues_that_use_more_than_is_guaranteed_to_them():
    """Of what ads uses, 10 of product may be evicted at most, and its own share is 10."""
    research = next(row for row in ROWS if row.name == "research")
    (found,) = borrowers_of(research, ROWS)
    assert (found.queue, found.borrowed, found.fair_share) == ("fairlead/ads", 28.0, 10.0)
    assert found.reclaimable == 18.0
    product = next(row for row in ROWS if row.name == "product")
    assert borrowers_of(product, ROWS) == []


def test_nothing_is_reclaimed_beneath_a_queue_that_does_not_allow_it():
    tree = [
        replace(each, spec=replace(each.spec, reclaimable=each.spec.name != "product"))
        for each in TREE
    ]
    rows = rows_of(tree)
    (found,) = borrowers_of(next(row for row in rows if row.name == "research"), rows)
    assert (found.queue, found.reclaimable) == ("fairlead/ads", 0.0)


def a_detail() -> QueueDetail:
    research = next(row for row in ROWS if row.name == "research")
    waits = UnitRow("team-a/train", "gang", 1, 8, {GPUS: 16.0}, 5, 90.0, research.reason)
    hidden = UnitRow("team-b/other", "pod", 2, 1, {GPUS: 1.0}, 0, None, "to be tried")
    runs = UnitRow("team-b/base", "pod", 0, 1, {GPUS: 4.0}, 0, None, "")
    return QueueDetail(
        research, ancestors_of(research, ROWS), [waits, hidden], [runs],
        borrowers_of(research, ROWS), pending_left_out=3,
    )  # fmt: skip


def test_one_queue_shows_its_units_in_order_and_who_borrows():
    shown = lines(render_queue(a_detail(), GPUS, None))
    assert "pending units: 5" in shown
    first = next(line for line in shown if "team-a/train" in line)
    assert first.split()[:6] == ["1", "team-a/train", "gang", "8", "16", "5"]
    assert "and 3 more" in shown
    assert "12 nvidia.com/gpu guaranteed to this queue not in use; queues that borrow:" in shown
    assert shown[-1].split() == ["ads", "28", "10", "18", "-"]


def test_what_can_not_be_reclaimed_is_said_with_the_reason():
    research = next(row for row in ROWS if row.name == "research")
    kept = {"fairlead/ads": {PROTECTED: gpus(20), TOO_SHORT: gpus(4), NOT_LOWER: (("cpu", 1),)}}
    found = [with_unreclaimable(each, ROWS, kept) for each in borrowers_of(research, ROWS)]
    assert found[0].reclaimable == 4.0, "it uses 28, and 24 are kept"
    shown = lines(render_queue(msgspec.structs.replace(a_detail(), borrowers=found), GPUS, None))
    assert shown[-1].endswith(
        "4  20 protected by disruption budgets, 4 run for less than the minimum run time"
    )


def test_units_of_other_namespaces_have_no_name():
    seen = a_detail().visible_in(frozenset({"team-a"}))
    assert [unit.name for unit in (*seen.pending, *seen.running)] == ["team-a/train", "", ""]
    assert "team-b" not in msgspec.json.encode(seen).decode()
    assert "team-b" not in "\n".join(lines(render_queue(seen, GPUS, None)))


def test_what_no_queue_is_guaranteed_cannot_be_borrowed():
    found = rows_of([report("a", used=(("cpu", 4000), *gpus(2)), guaranteed=gpus(1))])
    assert found[0].borrowed == {GPUS: 1.0}
