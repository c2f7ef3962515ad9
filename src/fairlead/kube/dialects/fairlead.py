"""Fairlead's own dialect: shares, memory and models as annotations, GPUs as the agent lists them.

    fairlead.dev/gpu-share: "0.5"        # of one GPU's compute, and of its memory unless stated
    fairlead.dev/gpu-memory: 4Gi         # of one GPU
    fairlead.dev/gpu-slice: 1g.18gb      # or a MIG slice, which the agent cuts for it
    fairlead.dev/gpu-count: "2"          # GPUs, each with that much, or slices
    fairlead.dev/gpu-model: H100|H200    # any of these
    fairlead.dev/gpu-links: nvlink       # only whole GPUs that NVLink joins
    fairlead.dev/gpu-isolation: mps      # or advisory, or mig: what keeps shares apart

The answer is `fairlead.dev/gpus` (what CUDA_VISIBLE_DEVICES gets) and `fairlead.dev/assignment`;
for MPS clients also their limits, as the variables of MPS take them.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from fairlead.base.node_inventory import KEY
from fairlead.kube.dialects import inventory
from fairlead.kube.dialects.api import (
    MOST_MIB,
    Assignment,
    Bound,
    DialectDefaults,
    GpuSpec,
    NodeDeclaration,
    alternatives,
    decoded,
    mib_of,
    number,
)
from fairlead.kube.dialects.nvidia import Nvidia
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import (
    FAIRLEAD,
    PLAIN,
    WHOLE,
    GpuRequest,
    GpuUse,
    Grant,
    Inventory,
    Isolation,
    instance_id,
    slice_name,
)
from fairlead.model.limits import MOST_GPUS
from fairlead.model.map_slots import Member

PREFIX = "fairlead.dev/"
SHARE, MEMORY = PREFIX + "gpu-share", PREFIX + "gpu-memory"
COUNT, MODEL = PREFIX + "gpu-count", PREFIX + "gpu-model"
LINKS, SLICE = PREFIX + "gpu-links", PREFIX + "gpu-slice"
ISOLATION = PREFIX + "gpu-isolation"
_PROFILE = re.compile(r"\d{1,2}g\.\d{1,4}gb")
VISIBLE, ASSIGNMENT = PREFIX + "gpus", PREFIX + "assignment"
#: What the container runtime is to show, where this is not the same as what CUDA is to see.
SHOWN = PREFIX + "runtime-gpus"
THREADS, MEMORY_LIMIT = PREFIX + "mps-threads", PREFIX + "mps-memory"


class _Use(msgspec.Struct, omit_defaults=True):
    """As few letters as can be: it travels with every pod."""

    uuid: str = msgspec.field(default="", name="u")
    milli: Annotated[int, Meta(ge=0, le=WHOLE)] = msgspec.field(default=WHOLE, name="m")
    memory_mib: Annotated[int, Meta(ge=0, le=MOST_MIB)] = msgspec.field(default=0, name="mib")
    whole: bool = msgspec.field(default=True, name="w")
    profile: str = msgspec.field(default="", name="p")
    start: Annotated[int, Meta(ge=0, le=7)] = msgspec.field(default=0, name="s")
    slices: Annotated[int, Meta(ge=0, le=8)] = msgspec.field(default=0, name="n")


class _Assignment(msgspec.Struct, omit_defaults=True):
    devices: list[_Use]
    dialect: str = PLAIN
    #: Which pod of a scheduling map it is, so that it stays that one when the map is gone.
    workload: str = msgspec.field(default="", name="map")
    index: Annotated[int, Meta(ge=0)] = msgspec.field(default=0, name="i")
    isolation: str = msgspec.field(default=Isolation.ADVISORY.value, name="iso")


_assignments = msgspec.json.Decoder(_Assignment)
_encode = msgspec.json.Encoder().encode
#: Dialects that may know GPUs by number alone, such as 3. The container is shown no other GPUs than
#: its own, and there they are numbered from 0.
_SHOWN_ALONE = frozenset({"gpushare", "kai"})
_T = TypeVar("_T", int, str)
_NO_MEMBER = Member("", 0)
_ISOLATIONS = {isolation.value: isolation for isolation in Isolation}


class Fairlead(DialectDefaults):
    name: ClassVar[str] = FAIRLEAD
    annotation_keys: ClassVar[tuple[str, ...]] = (
        SHARE, MEMORY, SLICE, COUNT, MODEL, LINKS, ISOLATION,
    )  # fmt: skip

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        said = gpu_spec.annotations
        share, memory = said.get(SHARE), said.get(MEMORY)
        if not any(word in said for word in self.annotation_keys):
            return None
        models = _models(said[MODEL]) if MODEL in said else frozenset()
        plain = Nvidia().ask(gpu_spec)
        if share is None and memory is None and SLICE not in said:
            return _with_models(plain, models, said, linked=_linked(said, plain))
        _linked(said, None)
        if plain is not None:
            raise FairleadError(
                "it requests a part of a GPU by annotation and also nvidia.com resources; "
                "request one of them"
            )
        gpus = _count(said.get(COUNT, "1"))
        isolation = _isolation(said, gpus)
        if SLICE in said:
            return _slices(said, gpus, models)
        return GpuRequest(
            gpus,
            whole=False,
            milli=0 if share is None else thousandths(SHARE, share),
            memory_mib=0 if memory is None else mib_of(MEMORY, memory),
            memory_milli=thousandths(SHARE, share) if share is not None and memory is None else 0,
            models=models,
            dialect=self.name,
            isolation=isolation,
            mps_injected=gpu_spec.mps_injected,
        )

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        raw = declaration.annotations.get(KEY)
        return None if raw is None else inventory.read(raw)

    def grant(self, bound: Bound) -> Grant | None:
        raw = bound.annotations.get(ASSIGNMENT)
        if raw is None:
            return None
        try:
            found = decoded(_assignments, raw, ASSIGNMENT)
        except FairleadError:
            return None  # only what Fairlead wrote counts
        uses = found.devices
        if not 0 < len(uses) <= MOST_GPUS or any(use.start + use.slices > 8 for use in uses):
            return None
        containers = bound.ask.containers if bound.ask else ()
        uses_had = tuple(map(_use, uses))
        member, isolation = _member(found, bound.ask), _ISOLATIONS.get(found.isolation)
        return Grant(
            uses_had,
            found.dialect,
            containers,
            member=member,
            isolation=isolation or Isolation.ADVISORY,
        )

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        """The annotations of every pod with GPUs, in any dialect."""
        grant = assignment.grant
        uses = [
            _Use(u.uuid, _same(u.milli, WHOLE), u.memory_mib, u.whole, u.profile, u.start, u.slices)
            for u in grant.uses
        ]
        member = grant.member or _NO_MEMBER
        dialect, isolation = _same(grant.dialect, PLAIN), grant.isolation.value
        said = _Assignment(uses, dialect, member.workload, member.index, isolation)
        return {
            VISIBLE: _visible(grant, assignment.inventory),
            ASSIGNMENT: _encode(said).decode(),
            **(_limits(grant.uses[0]) if grant.isolation is Isolation.MPS else {}),
        }


def _same(value: _T, default: _T) -> _T:
    """The default itself if it is equal: what is omitted is compared by identity."""
    return default if value == default else value


def _limits(use: GpuUse) -> dict[str, str]:
    """What MPS limits a client to, never more than its share. It sees one GPU, as number 0."""
    return {
        THREADS: f"{max(use.milli, 10) / 10:g}",
        MEMORY_LIMIT: f"0={use.memory_mib}M",
    }


def _member(found: _Assignment, ask: GpuRequest | None) -> Member | None:
    if found.workload:
        return Member(found.workload, found.index)
    # Assignments of earlier versions do not say it.
    map_slot = ask.map_slot if ask and found.dialect == ask.dialect else None
    return map_slot.member if map_slot else None


def _visible(grant: Grant, inventory: Inventory | None) -> str:
    """GPUs by uuid; those that a device plugin chose are the first ones that the pod sees.

    A slice that the agent cuts has a name before it exists. The GPU's own uuid would show a
    process the first slice there is, of any pod.
    """
    if not all(use.uuid for use in grant.uses):
        return _first(len(grant.uses))
    if grant.dialect in _SHOWN_ALONE and all(use.uuid.isdigit() for use in grant.uses):
        return _first(len({use.uuid for use in grant.uses}))
    slots = {gpu.uuid: gpu.slots for gpu in inventory.gpus} if inventory else {}
    return ",".join(dict.fromkeys(_name(use, slots.get(use.uuid, 0)) for use in grant.uses))


def _first(count: int) -> str:
    return ",".join(map(str, range(count)))


def _name(use: GpuUse, slots: int) -> str:
    if not (use.slices and slots):
        return use.uuid
    return slice_name(use.uuid, instance_id(use.start, use.slices, slots))


def _use(use: _Use) -> GpuUse:
    return GpuUse(
        use.uuid, use.whole, use.milli, use.memory_mib, use.profile, use.start, use.slices
    )


def _slices(said: Mapping[str, str], gpus: int, models: frozenset[str]) -> GpuRequest:
    profile = said[SLICE]
    if SHARE in said or MEMORY in said:
        raise FairleadError(
            "it requests a MIG slice and also a share of a GPU; "
            f"remove {SLICE}, or {SHARE} and {MEMORY}"
        )
    if not _PROFILE.fullmatch(profile):
        raise FairleadError(
            f"{SLICE} is {profile[:32]!r}; write a MIG profile such as 1g.18gb, "
            "as `nvidia-smi mig -lgip` lists them"
        )
    return GpuRequest(
        gpus, whole=False, milli=0, profile=profile, models=models, dialect=Fairlead.name
    )


def _isolation(said: Mapping[str, str], gpus: int) -> Isolation | None:
    text = said.get(ISOLATION)
    if text is None:
        return None
    if text not in _ISOLATIONS:
        raise FairleadError(
            f"{ISOLATION} is {text[:32]!r}; write {', '.join(list(_ISOLATIONS)[:-1])} or "
            f"{list(_ISOLATIONS)[-1]}"
        )
    isolation = _ISOLATIONS[text]
    if SLICE in said and isolation is not Isolation.MIG:
        raise FairleadError(f"it requests a MIG slice; remove {ISOLATION}, or write mig")
    if isolation is Isolation.MPS and gpus > 1:
        raise FairleadError(
            f"it requests {gpus} GPUs with MPS, and a process has the MPS daemon of one GPU only; "
            f"remove {COUNT}, or write another {ISOLATION}"
        )
    if isolation is Isolation.MPS and SHARE not in said:
        raise FairleadError(
            f"{ISOLATION} is mps, and without {SHARE} its compute is not limited; add {SHARE}"
        )
    return isolation


def _with_models(
    plain: GpuRequest | None, models: frozenset[str], said: Mapping[str, str], *, linked: bool
) -> GpuRequest | None:
    if ISOLATION in said:
        raise FairleadError(
            f"{ISOLATION} applies to a share of a GPU; add {SHARE}, or remove {ISOLATION}: "
            "whole GPUs are not shared"
        )
    if plain is None:
        if COUNT in said or models:
            raise FairleadError(
                "it says how many or which GPUs, but not how much of them; "
                f"add {SHARE}, {MEMORY} or a limit of nvidia.com/gpu"
            )
        return None
    if COUNT in said:
        raise FairleadError(f"it requests nvidia.com/gpu; remove {COUNT}")
    return replace(plain, models=models, linked=linked)


def _linked(said: Mapping[str, str], plain: GpuRequest | None) -> bool:
    if LINKS not in said:
        return False
    if said[LINKS] != "nvlink":
        raise FairleadError(f"{LINKS} is {said[LINKS][:32]!r}; write nvlink, or remove it")
    if plain is None or not plain.whole:
        raise FairleadError(f"{LINKS} applies to whole GPUs; add a limit for nvidia.com/gpu")
    return plain.gpus > 1


def thousandths(key: str, text: str) -> int:
    """A share as thousandths: more than nothing, at most one GPU."""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    milli = round(share * WHOLE) if math.isfinite(share) else 0
    if not 0 < share <= 1 or not milli:
        raise FairleadError(
            f"{key} is {text[:32]!r}; write a share of one GPU such as 0.5, at least 0.001 "
            "and at most 1"
        )
    return milli


def _count(text: str) -> int:
    count = number(text)
    if not count or count > MOST_GPUS:
        raise FairleadError(
            f"{COUNT} is {text[:32]!r}; write a number of GPUs from 1 to {MOST_GPUS}"
        )
    return count


def _models(text: str) -> frozenset[str]:
    models = frozenset(alternatives(MODEL, text, "|"))
    if not models:
        raise FairleadError(f"{MODEL} is empty; write a model such as H100, or several with |")
    return models
