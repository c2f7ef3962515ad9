"""Reads a workload file: what cannot be used gets one line that names the place and the fix."""

import re
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

import msgspec
import yaml

from fairlead.apps.config import LARGEST_FILE, _NoAliases, _one_line
from fairlead.model.errors import ConfigError
from fairlead.sim.workload import Stream, Workload

_HINTS = {
    "streams.kind": "choose Pod, StatefulSet or Job",
    "streams.name": "use up to 40 small letters, digits and dashes, a letter first",
    "streams.gpus": "write a whole number from 0 to 64",
    "streams.replicas": "write a whole number from 1 to 512",
    "kind": "write Workload",
    "load": "write a share of all cards such as 0.8",
}
_PLACE = re.compile(r"`\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]+)`(?: - at `(?P<path>[^`]+)`)?")


def default() -> Workload:
    """The mix that comes along."""
    file = resources.files("fairlead.sim").joinpath("workloads", "default.yaml")
    return parse(file.read_text(encoding="utf-8"))


def read(path: Path) -> Workload:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the workload {path}: {_reason(error)}") from error
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(text: str) -> Workload:
    if len(text) > LARGEST_FILE:
        raise ConfigError("the file is larger than 1 MiB; a workload is not")
    try:
        found = yaml.load(text, Loader=_NoAliases)  # noqa: S506 - a SafeLoader, made stricter
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not YAML: {_one_line(error)}") from error
    try:
        return msgspec.convert({} if found is None else found, Workload)
    except msgspec.ValidationError as error:
        raise ConfigError(_clear(str(error))) from error


def _clear(message: str) -> str:
    """The words of msgspec, with a suggestion for a key that is not known."""
    unknown = _UNKNOWN.search(message)
    if unknown is None:
        return message.replace("`", "").replace(" - at $", ", at $") + _hint(message)
    known = Stream if unknown["path"] else Workload
    keys = sorted(known.__struct_encode_fields__)
    near = get_close_matches(unknown["key"], keys, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(keys)}"
    place = f" at {unknown['path']}" if unknown["path"] else ""
    return f"unknown key {unknown['key']!r}{place}; {hint}"


def _hint(message: str) -> str:
    """What to write instead, for the places where people go wrong."""
    place = _PLACE.search(message)
    hint = _HINTS.get(re.sub(r"\[[^]]*\]", "", place["path"])) if place else None
    return f"; {hint}" if hint else ""


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
