"""What an explanation says about the queue of a pod, as data and as text."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fairlead.apps.queues.amounts import in_ones, written
from fairlead.apps.queues.reader import QueueReader
from fairlead.apps.queues.rows import (
    BorrowerRow,
    QueueRow,
    ancestors_of,
    rows_of,
    unreclaimable_text,
)
from fairlead.engine.engine import Engine
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS
from fairlead.queue.quota import QuotaRefusal

Answer = dict[str, Any]

#: Pods that would be evicted and are named in one line.
MOST_NAMED = 20

_HELP = {
    "QueueNotFound": "create the queue, or correct the label fairlead.dev/queue",
    "QueueClosed": "open the queue, or name another one",
    "QueueBudget": "raise the budget of the queue, or wait until the next period begins (UTC)",
    "QueueGuarantee": "wait until pods of the queue have ended, or lower what is guaranteed to "
    "other queues and not lent",
    "QueueInvalid": "correct the object of the queue; `fairlead queue` shows what is wrong with it",
    "QueueNotAllowed": "name a queue of your team, or ask for your namespace to be listed in "
    "spec.namespaces of this one",
}


def queue_answer(engine: Engine, pod: Pod, now: float, *, pods: bool = True) -> Answer | None:
    """None for a pod without a queue. `pods`: whether those of other namespaces are named."""
    key = engine.queues.of(pod)
    if not key:
        return None
    rows = rows_of(engine.queues.report())
    row = next((each for each in rows if each.key == key), None)
    refusal = None if pod.node else engine.queues.why(pod)
    if row is None:
        told: Answer = {"key": key, "name": key.partition("/")[2], "levels": []}
        return told | _held_back(refusal, [], {})
    levels = [*ancestors_of(row, rows), row]
    place, waiting, asked = QueueReader(engine).place_of(pod, key)
    told = {
        "key": key,
        "name": row.name,
        "position": place,
        "ownPendingUnits": waiting,
        "asked": asked,
        "levels": [_level(each) for each in levels],
    }
    if pod.node:
        return told
    entry = engine.queue.get(pod.uid)
    borrowers = QueueReader(engine).borrowers(row, rows, now, entry.unit if entry else None)
    told |= {"borrowers": msgspec.to_builtins(borrowers)}
    if refusal is not None:
        return told | _held_back(refusal, levels, asked)
    return told | _evictions(engine, pod, now, pods=pods)


def _evictions(engine: Engine, pod: Pod, now: float, *, pods: bool) -> Answer:
    """Which pods would be evicted so that the unit has room, or why that is of no use."""
    victims, why = engine.would_evict(pod.uid, now=now)
    named = [each.key for each in victims if pods or each.namespace == pod.namespace]
    found: Answer = {"wouldEvict": {"pods": named, "count": len(victims)}} if victims else {}
    return found | ({"noRoomBecause": why} if why else {})


def _level(row: QueueRow) -> Answer:
    return {
        "queue": row.key,
        "guaranteed": row.guaranteed,
        "limit": row.limit,
        "used": row.used,
        "borrowed": row.borrowed,
        "fairShare": row.fair_share,
    }


def _held_back(
    refusal: QuotaRefusal | None, levels: Sequence[QueueRow], asked: dict[str, float]
) -> Answer:
    if refusal is None:
        return {}
    limits = _limits(refusal, levels, asked)
    help_ = [_raise(each) for each in limits]
    help_ += [_HELP[refusal.reason]] if refusal.reason in _HELP else []
    return {
        "reason": refusal.reason, "message": refusal.message, "limits": limits, "remedies": help_,
    }  # fmt: skip


def _limits(
    refusal: QuotaRefusal, levels: Sequence[QueueRow], asked: dict[str, float]
) -> list[Answer]:
    """Every limit that the unit would pass: the one that it was told, then the others upwards."""
    found = {(refusal.queue, refusal.resource): _told(refusal)} if refusal.resource else {}
    for row in reversed(levels):
        for resource, limit in row.limit.items():
            used, more = row.used.get(resource, 0.0), asked.get(resource, 0.0)
            if more and used + more > limit:
                passed = _limit(row.key, resource, limit, used, more)
                found.setdefault((row.key, resource), passed)
    return list(found.values())


def _told(refusal: QuotaRefusal) -> Answer:
    numbers = refusal.limit, refusal.used, refusal.asked
    ones = (in_ones(((refusal.resource, number),))[refusal.resource] for number in numbers)
    return _limit(refusal.queue or "", refusal.resource, *ones)


def _limit(queue: str, resource: str, limit: float, used: float, asked: float) -> Answer:
    return {"queue": queue, "resource": resource, "limit": limit, "used": used, "asked": asked}


def _raise(limit: Answer) -> str:
    resource, name = limit["resource"], limit["queue"].partition("/")[2]
    needed = limit["used"] + limit["asked"]
    if limit["asked"] > limit["limit"]:
        wait = f"or request at most {written(resource, limit['limit'])}"
    else:
        wait = f"or wait until its pods use {written(resource, needed - limit['limit'])} less"
    return f"raise limit {resource} of queue {name} to {written(resource, needed)}, {wait}"


def queue_lines(queue: Answer) -> Iterator[str]:
    """The answer as text."""
    where = f"queue {queue['name']} ({queue['key'].partition('/')[0]})"
    if queue.get("position"):
        where += f": position {queue['position']} of {queue['ownPendingUnits']} pending units"
    yield where
    yield from map(_level_line, queue["levels"])
    borrowers = msgspec.convert(queue.get("borrowers", []), list[BorrowerRow])
    yield from map(_borrower_line, borrowers)
    yield from _eviction_lines(queue)
    yield from (f"what would help: {remedy}" for remedy in queue.get("remedies", ()))


def _eviction_lines(queue: Answer) -> Iterator[str]:
    if found := queue.get("wouldEvict"):
        hidden = found["count"] - len(found["pods"])
        names = [*found["pods"][:MOST_NAMED], *([f"{hidden} pod(s) of others"] if hidden else [])]
        more = len(found["pods"]) - MOST_NAMED
        yield f"would be evicted for it: {', '.join(names)}" + (f" and {more} more" * (more > 0))
    if queue.get("noRoomBecause"):
        yield f"no room can be made: {queue['noRoomBecause']}"


def _level_line(level: Answer) -> str:
    """Its GPUs, and where there are none all that it limits or guarantees."""
    listed = {**level["guaranteed"], **level["limit"]}
    resources = [GPUS] if GPUS in listed or not listed else sorted(listed)
    parts = (f"{resource} {_figures(level, resource)}" for resource in resources)
    return f"  {level['queue'].partition('/')[2]}: " + "; ".join(parts)


def _figures(level: Answer, resource: str) -> str:
    words = {
        "used": "used",
        "guaranteed": "guaranteed",
        "limit": "limit",
        "fairShare": "fair share",
    }
    known = {word: level[key].get(resource) for key, word in words.items()}
    known["used"] = known["used"] or 0.0
    return ", ".join(f"{word} {written(resource, number)}"
                     for word, number in known.items() if number is not None)  # fmt: skip


def _borrower_line(each: BorrowerRow) -> str:
    name, resource = each.queue.partition("/")[2], each.resource
    said = f"queue {name} borrows {written(resource, each.borrowed)} {resource}"
    part = written(resource, each.reclaimable) if each.reclaimable else "nothing"
    said += f", of which {part} can be reclaimed"
    kept = unreclaimable_text(each)
    return f"{said} ({kept})" if kept else said
