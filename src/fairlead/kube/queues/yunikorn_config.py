"""The ConfigMap of YuniKorn: the queues of its default partition.

Of a queue are read its name, `resources.guaranteed`, `resources.max`, and of its properties
`application.sort.policy`, `application.sort.priority`, `priority.offset` and a disabled
`preemption.policy`. Users, their limits, applications and placement rules are unknown here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec

from fairlead.kube.queues.limits import check_limit, name_of_queue, queue_amounts
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts
from fairlead.model.quantities import CPU
from fairlead.model.queues import QueueSpec, UnitOrder, Victims

#: The part of the ConfigMap that lists queues.
KEY = "queues.yaml"
_PARTITION = "default"
#: Of the text, of one word of it, of lists and maps inside each other, and of queues.
LONGEST_BYTES = 64 << 10
_LONGEST_WORD = 10_000
_DEEPEST = 100
MOST_QUEUES = 1000
#: YuniKorn's name for CPU.
_VCORE = "vcore"
#: Properties that hold for the queues beneath as well.
_SORT, _SORT_PRIORITY = "application.sort.policy", "application.sort.priority"
_PREEMPTION, _OFFSET = "preemption.policy", "priority.offset"
_DISABLED = "disabled"

#: Larger numbers are none of a cluster.
_Int = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
_Numbers = dict[str, str | _Int | float]


class _Amounts(msgspec.Struct):
    guaranteed: _Numbers | None = None
    max: _Numbers | None = None


class _Queue(msgspec.Struct):
    name: str
    queues: "list[_Queue] | None" = None
    resources: _Amounts | None = None
    properties: dict[str, str | _Int | bool] | None = None


class _Partition(msgspec.Struct):
    name: str = _PARTITION
    queues: list[_Queue] | None = None


class _Config(msgspec.Struct):
    partitions: list[_Partition]


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] | None = None


_config_maps = msgspec.json.Decoder(_ConfigMap)


@dataclass(frozen=True, slots=True)
class YunikornConfig:
    """What the ConfigMap says: queues, a parent before its children; or why it cannot be read."""

    key: str
    uid: str = ""
    version: str = ""
    queues: tuple[QueueSpec, ...] = ()
    problem: str = ""


def decode_yunikorn(dialect: str, raw: bytes | msgspec.Raw) -> YunikornConfig:
    """One that makes no sense has a `problem`; it is not an exception."""
    found = _config_maps.decode(raw)
    meta = found.metadata
    config = YunikornConfig(f"{meta.namespace}/{meta.name}", meta.uid, meta.resource_version)
    try:
        return replace(config, queues=tuple(_specs(dialect, (found.data or {}).get(KEY))))
    except FairleadError as error:
        return replace(config, problem=f"the ConfigMap {config.key} cannot be read: {error}")


def _specs(dialect: str, text: str | None) -> Iterator[QueueSpec]:
    if text is None:
        raise FairleadError(f"it has no {KEY}")
    try:
        config = msgspec.convert(_loaded(text), _Config, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise FairleadError(f"{KEY}: {error}") from error
    partitions = [each for each in config.partitions if each.name == _PARTITION]
    if not partitions:
        raise FairleadError(f"{KEY} has no partition {_PARTITION}")
    found: dict[str, QueueSpec] = {}
    for queue in partitions[0].queues or ():
        for spec in _tree(dialect, "", queue, {}):
            if found.setdefault(spec.key, spec) is not spec:
                raise FairleadError(f"it lists the queue {spec.name} twice")
            if len(found) > MOST_QUEUES:
                raise FairleadError(f"it has more than {MOST_QUEUES} queues")
    yield from found.values()


def _loaded(text: str) -> Any:
    """Bounded before anything is made of it: users write this."""
    import yaml

    if len(text.encode()) > LONGEST_BYTES:
        raise FairleadError(f"{KEY} is longer than {LONGEST_BYTES >> 10} KiB")
    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise FairleadError(f"{KEY} has more than {_DEEPEST} levels")
            if isinstance(event, yaml.ScalarEvent) and len(event.value) > _LONGEST_WORD:
                raise FairleadError(f"{KEY} has a word of more than {_LONGEST_WORD} characters")
            if isinstance(event, yaml.AliasEvent):
                raise FairleadError(f"{KEY} has YAML aliases, which are not read")
        # A tag such as `!!bool` before another word is one of these errors, too.
        return yaml.load(text, Loader=loader)  # noqa: S506  (both are safe loaders)
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise FairleadError(f"{KEY} is no YAML: {str(error)[:200]}") from error


def _tree(
    dialect: str, parent: str, queue: _Queue, inherited: Mapping[str, str]
) -> Iterator[QueueSpec]:
    path = f"{parent}.{queue.name}" if parent else queue.name
    own = {name: str(value).lower() for name, value in (queue.properties or {}).items()}
    said = {**inherited, **own}
    name = name_of_queue("the path of a queue", path.lower())
    key, above = f"{dialect}/{name}", f"{dialect}/{parent}" if parent else ""
    try:
        yield _spec(key, above, queue, said, own)
    except FairleadError as error:
        yield QueueSpec(key, above, problem=f"queue {name} of the ConfigMap: {error}"[:500])
    for child in queue.queues or ():
        yield from _tree(dialect, name, child, said)


def _spec(
    key: str, parent: str, queue: _Queue, said: Mapping[str, str], own: Mapping[str, str]
) -> QueueSpec:
    resources = queue.resources or _Amounts()
    least = _amounts("resources.guaranteed", resources.guaranteed)
    most = _amounts("resources.max", resources.max)
    check_limit(least, most, above="resources.guaranteed", below="resources.max")
    preempts = said.get(_PREEMPTION) != _DISABLED
    return QueueSpec(
        key,
        parent,
        guaranteed=least,
        limit=most,
        priority=_offset(own.get(_OFFSET, "0")),
        order=_order(said),
        reclaims=Victims.ANY if preempts else Victims.NEVER,
        reclaimable=preempts,
        leaves_only=True,
    )


def _amounts(field: str, found: _Numbers | None) -> Amounts:
    named = {CPU if name == _VCORE else name: str(n) for name, n in (found or {}).items()}
    return queue_amounts(field, named)


def _order(said: Mapping[str, str]) -> UnitOrder:
    if said.get(_SORT) == "fair":
        return UnitOrder.FAIR
    return UnitOrder.FIFO if said.get(_SORT_PRIORITY) == _DISABLED else UnitOrder.PRIORITY


def _offset(text: str) -> int:
    try:
        return max(-(2**31), min(2**31 - 1, int(text)))
    except ValueError:
        raise FairleadError(f"{_OFFSET} is {text[:32]!r}; write a whole number") from None
