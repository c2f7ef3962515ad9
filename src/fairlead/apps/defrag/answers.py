"""Plans of consolidation as plain data, and as text."""

from collections.abc import Iterator
from typing import Any

from fairlead.engine.consolidation.movable import requested_milli
from fairlead.engine.consolidation.plans import ConsolidationPlan, NoConsolidation
from fairlead.model.gpus import WHOLE, number_of_gpus
from fairlead.queue.units import Gang, Unit

DefragAnswer = dict[str, Any]


def unit_name(unit: Unit) -> str:
    """Of a gang with its namespace, of a pod "namespace/name"."""
    return f"gang {unit.spec.name}" if isinstance(unit, Gang) else unit.pod.key


def plan_answer(unit: Unit, found: ConsolidationPlan | NoConsolidation) -> DefragAnswer:
    asked = sum(requested_milli(pod.request) for pod in unit.pods)
    told: DefragAnswer = {"unit": unit_name(unit), "pods": len(unit.pods), "gpus": asked / WHOLE}
    if isinstance(found, NoConsolidation):
        return told | {"helps": False, "why": found.why, "cutShort": found.cut_short}
    return told | {
        "helps": True,
        "moves": [
            {
                "pod": move.pod.key,
                "from": move.node,
                "to": move.target,
                "gpus": move.milli / WHOLE,
            }
            for move in found.moves
        ],
        "starts": [{"pod": start.pod.key, "node": start.node} for start in found.starts],
        "gpusMoved": found.moved_milli / WHOLE,
        "gpuSecondsLost": round(found.lost_gpu_s, 1),
        "gpuSecondsGained": round(found.gained_gpu_s, 1),
    }


def plan_lines(answers: list[DefragAnswer]) -> Iterator[str]:
    """Plans first, then what no moves help."""
    if not answers:
        yield "no pod or gang with GPUs waits"
    for each in sorted(answers, key=lambda each: not each["helps"]):
        yield from _helping(each) if each["helps"] else _useless(each)


def _helping(told: DefragAnswer) -> Iterator[str]:
    moves = told["moves"]
    yield (
        f"{told['unit']} ({number_of_gpus(told['gpus'])}) starts after {len(moves)} move(s): "
        f"{told['gpusMoved']:g} GPU(s) move, {told['gpuSecondsLost']:.0f} GPU-seconds are lost, "
        f"{told['gpuSecondsGained']:.0f} gained"
    )
    rows = [("  POD", "FROM", "TO", "GPUS")]
    rows += [(f"  {m['pod']}", m["from"], m["to"], f"{m['gpus']:g}") for m in moves]
    rows += [(f"  {s['pod']}", "-", s["node"], "starts") for s in told["starts"]]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join(f"{text:{width}}" for text, width in zip(row, (*widths, 0), strict=True))


def _useless(told: DefragAnswer) -> Iterator[str]:
    more = " (the search was cut short)" if told["cutShort"] else ""
    yield f"{told['unit']} ({number_of_gpus(told['gpus'])}): no moves help: {told['why']}{more}"
