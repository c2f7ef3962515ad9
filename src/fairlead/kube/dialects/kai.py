"""KAI: `gpu-fraction` or `gpu-memory` of one or several GPUs, and NvFractions by container.

    gpu-fraction: "0.5"                                        # of a GPU
    gpu-memory: "4000"                                         # or MiB
    gpu-fraction-num-devices: "2"                              # GPUs, each with that much
    nvidia.com/container.trainer.gpu-memory.request: 8Gi       # NvFractions, container trainer

The answer is `nvidia.com/container.<name>.gpus.devices`. Where GPUs are known by UUID there is no
NvFractions to show them to the container, and `fairlead.dev/runtime-gpus` has them for the
container runtime. A GPU that a KAI beside us shares out is held by its reservation pod; the pods on
it hold nothing more.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects.api import (
    KAI,
    MOST_MIB,
    UUID,
    Assignment,
    Bound,
    DialectDefaults,
    GpuSpec,
    NodeDeclaration,
    mib_of,
    number,
)
from fairlead.kube.dialects.fairlead import SHOWN, thousandths
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, GrantSource, Inventory
from fairlead.model.limits import MOST_GPUS

FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
CONTAINER = "gpu-fraction-container-name"
RESERVED, GROUP = "run.ai/reserve_for_gpu_index", "runai-gpu-group"
PREFIX = "nvidia.com/container."
READY = frozenset({"gpu-fractioning.nvidia.com/Ready", "gpu-sharing.nvidia.com/Ready"})
#: Written by the feature discovery of NVIDIA.
COUNT, MIB, MODEL = "nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.product"

_SAID = re.compile(
    re.escape(PREFIX)
    + r"(?P<name>[a-z0-9-]+)\.gpu-(?P<what>memory\.(?:request|limit)|compute\.mode)"
)
_DEVICES = ".gpus.devices"


class Kai(DialectDefaults):
    name: ClassVar[str] = KAI
    annotation_keys: ClassVar[tuple[str, ...]] = (FRACTION, MEMORY, DEVICES, CONTAINER)

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        said = gpu_spec.annotations
        fraction, memory = said.get(FRACTION), said.get(MEMORY)
        by_container = _by_container(gpu_spec)
        if fraction is None and memory is None:
            if DEVICES in said:
                raise FairleadError(f"it has {DEVICES}, but neither {FRACTION} nor {MEMORY}")
            return _per_container(gpu_spec, by_container) if by_container else None
        if by_container or (fraction is not None and memory is not None):
            raise FairleadError(
                f"it requests a part of a GPU in two ways; keep one of {FRACTION}, {MEMORY} and "
                f"{PREFIX}<name>.gpu-memory"
            )
        milli = 0 if fraction is None else thousandths(FRACTION, fraction)
        gpus = _whole_number(DEVICES, said.get(DEVICES, "1"), MOST_GPUS)
        chosen = _chosen_container(gpu_spec, said.get(CONTAINER))
        return GpuRequest(
            gpus,
            whole=False,
            milli=milli,
            memory_mib=0 if memory is None else _whole_number(MEMORY, memory, MOST_MIB, " MiB"),
            memory_milli=milli,
            dialect=self.name,
            containers=(tuple(range(gpus)),),
            names=(chosen,),
        )

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        """Where NvFractions runs, indices will do for the GPUs."""
        if not READY & declaration.conditions:
            return None
        count, mib = (number(declaration.labels.get(label, "")) for label in (COUNT, MIB))
        if not count or mib is None or count > MOST_GPUS:
            raise FairleadError(
                f"it supports GPU fractions, but its labels {COUNT} and {MIB} do not say how "
                "many GPUs it has and how large; run the feature discovery of NVIDIA there"
            )
        model = declaration.labels.get(MODEL, "")
        gpus = tuple(Gpu(str(n), n, model, mib) for n in range(count))
        return Inventory(gpus, dialects=frozenset({self.name}))

    def grant(self, bound: Bound) -> Grant | None:
        reserved, ask = bound.annotations.get(RESERVED), bound.ask
        if ask is None:
            return None if _is_in_group(bound.labels) else _unasked(bound.annotations)
        if reserved and ask.whole and _is_device(reserved):
            return Grant((GpuUse(reserved),), self.name, source=GrantSource.ASSIGNED)
        if ask.dialect != self.name:
            return None
        if _is_in_group(bound.labels):
            return Grant((), self.name, source=GrantSource.ASSIGNED)
        return _from_devices(bound.annotations, ask)

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        ask, grant = assignment.pod.request.gpu_request, assignment.grant
        names = ask.names if ask else ()
        devices = {
            f"{PREFIX}{name}{_DEVICES}": ",".join(
                grant.uses[position].uuid for position in positions
            )
            for name, positions in zip(names, grant.containers, strict=False)
            if positions
        }
        uuids = dict.fromkeys(use.uuid for use in grant.uses)
        return devices | ({SHOWN: ",".join(uuids)} if all(map(UUID.fullmatch, uuids)) else {})


def _from_devices(annotations: Mapping[str, str], ask: GpuRequest) -> Grant | None:
    by_position: dict[int, str] = {}
    for name, positions in zip(ask.names, ask.containers, strict=True):
        named = annotations.get(f"{PREFIX}{name}{_DEVICES}", "").split(",")
        by_position |= dict(zip(positions, named, strict=False))
    uuids = [by_position[position].strip() for position in sorted(by_position)]
    if not uuids or not all(map(_is_device, uuids)):
        return None
    uses = (GpuUse(uuid, False, ask.milli, ask.memory_mib) for uuid in uuids)
    return Grant(tuple(uses), Kai.name, ask.containers, source=GrantSource.ASSIGNED)


def _unasked(annotations: Mapping[str, str]) -> Grant | None:
    """The devices of a pod whose request is gone: how much of them it has is not known."""
    said = [text for key, text in annotations.items() if is_answer(key)]
    uuids = dict.fromkeys(uuid.strip() for text in said for uuid in text.split(","))
    if not uuids or len(uuids) > MOST_GPUS or not all(map(_is_device, uuids)):
        return None
    return Grant(tuple(GpuUse(uuid) for uuid in uuids), Kai.name, source=GrantSource.ASSIGNED)


def _is_device(name: str) -> bool:
    return bool(UUID.fullmatch(name)) or (name.isascii() and name.isdecimal())


def is_answer(key: str) -> bool:
    return key.startswith(PREFIX) and key.endswith(_DEVICES)


def is_request(key: str) -> bool:
    """Whether an annotation requests a part of a GPU."""
    return key in (FRACTION, MEMORY) or (key.startswith(PREFIX) and ".gpu-memory." in key)


def is_known(key: str) -> bool:
    """Whether a key under the prefix of NvFractions is one that is read or written."""
    return is_answer(key) or _SAID.fullmatch(key) is not None


def is_word(key: str) -> bool:
    return key.startswith(PREFIX) and not key.endswith(_DEVICES)


def _is_in_group(labels: Mapping[str, str]) -> bool:
    return any(key == GROUP or key.startswith(GROUP + "/") for key in labels)


def _by_container(gpu_spec: GpuSpec) -> dict[str, int]:
    """MiB of each container that speaks of memory: what it requests, or else its limit."""
    mib: dict[str, int] = {}
    names = {part.name for part in gpu_spec.parts}
    for key in sorted(gpu_spec.annotations, reverse=True):  # requests come after limits
        found = _SAID.fullmatch(key) if key.startswith(PREFIX) else None
        if found is None:
            continue
        value = gpu_spec.annotations[key]
        if found["name"] not in names:
            raise FairleadError(f"{key} names a container that the pod does not have")
        if found["what"] == "compute.mode":
            _check_mode(key, value)
        elif found["what"] == "memory.request" or found["name"] not in mib:
            mib[found["name"]] = mib_of(key, value)
    return mib


def _check_mode(key: str, value: str) -> None:
    if value != "time-slicing":
        raise FairleadError(
            f"{key} is {value[:32]!r}; Fairlead supports time-slicing only, and two modes "
            "cannot share a GPU"
        )


def _per_container(gpu_spec: GpuSpec, mib: Mapping[str, int]) -> GpuRequest:
    """All on one GPU, added up as Kubernetes adds up."""
    running = most = 0
    for part in gpu_spec.parts:
        need = mib.get(part.name, 0)
        most = max(most, running + need)
        running += 0 if part.brief else need
    return GpuRequest(
        1,
        whole=False,
        milli=0,
        memory_mib=most,
        dialect=Kai.name,
        containers=tuple((0,) if part.name in mib else () for part in gpu_spec.parts),
        names=tuple(part.name for part in gpu_spec.parts),
    )


def _chosen_container(gpu_spec: GpuSpec, wanted: str | None) -> str:
    running = [part.name for part in gpu_spec.parts if not part.init] or [""]
    if wanted is not None and wanted not in {part.name for part in gpu_spec.parts}:
        raise FairleadError(f"{CONTAINER} is {wanted[:63]!r}, and the pod has no such container")
    return running[0] if wanted is None else wanted


def _whole_number(key: str, text: str, most: int, unit: str = "") -> int:
    found = number(text)
    if not found or found > most:
        example = f", such as 16000 for 16000{unit}" if unit else ""
        raise FairleadError(
            f"{key} is {text[:32]!r}; write a whole number from 1 to {most}{example}"
        )
    return found
