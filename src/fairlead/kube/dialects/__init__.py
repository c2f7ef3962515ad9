"""All dialects, and the order in which they are read."""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.cluster.inventories import merged
from fairlead.kube.dialects import discovery, kai
from fairlead.kube.dialects.alnair import Alnair
from fairlead.kube.dialects.api import (
    Assignment,
    Bound,
    Dialect,
    GpuSpec,
    NodeDeclaration,
    Part,
    PodIdentity,
)
from fairlead.kube.dialects.fairlead import ASSIGNMENT, Fairlead
from fairlead.kube.dialects.gpushare import Gpushare
from fairlead.kube.dialects.hami import Hami
from fairlead.kube.dialects.held import BoundAsks, at_least, difference, unassigned
from fairlead.kube.dialects.kai import Kai
from fairlead.kube.dialects.nvidia import Nvidia
from fairlead.kube.dialects.scheduling_map import Mapped, has_scheduling_map, identity
from fairlead.kube.dialects.sizes import too_large, too_large_with
from fairlead.kube.dialects.volcano import Volcano
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import PLAIN, GpuRequest, Grant, Inventory
from fairlead.model.limits import MOST_GPUS
from fairlead.model.nodes import GPU

__all__ = [
    "DIALECTS",
    "RESOURCES",
    "Assignment",
    "BoundAsks",
    "GpuSpec",
    "NodeDeclaration",
    "Part",
    "PodIdentity",
    "annotations_for",
    "difference",
    "has_scheduling_map",
    "identity",
    "is_assigned",
    "lock",
    "read_ask",
    "read_asks_of_bound",
    "read_grant",
    "read_inventory",
    "request_annotations",
    "reservable",
    "too_large_with",
]

_FAIRLEAD, _PLAIN, _HAMI, _KAI, _MAPPED = Fairlead(), Nvidia(), Hami(), Kai(), Mapped()
#: In the order in which they are believed: a device plugin that says what it took comes first,
#: then we, who know most about a GPU; those who know GPUs by their index only come last.
DIALECTS: tuple[Dialect, ...] = (
    Alnair(), _FAIRLEAD, _MAPPED, _HAMI, Volcano(), _KAI, Gpushare(), _PLAIN,
)  # fmt: skip
_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
#: Those whose pods ask by annotation, which may be gone when the assignment is read.
_BY_ANNOTATION = frozenset({_FAIRLEAD.name, _KAI.name, _MAPPED.name})
#: Those that may ask for `nvidia.com/gpu` as well.
_BESIDE_PLAIN = (_HAMI.name, _MAPPED.name, PLAIN)

#: Those whose device plugin confirms an assignment.
_CONFIRMED = tuple(each for each in DIALECTS if "pending" in vars(type(each)))

_ANNOTATION_KEYS = frozenset(word for dialect in DIALECTS for word in dialect.annotation_keys)
#: Resources that belong to a dialect and that no node lists.
RESOURCES = tuple(sorted({name for dialect in DIALECTS for name in dialect.resources}))


def request_annotations(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The annotations of a pod that request GPUs."""
    # Called for every pod, so the common case makes no further call.
    found = [
        key
        for key in annotations
        if key in _ANNOTATION_KEYS or (key.startswith(kai.PREFIX) and kai.is_word(key))
    ]
    return tuple((key, annotations[key]) for key in sorted(found))


def read_ask(gpu_spec: GpuSpec) -> GpuRequest | None:
    """What the pod asks of GPUs; refused if it asks in two dialects at once, or for too many."""
    ask = _read_one(gpu_spec)
    if ask is not None and (problem := too_large(ask)):
        raise FairleadError(problem)
    return ask


def _read_one(gpu_spec: GpuSpec) -> GpuRequest | None:
    asks = [ask for dialect in DIALECTS[:-1] if (ask := dialect.ask(gpu_spec)) is not None]
    if len(asks) > 1:
        names = " and ".join(ask.dialect for ask in asks)
        raise FairleadError(f"it requests GPUs in several ways ({names}); keep one")
    plain = _PLAIN.ask(gpu_spec)
    if not asks:
        return plain
    if plain is not None and asks[0].dialect not in _BESIDE_PLAIN:
        raise FairleadError(
            f"it requests nvidia.com resources and also GPUs in the dialect {asks[0].dialect}; "
            "keep one of them"
        )
    return asks[0]


def read_asks_of_bound(gpu_spec: GpuSpec) -> BoundAsks:
    """The same for a pod that is on a node already: the scheduler that put it there understood it.

    It has no more GPUs than a node can have, even if it asks for more than there are atoms.
    """
    spec = _readable(replace(gpu_spec, annotations={}, identity=None))
    try:
        return BoundAsks(_bounded(read_ask(gpu_spec)), spec)
    except FairleadError as error:
        return BoundAsks(spec, spec, str(error))


def _readable(gpu_spec: GpuSpec) -> GpuRequest | None:
    for read in (read_ask, _PLAIN.ask):
        try:
            return _bounded(read(gpu_spec))
        except FairleadError:
            continue
    return None


def _bounded(ask: GpuRequest | None) -> GpuRequest | None:
    return replace(ask, gpus=min(ask.gpus, MOST_GPUS)) if ask else None


def read_inventory(declaration: NodeDeclaration) -> tuple[Inventory | None, str]:
    """The node's GPUs one by one if an annotation lists them, else as its labels describe them.

    And what could not be read.
    """
    found, problems = [], []
    for dialect in DIALECTS:
        try:
            inventory = dialect.inventory(declaration)
        except FairleadError as error:
            problems.append(str(error))
            continue
        if inventory is not None:
            found.append(inventory)
    listed = merged(found)
    gpus = discovery.completed(listed, declaration) if listed else discovery.counted(declaration)
    return gpus, "; ".join(problems)


def reservable(declaration: NodeDeclaration, inventory: Inventory | None) -> int:
    """GPUs that NVIDIA's device plugin hands out whole, one by one; 0 if another one does."""
    if inventory is not None and inventory.named:
        return 0
    gpus = min(declaration.allocatable.get(GPU, 0), MOST_GPUS)
    return gpus if gpus > 0 and not discovery.shared_by_plugin(declaration.labels) else 0


def read_grant(
    annotations: Mapping[str, str], labels: Mapping[str, str], asks: BoundAsks, *, started: bool
) -> Grant | None:
    """The GPUs that a bound pod has: what was assigned, at least what its spec requests.

    A pod that requests none now may have done so by annotation, and only by annotation: its spec
    cannot have changed.
    """
    bound = Bound(annotations, labels, asks.now)
    if asks.now is None:
        if ASSIGNMENT not in annotations and not any(map(kai.is_answer, annotations)):
            return None
        grants = (dialect.grant(bound) for dialect in (_FAIRLEAD, _KAI))
        return next((said for said in grants if said and said.dialect in _BY_ANNOTATION), None)
    said = _assigned(bound)
    found = unassigned(asks.now) if said is None else at_least(said, asks.spec)
    if found is None or started:
        return found
    pending = any(dialect.pending(annotations) for dialect in _CONFIRMED)
    return replace(found, pending=True) if pending else found


def _assigned(bound: Bound) -> Grant | None:
    """What the first dialect says that knows of an assignment."""
    for dialect in DIALECTS:
        if said := dialect.grant(bound):
            return said
    return None


def is_assigned(annotations: Mapping[str, str]) -> bool:
    """Whether Fairlead wrote what the pod holds: then its annotations were understood before."""
    return ASSIGNMENT in annotations


def annotations_for(assignment: Assignment) -> dict[str, str]:
    """The annotations that go with the bind."""
    return {
        **_FAIRLEAD.annotations_for(assignment),
        **_dialect_of(assignment).annotations_for(assignment),
    }


def lock(assignment: Assignment) -> tuple[str, str] | None:
    """The annotation of the node that is written as a lock before the bind, and its value."""
    return _dialect_of(assignment).lock(assignment)


def _dialect_of(assignment: Assignment) -> Dialect:
    """On a node of HAMi, its device plugin also hands out plain GPUs."""
    dialect, inventory = assignment.grant.dialect, assignment.inventory
    if dialect == PLAIN and inventory is not None and _HAMI.name in inventory.dialects:
        return _HAMI
    return _BY_NAME[dialect]
