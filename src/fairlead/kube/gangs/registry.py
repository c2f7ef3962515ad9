"""All gang dialects: what a pod says in any of them, and how objects of them are read."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from fairlead.kube.gangs.api import GangDialect, GangObject, ObjectWire, PodWords
from fairlead.kube.gangs.composite import Composite
from fairlead.kube.gangs.coscheduling import Coscheduling
from fairlead.kube.gangs.fairlead import FairleadGangs
from fairlead.kube.gangs.grove import Grove
from fairlead.kube.gangs.kai import KaiGangs
from fairlead.kube.gangs.koordinator import Koordinator
from fairlead.kube.gangs.kueue import Kueue
from fairlead.kube.gangs.limits import LONGEST_STATUS_BYTES, checked_spec
from fairlead.kube.gangs.native import Native
from fairlead.kube.gangs.volcano import VolcanoGangs
from fairlead.kube.gangs.yunikorn import Yunikorn
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.run_times import read_run_time
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import GangSpec, Membership

#: In the order in which they are documented. No pod may name two of them.
DIALECTS: tuple[GangDialect, ...] = (
    FairleadGangs(),
    Native(),
    Composite(),
    Coscheduling(),
    VolcanoGangs(),
    KaiGangs(),
    Koordinator(),
    Grove(),
    Yunikorn(),
    Kueue(),
)
NAMES = tuple(dialect.name for dialect in DIALECTS)

_objects = msgspec.json.Decoder(ObjectWire)


class GangDialects:
    """The dialects that are switched on."""

    def __init__(self, dialects: Iterable[GangDialect] = DIALECTS) -> None:
        self.dialects = tuple(dialects)
        #: Scheduler names whose pods a controller puts into gangs after it has seen them.
        self.grouped = frozenset(name for each in self.dialects for name in each.grouped)
        self._by_name = {dialect.name: dialect for dialect in self.dialects}
        self._labels = frozenset(key for each in self.dialects for key in each.label_keys)
        self._annotations = frozenset(key for each in self.dialects for key in each.annotation_keys)

    def of(self, key: str) -> GangDialect | None:
        """The dialect of a gang's key."""
        return self._by_name.get(key.partition("/")[0])

    def concern(
        self, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
    ) -> bool:
        """Whether any of them may be meant. It is asked for every pod, and most say nothing."""
        return not (
            (not labels or self._labels.isdisjoint(labels))
            and (not annotations or self._annotations.isdisjoint(annotations))
        )

    def read(self, pod: PodWords) -> tuple[Membership | None, str]:
        """The gang of a pod, and what is wrong with what it says, if anything is."""
        try:
            found = [
                (dialect, gang)
                for dialect in self.dialects
                if (gang := dialect.membership(pod)) is not None
            ]
        except FairleadError as error:
            return None, f"the pod is invalid: {error}"
        if len(found) > 1:
            found = [each for each in found if not each[0].gives_way] or found[:1]
        if len(found) > 1:
            return None, _TWO.format(*(gang.gang for _, gang in found[:2]))
        return (found[0][1] if found else None), ""


_TWO = (
    "the pod is invalid: it belongs to two gangs, {} and {}; remove the label, annotation or field "
    "of one of them"
)

ALL = GangDialects()


def decode_object(
    dialect: GangDialect, raw: bytes | msgspec.Raw, *, with_long_status: bool = False
) -> GangObject:
    """The object of a gang. One that makes no sense has a `problem`; it is not an exception."""
    wire = _objects.decode(raw)
    meta, status = wire.metadata, bytes(wire.status)
    key = f"{dialect.name}/{meta.namespace}/{meta.name}"
    spec = _spec(dialect, key, bytes(wire.spec))
    if meta.annotations and (declared := read_run_time(None, meta.annotations, None)):
        spec = replace(spec, run_time=declared)
    if spec.claims is not None:
        spec = replace(spec, claims=replace(spec.claims, uid=meta.uid))
    return GangObject(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.generation,
        replace(spec, has_run=True) if dialect.has_run(status) else spec,
        status if with_long_status or len(status) <= LONGEST_STATUS_BYTES else b"",
    )


def _spec(dialect: GangDialect, key: str, raw: bytes) -> GangSpec:
    kind = dialect.kind.kind if dialect.kind else "gang"
    try:
        return checked_spec(dialect.spec(key, raw))
    except FairleadError as error:
        return GangSpec(key, 1, problem=f"the {kind} {key.partition('/')[2]} is invalid: {error}")
    except UNREADABLE as error:
        why = f"its spec cannot be read: {error}"
        return GangSpec(key, 1, problem=f"the {kind} {key.partition('/')[2]} is invalid: {why}")
