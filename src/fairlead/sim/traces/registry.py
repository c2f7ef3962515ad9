"""Traces by the names that users give: muri, philly, openb (or one list of them), or a file."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.traces.errors import TraceError
from fairlead.sim.traces.muri import read_muri
from fairlead.sim.traces.openb import POD_LIST_PREFIX, read_openb
from fairlead.sim.traces.philly import read_philly
from fairlead.sim.traces.plain import read_plain
from fairlead.sim.traces.trace import SimTrace
from fairlead.sim.virtual.jobs import equal_nodes


@dataclass(frozen=True, slots=True)
class _Kind:
    """A folder of traces of one kind."""

    read: Callable[[Path], SimTrace]
    prefix: str = ""
    #: The one that is meant if none is named; empty: all of them.
    usual: str = ""


_KINDS: Mapping[str, _Kind] = {
    "muri": _Kind(read_muri),
    "philly": _Kind(read_philly, usual="philly"),
    "openb": _Kind(read_openb, POD_LIST_PREFIX, "default"),
}
_SUFFIXES = (".csv", ".jsonl")


def read_traces(word: str, data: Path | None, nodes: tuple[int, int]) -> Iterator[SimTrace]:
    """Those that a word means: "muri" (all of them), "muri/trace3", "openb/gpuspec20" or a file.

    `data` is the folder with a folder for each kind. A file runs on `nodes`: how many, and the
    GPUs of each.
    """
    name, _, part = word.partition("/")
    kind = _KINDS.get(name)
    if kind is None or word.endswith(_SUFFIXES):
        yield _of_file(word, nodes)
        return
    if data is None:
        raise TraceError(f"the trace {word} needs --data, the folder that contains {name}/")
    pattern = f"{kind.prefix}{part or kind.usual or '*'}.csv"
    files = sorted((data / name).glob(pattern))
    if not files:
        raise TraceError(f"there is no file {pattern} in {data / name}")
    yield from map(kind.read, files)


def _of_file(word: str, nodes: tuple[int, int]) -> SimTrace:
    if not word.endswith(_SUFFIXES):
        known = ", ".join(_KINDS)
        raise TraceError(f"unknown trace {word!r}; choose {known}, or a .csv or .jsonl file")
    count, gpus = nodes
    return read_plain(Path(word), equal_nodes(count, gpus), gpus)
