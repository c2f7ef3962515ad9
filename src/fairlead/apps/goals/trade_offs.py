"""What the goals of a profile cost each other: nodes as configured, and by each goal alone."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.cluster.nodes import Nodes
from fairlead.engine.engine import Engine
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.views import REFUSED

#: Kinds of pods that are looked at, the most frequent first.
_MOST_KINDS = 50
AS_CONFIGURED = "as configured"

Told = dict[str, Any]
Counts = npt.NDArray[np.float64]


def trade_offs(engine: Engine) -> dict[str, Told]:
    """By profile with two goals or more. Each pod that runs or waits is placed once more, by
    itself, on the room that is free now.
    """
    found = {}
    for name in engine.schedulers:
        placement = engine.placement(name)
        goals = placement.profile.goals if placement else None
        if placement is None or goals is None or len(goals.all) < 2:
            continue
        if (told := _of_profile(engine, name, placement)) is not None:
            found[name] = told
    return found


def _of_profile(engine: Engine, name: str, placement: Placement) -> Told | None:
    goals = placement.profile.goals
    assert goals is not None
    sums = np.zeros((1 + len(goals.all), len(goals.all)))
    pods = 0
    for pod, many in _kinds(engine, name, placement):
        counts = _counts(engine, placement, pod)
        if counts is not None:
            sums, pods = sums + many * counts, pods + many
    if not pods:
        return None
    names = [AS_CONFIGURED, *(goal.name for goal in goals.all)]
    return {
        "pods": pods,
        "units": {goal.name: str(goal.unit) for goal in goals.all},
        "onlyBy": {
            each: dict(zip(names[1:], map(float, row), strict=True))
            for each, row in zip(names, sums, strict=True)
        },
    }


def _kinds(engine: Engine, name: str, placement: Placement) -> Iterator[tuple[Pod, int]]:
    """A pod of each kind, and how many there are."""
    sample, many = dict[PodRequest, Pod](), Counter[PodRequest]()
    pods = [held.pod for held in engine.cluster.holdings.values()]
    pods += [pod for entry in engine.queue.entries() for pod in entry.unit.pods]
    for pod in pods:
        if pod.scheduler == name:
            request = placement.request(pod)
            sample.setdefault(request, pod)
            many[request] += 1
    for request, count in many.most_common(_MOST_KINDS):
        yield sample[request], count


def _counts(engine: Engine, placement: Placement, pod: Pod) -> Counts | None:
    """What each goal counts on the node as configured, and on the best one by each goal alone."""
    goals = placement.profile.goals
    assert goals is not None
    totals = placement.totals(pod)
    rows = np.flatnonzero(totals > REFUSED)
    if not len(rows):
        return None
    request, nodes = placement.request(pod), Nodes(engine.cluster.columns, rows)
    counts: Counts = np.array([goal.count(request, nodes) for goal in goals.all])
    chosen = [int(totals[rows].argmax())]
    for each in counts:
        least = each <= each.min() + 1e-9
        chosen.append(int(np.where(least, totals[rows], REFUSED).argmax()))
    return counts[:, chosen].T


def trade_off_lines(told: dict[str, Told]) -> Iterator[str]:
    for name, each in told.items():
        pods = each["pods"]
        yield f"{name}: what its goals cost each other, if each of {pods} pod(s) were placed now"
        yield from _table(each)
        yield ""


def _table(told: Told) -> Iterator[str]:
    units = told["units"]
    rows = [["ONLY BY", *(f"{goal} {unit}" for goal, unit in units.items())]]
    for name, counts in told["onlyBy"].items():
        rows.append([name, *(f"{counts[goal]:,.2f}" for goal in units)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
