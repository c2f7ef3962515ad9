"""Reads a workload file: what cannot be used gets one line that names the place and the fix."""

import re
from importlib import resources
from pathlib import Path

from fairlead.apps.config import typed_yaml
from fairlead.sim.workload import Stream, TeamQueue, Workload

_HINTS = {
    "streams.kind": "choose Pod, StatefulSet or Job",
    "streams.name": "use up to 40 small letters, digits and dashes, a letter first",
    "streams.gpus": "write a whole number from 0 to 64",
    "streams.replicas": "write a whole number from 1 to 512",
    "queues.guaranteed": "write a share of all GPUs such as 0.4",
    "queues.limit": "write a share of all GPUs such as 0.5",
    "kind": "write Workload",
    "load": "write a share of all GPUs such as 0.8",
}
_PLACE = re.compile(r"`\$\.?(?P<path>[^`]*)`$")


def default() -> Workload:
    """The mix that comes along."""
    return _packaged("default.yaml")


def teams() -> Workload:
    """Three teams with a queue each."""
    return _packaged("teams.yaml")


def dra() -> Workload:
    """Pods with resource claims."""
    return _packaged("dra.yaml")


def _packaged(name: str) -> Workload:
    file = resources.files("fairlead.sim").joinpath("workload", name)
    return parse(file.read_text(encoding="utf-8"))


def read(path: Path) -> Workload:
    return typed_yaml.read(path, "workload", parse)


def parse(text: str) -> Workload:
    return typed_yaml.convert(text, Workload, _reworded)


def _reworded(complaint: str) -> str:
    plain = complaint.replace("`", "").replace(" - at $", ", at $") + _hint(complaint)
    return typed_yaml.suggest(complaint, _keys_at) or plain


def _keys_at(path: str) -> tuple[str, ...]:
    kind = TeamQueue if path.startswith("$.queues") else Stream if path else Workload
    return kind.__struct_encode_fields__


def _hint(message: str) -> str:
    """What to write instead, for the places where people go wrong."""
    place = _PLACE.search(message)
    hint = _HINTS.get(re.sub(r"\[[^]]*\]", "", place["path"])) if place else None
    return f"; {hint}" if hint else ""
