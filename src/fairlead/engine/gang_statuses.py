"""What is said about gangs in the status of their objects."""

from collections import Counter
from collections.abc import Iterable, Iterator

from fairlead.engine.gang_messages import gathering_message
from fairlead.engine.gang_trees import leaf_name
from fairlead.engine.instructions import AnnounceFailure, Instruction
from fairlead.engine.reasons import WAITING_FOR_GANG
from fairlead.model.gangs import Counting, GangSpec, GangState, GangStatus
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.units import Gang


def status_of(entry: Entry) -> GangStatus | None:
    """None while it is not known what becomes of the gang: it is being tried or bound."""
    gang = entry.unit
    assert isinstance(gang, Gang)
    state, message = _state(entry, gang)
    if state is None:
        return None
    placed, finished = len(gang.placed), len(gang.finished)
    return GangStatus(
        state,
        gang.size + placed,
        gang.spec.minimum,
        placed - finished,
        finished,
        message,
        len(gang.failed),
    )


def statuses_of_parts(
    entry: Entry, status: GangStatus, parts: Iterable[GangSpec]
) -> Iterator[tuple[GangSpec, GangStatus]]:
    """The same for each of the objects that the pods of the gang name."""
    gang = entry.unit
    assert isinstance(gang, Gang)
    useless = gang.useless_with(Counter())
    placed = Counter(gang.placed.values())
    finished = Counter(gang.placed[uid] for uid in gang.finished)
    pending = Counter(pod.gang.group for pod in gang.pending if pod.gang)
    for part in parts:
        name = leaf_name(part.key)
        state, message = status.state, status.message
        if state in (GangState.SCHEDULED, GangState.UNSCHEDULABLE):
            is_whole = placed[name] and name not in useless
            state = GangState.SCHEDULED if is_whole else GangState.UNSCHEDULABLE
            message = "" if is_whole else gang.refusal
        if state is GangState.UNSCHEDULABLE and not (message and pending[name]):
            continue  # it was not tried
        done = finished[name]
        members = placed[name] + pending[name]
        yield part, GangStatus(state, members, part.minimum, placed[name] - done, done, message)


def may_lack_finished(gang: Gang, status: GangStatus) -> bool:
    """Whether the pods that it waits for may have succeeded without our seeing it."""
    counts = gang.spec.counting is not Counting.ALIVE
    return status.state is GangState.GATHERING and counts and not gang.asked


def _state(entry: Entry, gang: Gang) -> tuple[GangState | None, str]:
    if gang.problem:
        return GangState.INVALID, gang.problem
    if not gang.needed:
        return GangState.SCHEDULED, ""
    if gang.missing:
        return GangState.GATHERING, gathering_message(gang)
    if entry.pool is Pool.WAITING and gang.refusal:
        return GangState.UNSCHEDULABLE, gang.refusal
    return None, ""


def waiting(entry: Entry, message: str) -> Iterator[Instruction]:
    """Says on each pod what it waits for, and records one event."""
    with_event = True
    for pod in entry.unit.pods:
        if pod.condition != (WAITING_FOR_GANG, message):
            yield AnnounceFailure(pod, WAITING_FOR_GANG, message, with_event=with_event)
        with_event = False
