"""One record of a decision log: one call of the engine, and what it returned.

Events are written whole, so that they can be read back as what they were. Instructions are only
compared and shown: a pod in them is its name and uid, and everything else is lists, maps and words.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, cast, get_args

import msgspec
import numpy as np

from fairlead.engine import events
from fairlead.engine.attempts import Attempt
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.data_sets import DataSet, NodeData
from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.model.storage import StorageObject

#: What was called: handle, decide, tend, forget; or the time of day was set.
Call = Literal["handle", "decide", "tend", "forget", "wall"]

#: What an encoder of binds was given beside the decision: the time of day, the leader's epoch.
Drawn = int | str

_EVENTS: Mapping[str, type[events.Event]] = {kind.__name__: kind for kind in get_args(events.Event)}
#: Events about any one of several kinds of objects, and these kinds.
_STORAGE = {kind.__name__: kind for kind in get_args(StorageObject)}
_CLAIMS = {kind.__name__: kind for kind in get_args(ClaimObject)}
_KINDS: Mapping[type[events.Event], Mapping[str, type]] = {
    events.StorageSeen: _STORAGE,
    events.StorageGone: _STORAGE,
    events.ClaimObjectSeen: _CLAIMS,
    events.ClaimObjectGone: _CLAIMS,
    events.DataSeen: {kind.__name__: kind for kind in (DataSet, NodeData)},
}

#: Where an object is in memory says nothing.
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Record(msgspec.Struct, array_like=True):
    """As it is read: event and result stay bytes until they are needed."""

    call: Call
    #: The time on the driver's clock; of `wall` the difference of the time of day to it.
    now: float
    #: The type of the event, of storage with that of the object.
    kind: str
    event: msgspec.Raw
    drawn: list[Drawn]
    #: Outcome and instructions.
    result: msgspec.Raw


Result = tuple[str, Sequence[Any]]


def _plain_number(value: object) -> object:
    """Numbers of NumPy that got into an event or an instruction, and fractions."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} cannot be recorded")


def _exact(_kind: type, value: Any) -> int | Fraction:
    """An amount of a device: what it was before `_plain_number`."""
    return value if isinstance(value, int) else Fraction(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain_number)
_decoder = msgspec.msgpack.Decoder(Record)


def encode(
    call: Call, now: float, event: events.Event | None, drawn: list[Drawn], result: Result
) -> bytes:
    return _encoder.encode((call, now, _kind_of(event), event, drawn, result))


def _kind_of(event: events.Event | None) -> str:
    if event is None:
        return ""
    name = type(event).__name__
    match event:
        case (
            events.StorageSeen(about)
            | events.StorageGone(about)
            | events.ClaimObjectSeen(about)
            | events.ClaimObjectGone(about)
            | events.DataSeen(about)
        ):
            return f"{name}:{type(about).__name__}"
    return name


def decode(data: bytes) -> Record:
    """Raises `msgspec.MsgspecError` if that is no record."""
    return _decoder.decode(data)


def event_of(record: Record) -> events.Event:
    """Raises `msgspec.MsgspecError` if that is no event of this version."""
    name, _, about = record.kind.partition(":")
    kind = _EVENTS.get(name)
    kinds = _KINDS.get(kind, {}) if kind else {}
    if kind is None or bool(kinds) != (about in kinds):
        raise msgspec.ValidationError(f"{record.kind!r} is no event that this version knows")
    if about:
        return kind(**_decoder_of(dict[str, kinds[about]]).decode(record.event))  # type: ignore[valid-type]
    return cast("events.Event", _decoder_of(cast("Hashable", kind)).decode(record.event))


@lru_cache(256)
def _decoder_of(kind: Hashable) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(cast("Any", kind), dec_hook=_exact)


def result_bytes(result: Result) -> bytes:
    return _encoder.encode(result)


# -- instructions ------------------------------------------------------------------------------


def result_of(made: Iterable[object], outcome: str = "") -> Result:
    return outcome, [plain(each) for each in made]


def attempt_result(attempt: Attempt | None) -> Result:
    if attempt is None:
        return "nothing is due", ()
    return result_of(attempt.instructions, attempt.outcome.value)


def raised(error: Exception) -> Result:
    return f"raised {_ADDRESS.sub('0x', repr(error))}", ()


def plain(value: object) -> Any:
    """The value as lists, maps and words, which say the same in every process."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    convert = _CONVERT.get(kind)
    return convert(value) if convert else _converted(value)


def _converted(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, frozenset | set):
        return sorted((plain(each) for each in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value):
        named = {
            name: plain(getattr(value, name)) for name in _names(cast("Hashable", type(value)))
        }
        return [type(value).__name__, named]
    return _ADDRESS.sub("0x", repr(value))


@lru_cache(256)
def _names(kind: Hashable) -> tuple[str, ...]:
    """What a dataclass compares by: a hash that is kept differs from process to process."""
    return tuple(each.name for each in fields(cast("Any", kind)) if not each.name.startswith("_"))


def _pod(pod: Pod) -> str:
    return f"{pod.key} {pod.uid}"


def _spec(spec: GangSpec | QueueSpec) -> str:
    return spec.key


def _claim(claim: ResourceClaim) -> str:
    return f"{claim.key} {claim.uid}"


_AS_IT_IS = frozenset({str, int, float, bool, type(None), bytes})
_CONVERT: dict[type, Callable[[Any], Any]] = {
    Pod: _pod,
    GangSpec: _spec,
    QueueSpec: _spec,
    ResourceClaim: _claim,
}
