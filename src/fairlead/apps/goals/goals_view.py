"""`fairlead goals` as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.apps.goals.forecasts_told import forecast_lines
from fairlead.apps.goals.service_classes import class_lines, class_rows
from fairlead.apps.goals.trade_offs import trade_off_lines

Told = dict[str, Any]


def goals_lines(told: Told) -> Iterator[str]:
    currency = told["currency"]
    for name, levels in told["profiles"].items():
        yield from _profile(name, levels)
    yield f"sources: {_sources(told['sources'])}"
    yield from map(_reading, told["readings"])
    yield from forecast_lines(told["forecasts"])
    for problem in told["problems"]:
        yield f"problem: {problem}"
    yield ""
    yield from column_lines(_nodes(told["nodes"], currency))
    yield ""
    for title in ("queues", "jobs"):
        yield from column_lines(_spending(told["spending"][title], title[:-1].upper(), currency))
        yield ""
    if told["classes"]:
        yield from column_lines(class_rows(told["classes"]))
        yield from class_lines(told["classes"])
        yield ""
    yield from trade_off_lines(told["tradeOffs"])
    if "drain" in told:
        yield from _drain(told["drain"], currency)


def _profile(name: str, levels: Sequence[Told]) -> Iterator[str]:
    if not levels:
        yield f"{name}: no goals"
    for number, level in enumerate(levels, 1):
        goals = " + ".join(_rated(goal, rate) for goal, rate in level["goals"].items())
        slack = f"{level['tolerance']:.3g} of the best" if level["tolerance"] else ""
        slack = slack or (f"{level['slack']:g} {level['unit']}" if level["slack"] else "none")
        yield f"{name}: level {number}: {goals} ({level['unit']}), tolerance {slack}"


def _rated(goal: str, rate: float) -> str:
    return goal if rate == 1.0 else f"{rate:.4g} × {goal}"


def _reading(told: Told) -> str:
    unit = f" ({told['unit']})" if told["unit"] else ""
    what = "GPU(s)" if told["by"] == "gpu" else "node(s)"
    text = f"reading {told['name']}{unit}: {told['known']} of {told['of']} {what} have a value"
    if told["known"] < told["of"]:
        fallback = told["fallback"]
        text += "; the others count as " + ("unknown" if fallback is None else f"{fallback:g}")
    if told["others"]:
        text += f"; {told['others']} value(s) are of {what} that the cluster does not have"
    return text


def _sources(sources: Sequence[Told]) -> str:
    return ", ".join(f"{each['figure']} from {each['name']}" for each in sources) or "none"


def _nodes(groups: Sequence[Told], currency: str) -> Iterator[tuple[str, ...]]:
    yield "CAPACITY", "NODES", "ENDING", "GPUS", f"{currency}/H", "NO PRICE", "UNUSED", "UNUSED/H"
    for each in groups:
        yield (
            each["capacityType"], str(each["nodes"]), str(each["ending"]), str(each["gpus"]),
            f"{each['pricePerHour']:.2f}", str(each["withoutPrice"]), str(each["unusedNodes"]),
            f"{each['unusedPerHour']:.2f}",
        )  # fmt: skip


def _spending(sums: Told, title: str, currency: str) -> Iterator[tuple[str, ...]]:
    yield title, "PODS", f"{currency}/H", f"{currency}/MONTH", "WATTS", "G CO2/H"
    for name, each in sums.items():
        yield (
            name, f"{each['pods']:.0f}", f"{each['money']:.2f}", f"{each['money'] * 730:.0f}",
            f"{each['watts']:.0f}", f"{each['grams']:.0f}",
        )  # fmt: skip


def _drain(freed: Sequence[Told], currency: str) -> Iterator[str]:
    saved = sum(each["pricePerHour"] or 0.0 for each in freed)
    yield f"{len(freed)} node(s) could be removed, which saves {saved:.2f} {currency}/h:"
    for each in freed:
        price = "unknown price" if each["pricePerHour"] is None else f"{each['pricePerHour']:.2f}"
        if not each["moves"]:
            yield f"  {each['node']} ({price}): unused"
            continue
        lost = f"{each['gpusMoved']:g} GPU(s) move, {each['gpuSecondsLost']:.0f} GPU-seconds lost"
        yield f"  {each['node']} ({price}): {lost}"
        yield from (f"    {move['pod']} → {move['to']}" for move in each["moves"])


def column_lines(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    found = list(rows)
    widths = [max(len(row[column]) for row in found) for column in range(len(found[0]))]
    for row in found:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *cells[1:]])
