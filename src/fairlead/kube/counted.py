"""Counted resources: countedresources.fairlead.dev, and their status."""

from datetime import UTC, datetime

import msgspec

from fairlead.base.durations import DurationError, length_s
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.own_objects import LONGEST_MESSAGE, OwnObject, ServedOwn, decode_own
from fairlead.kube.queues.api import Json
from fairlead.kube.writes.event_objects import shortened
from fairlead.kube.writes.object_status import ObjectStatusWriter
from fairlead.model.counted import (
    MOST_COUNTED,
    CountedLayer,
    CountedMode,
    CountedResource,
    CountedStatus,
    OutsideTerms,
    OutsideUse,
)
from fairlead.model.errors import FairleadError

COUNTED_KIND = GangKind(
    "fairlead.dev",
    ("v1alpha1",),
    "countedresources",
    "CountedResource",
    "apply deploy/crds.yaml",
)
_MOST_LAYERS = 256
_MOST_LABELS = 16
_MOST_VALUES = 1000
_MOST_NAMES = 1000
_MOST_MODELS = 32
_MAX_AGE_S = 600.0


class _Layer(msgspec.Struct, rename="camel", gc=False):
    name: str
    count: int
    node_selector: dict[str, str] | None = None
    node_label: str = ""
    counts: dict[str, int] | None = None
    base: int = 0
    parent: str = ""


class _Outside(msgspec.Struct, rename="camel", gc=False):
    max_age: str = ""
    fallback: int = 0
    includes_pods: bool = False


class _Spec(msgspec.Struct, rename="camel", gc=False):
    total: int | None = None
    unit: str = ""
    mode: CountedMode = CountedMode.ALL
    layers: list[_Layer] | None = None
    per_gpu: dict[str, int] | None = None
    namespaces: list[str] | None = None
    outside: _Outside | None = None


class _OutsideUse(msgspec.Struct, gc=False):
    used: int
    time: str


class _Status(msgspec.Struct, rename="camel", gc=False):
    outside_use: _OutsideUse | None = None


_specs = msgspec.json.Decoder(_Spec)
_statuses = msgspec.json.Decoder(_Status | None)


CountedObject = OwnObject[CountedResource]


def decode_counted(raw: bytes | msgspec.Raw) -> CountedObject:
    """One that makes no sense has a `problem`; it is not an exception."""
    return decode_own(raw, _read, lambda name, why: CountedResource(name, problem=why))


def _read(name: str, spec: msgspec.Raw, status: bytes) -> CountedResource:
    return _resource(name, _specs.decode(spec), _measured(status))


def _resource(name: str, said: _Spec, measured: OutsideUse | None) -> CountedResource:
    layers = tuple(_layer(each, said.mode) for each in said.layers or ())
    if said.total is None and not layers:
        raise FairleadError("write spec.total, spec.layers or both")
    if said.outside is not None and said.total is None:
        raise FairleadError("spec.outside needs spec.total")
    if len(said.per_gpu or ()) > _MOST_MODELS:
        raise FairleadError(f"spec.perGpu has more than {_MOST_MODELS} models")
    if len(said.namespaces or ()) > _MOST_NAMES:
        raise FairleadError(f"spec.namespaces has more than {_MOST_NAMES} names")
    _check_layers(layers)
    return CountedResource(
        name,
        None if said.total is None else _count("spec.total", said.total),
        said.unit[:32],
        said.mode,
        layers,
        tuple((key, _count(f"spec.perGpu.{key}", n)) for key, n in (said.per_gpu or {}).items()),
        None if said.namespaces is None else frozenset(said.namespaces),
        _outside(said.outside) if said.outside else None,
        measured if said.outside else None,
    )


def _count(key: str, number: int) -> int:
    if not 0 <= number <= MOST_COUNTED:
        raise FairleadError(f"{key[:80]} is {number}; write a number from 0 to {MOST_COUNTED:,}")
    return number


def _layer(said: _Layer, mode: CountedMode) -> CountedLayer:
    where = f"spec.layers {said.name[:63]!r}"
    if not said.name or "/" in said.name or "@" in said.name or "," in said.name:
        raise FairleadError(f"{where}: write a name without '/', '@' and ','")
    if said.parent and mode is not CountedMode.TREE:
        raise FairleadError(f"{where}: parent needs the mode Tree")
    if not (said.node_selector or said.node_label) and mode is not CountedMode.TREE:
        raise FairleadError(f"{where}: write nodeSelector or nodeLabel")
    if said.counts and not said.node_label:
        raise FairleadError(f"{where}: counts needs nodeLabel")
    if len(said.node_selector or ()) > _MOST_LABELS or len(said.counts or ()) > _MOST_VALUES:
        raise FairleadError(f"{where}: it has too many labels or counts")
    return CountedLayer(
        said.name,
        _count(f"{where}.count", said.count),
        tuple(sorted((said.node_selector or {}).items())),
        said.node_label,
        tuple((key, _count(f"{where}.counts", n)) for key, n in (said.counts or {}).items()),
        _count(f"{where}.base", said.base),
        said.parent,
    )


def _check_layers(layers: tuple[CountedLayer, ...]) -> None:
    known = {layer.name: layer for layer in layers}
    if len(layers) > _MOST_LAYERS:
        raise FairleadError(f"spec.layers has more than {_MOST_LAYERS} layers; use nodeLabel")
    if len(known) < len(layers):
        raise FairleadError("two of spec.layers have one name")
    for layer in layers:
        above, steps = layer, 0
        while above.parent:
            steps += 1
            if above.parent not in known or known[above.parent].label or steps > len(layers):
                raise FairleadError(
                    f"spec.layers {layer.name!r}: the layers above it must exist, have no "
                    "nodeLabel, and form no circle"
                )
            above = known[above.parent]


def _outside(said: _Outside) -> OutsideTerms:
    try:
        max_age_s = length_s(said.max_age) if said.max_age else _MAX_AGE_S
    except DurationError as error:
        raise FairleadError(f"spec.outside.maxAge: {error}") from None
    fallback = _count("spec.outside.fallback", said.fallback)
    return OutsideTerms(max_age_s, fallback, said.includes_pods)


def _measured(status: bytes) -> OutsideUse | None:
    """What the writer of outside use wrote; nothing if that makes no sense."""
    try:
        found = _statuses.decode(status) if status else None
        said = found.outside_use if found else None
        if said is None or not 0 <= said.used <= MOST_COUNTED:
            return None
        at = datetime.fromisoformat(said.time[:40])
        return OutsideUse(said.used, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (*UNREADABLE, ValueError, OverflowError):
        return None


class ServedCounted(ServedOwn[CountedResource, CountedStatus]):
    kind = COUNTED_KIND

    def read(self, raw: bytes) -> CountedObject:
        return decode_counted(raw)

    def _wanted(self, _described: CountedResource, status: CountedStatus) -> Json:
        return {
            "used": status.used,
            "free": status.free,
            "outside": status.outside,
            "holders": [{"namespace": name, "used": n} for name, n in status.holders],
            "layers": [
                {"name": name, "used": used, "count": count} for name, used, count in status.layers
            ],
            "message": shortened(status.message, LONGEST_MESSAGE),
        }


class CountedStatusWriter(ObjectStatusWriter[CountedObject, CountedStatus]):
    """Writes the newest status of each counted resource."""
