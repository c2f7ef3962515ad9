"""How service classes do: attainment, what is left of the error budget, and units that wait."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fairlead.engine.engine import Engine
from fairlead.kube.admission.class_reviews import promise
from fairlead.model.service_classes import ServiceClass
from fairlead.model.start_times import words

_HOUR_S = 3600.0


def classes_told(engine: Engine, now_s: float) -> list[dict[str, Any]]:
    goals = engine.service_goals
    waiting, late = Counter[str](), Counter[str]()
    for name, due_s in goals.pending():
        waiting[name] += 1
        late[name] += due_s < now_s
    return [
        _class(engine, each, now_s) | {"pending": waiting[each.name], "late": late[each.name]}
        for each in goals.classes.values()
    ]


def _class(engine: Engine, class_: ServiceClass, now_s: float) -> dict[str, Any]:
    record = engine.service_record
    found = record.of(class_, now_s)
    return {
        "name": class_.name,
        "waitGoalSeconds": class_.wait_goal_s,
        "target": class_.target,
        "windowSeconds": class_.window_s,
        "met": found.met,
        "missed": found.missed,
        "attainment": found.share,
        "budgetLeft": found.budget_left if found.share is not None else None,
        "burnRate": {
            "1h": record.of(class_, now_s, _HOUR_S).burn_rate,
            "6h": record.of(class_, now_s, 6 * _HOUR_S).burn_rate,
        },
        "gpus": asdict(class_.gpus) if class_.gpus else None,
        "promise": promise(class_),
    }


def class_lines(classes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What classes with terms about GPUs promise."""
    yield from (each["promise"] for each in classes if each["gpus"])


def class_rows(classes: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    yield (
        "CLASS", "WAIT GOAL", "TARGET", "UNITS", "IN TIME", "BUDGET LEFT", "BURN 1H", "BURN 6H",
        "PENDING", "LATE",
    )  # fmt: skip
    for each in classes:
        burn = each["burnRate"]
        yield (
            each["name"], words(each["waitGoalSeconds"]), _percent(each["target"]),
            str(each["met"] + each["missed"]), _percent(each["attainment"]),
            _percent(each["budgetLeft"]), f"{burn['1h']:.1f}", f"{burn['6h']:.1f}",
            str(each["pending"]), str(each["late"]),
        )  # fmt: skip


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.4g} %"
