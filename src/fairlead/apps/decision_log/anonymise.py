"""A copy of a decision log without names, which repeats the same decisions.

Every word that is not a number and does not occur in the source of Fairlead is replaced by a
numbered one, the same everywhere. Numbers follow the order of the words, so that names that are
equal, or sorted, still are. The engine decides again by the events without names: the copy has what
it returns then, and binds and evictions must be those that were logged.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self

import msgspec

import fairlead
from fairlead.apps.decision_log import records
from fairlead.apps.decision_log.frames import (
    MAGIC,
    UNREADABLE,
    LogHeader,
    LogProblem,
    LogReader,
    packed_frame,
    with_length,
)
from fairlead.apps.decision_log.replay import Replayer

_WORD = re.compile(r"[A-Za-z0-9]+")
#: Times, numbers and amounts stay, so that they can be read.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,12}")
_AMOUNT = re.compile(r"\d+(?:[numkKMGTPE]i?|[GM]B|[KMG]iB|ms|s|h|d|g|gb)?")
_SNAKE = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")
#: Instructions that change something, by the fields that say what.
_DECISIONS = {"Bind": ("pod", "node"), "Evict": ("pod", "node", "victims_by_node"),
              "Prepare": ("pod", "node"), "Unreserve": ("pod",)}  # fmt: skip
_CHUNK_BYTES = 256 << 10


def known_words() -> frozenset[str]:
    """The words of the source: what the engine could compare a name with."""
    found: set[str] = set()
    for file in Path(fairlead.__path__[0]).rglob("*.py"):
        text = file.read_text()
        found.update(_WORD.findall(text))
        found.update(_camel(name) for name in _SNAKE.findall(text))
    return frozenset(found)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


class NameMap:
    """Replaces words; the same word by the same one, in the same order."""

    def __init__(self, words: Iterable[str]) -> None:
        names = sorted(set(words))
        width = len(str(len(names)))
        self._new = {name: f"x{number:0{width}}" for number, name in enumerate(names)}

    def text(self, text: str) -> str:
        if _TIME.fullmatch(text):
            return text
        return _WORD.sub(lambda found: self._new.get(found[0], found[0]), text)

    def __len__(self) -> int:
        return len(self._new)


def words_in(text: str, known: frozenset[str]) -> Iterator[str]:
    """Those that are to be replaced."""
    if _TIME.fullmatch(text):
        return
    for word in _WORD.findall(text):
        if word not in known and not _AMOUNT.fullmatch(word):
            yield word


def mapped(value: Any, of_text: Callable[[str], str]) -> Any:
    """The value with all of its texts replaced; of enums and numbers nothing changes."""
    if type(value) is str:
        return of_text(value)
    if isinstance(value, Mapping):
        return {mapped(key, of_text): mapped(each, of_text) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(mapped(each, of_text) for each in value)
    if isinstance(value, list):
        return [mapped(each, of_text) for each in value]
    if isinstance(value, frozenset):
        return frozenset(mapped(each, of_text) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value) if each.init]
        return replace(value, **{name: mapped(getattr(value, name), of_text) for name in names})
    return value


def anonymise(reader: LogReader, out: Path, config: Path | None = None) -> int:
    """Writes the copy; returns how many words were replaced. Raises LogProblem."""
    try:
        return _anonymise(reader, out, config)
    except (*UNREADABLE, IndexError, KeyError, TypeError, ValueError) as error:
        raise LogProblem(
            f"a record of the log cannot be read ({error}); `fairlead replay` says which one"
        ) from error


def _anonymise(reader: LogReader, out: Path, config: Path | None) -> int:
    names = NameMap(_names_of(reader))
    header = _header(reader.header, names)
    replayer = Replayer(header, config)
    with _CopyFile(out, header) as copy:
        for place, data in reader:
            record = records.decode(data)
            made, event = _without_names(replayer, record, names)
            logged = mapped(msgspec.msgpack.decode(record.result), names.text)
            if _decisions(made) != _decisions(logged):
                raise LogProblem(
                    f"without names, another decision is made at record {place.number} of "
                    f"{place.file}: the order of names matters there; send the log as it is"
                )
            drawn = [mapped(each, names.text) for each in record.drawn]
            copy.add(records.encode(record.call, record.now, event, drawn, made))
    return len(names)


def _names_of(reader: LogReader) -> Iterator[str]:
    known, seen = known_words(), set[str]()

    def collect(text: str) -> str:
        seen.update(words_in(text, known))
        return text

    for text in (reader.header.config, reader.header.scheduler_name or "", *reader.header.profiles):
        collect(text)
    for _, data in reader:
        record = records.decode(data)
        if record.call == "handle":
            mapped(records.event_of(record), collect)
        mapped(record.drawn, collect)
    yield from seen


def _header(header: LogHeader, names: NameMap) -> LogHeader:
    name = header.scheduler_name
    return msgspec.structs.replace(
        header,
        number=1,
        previous=0,
        config=names.text(header.config),
        scheduler_name=None if name is None else names.text(name),
        profiles=mapped(header.profiles, names.text),
        anonymised=True,
    )


def _without_names(
    replayer: Replayer, record: records.Record, names: NameMap
) -> tuple[records.Result, Any]:
    event = mapped(records.event_of(record), names.text) if record.call == "handle" else None
    drawn = [mapped(each, names.text) for each in record.drawn]
    data = records.encode(record.call, record.now, event, drawn, ("", ()))
    return replayer.repeat(records.decode(data)), event


def _decisions(result: Any) -> list[Any]:
    found = [result[0]]
    for name, told in result[1]:
        if name in _DECISIONS:
            found.append([name, *(told[key] for key in _DECISIONS[name])])
    return msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=list)


class _CopyFile:
    """One file with all records; it is removed if it does not become whole."""

    def __init__(self, path: Path, header: LogHeader) -> None:
        self._path = path
        self._buffer = bytearray()
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise LogProblem(f"{path} cannot be created: {error.strerror}") from error
        self._file = os.fdopen(number, "wb")
        self._file.write(MAGIC)
        self._checksum = 0
        self._write(msgspec.msgpack.encode(header))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._buffer:
            self._write(bytes(self._buffer))
        self._file.close()
        if kind is not None:
            self._path.unlink()

    def add(self, record: bytes) -> None:
        self._buffer += with_length(record)
        if len(self._buffer) > _CHUNK_BYTES:
            self._write(bytes(self._buffer))
            self._buffer.clear()

    def _write(self, data: bytes) -> None:
        packed, self._checksum = packed_frame(data, self._checksum)
        self._file.write(packed)
