"""Kinds of GPUs, as their driver describes them.

The H200 is as one answered (`tests/fixtures/h200`). Of the others the ways to cut them are known
(`model/machines.py`); what else they say here is near enough for programs that read it.
"""

from collections.abc import Mapping

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.machines import geometry_of

MIB = 1 << 20
#: Compute slices of a profile, by NVML's number for it.
_NUMBERS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
#: The number of the profile with one compute slice and twice the memory.
_ROOMY = 9


@dataclass(frozen=True, slots=True)
class DriverProfile:
    """One way to cut a GPU. `number` is NVML's constant, `id` what instances are made with."""

    number: int
    id: int
    name: str
    compute: int
    size: int
    starts: tuple[int, ...]
    instances: int
    multiprocessors: int
    memory_mib: int
    copy_engines: int = 1
    decoders: int = 1
    jpegs: int = 1
    ofas: int = 0
    #: Memory that an idle slice uses.
    idle_bytes: int = 15_204_352
    #: Multiprocessors and number of the compute instances of the second kind, where there are any.
    second_kind: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    memory_bytes: int
    reserved_bytes: int
    profiles: tuple[DriverProfile, ...] = ()
    capability: tuple[int, int] = (9, 0)
    architecture: int = 9
    cores: int = 0
    pci_id: int = 0
    #: NVLinks of each GPU.
    links: int = 0
    #: Switching MIG takes a reset, which waits for the GPU to be empty.
    resets: bool = False


H200 = Model(
    "NVIDIA H200", 150_754_820_096, 644_939_776, cores=16_896, pci_id=590_680_286, links=18,
    profiles=(
        DriverProfile(0, 19, "1g.18gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 7, 16, 16_384),
        DriverProfile(
            1, 14, "2g.35gb", 2, 2, (0, 2, 4), 3, 32, 33_280, 2, 2, 2, idle_bytes=30_408_704
        ),
        DriverProfile(
            2, 9, "3g.71gb", 3, 4, (0, 4), 2, 60, 71_424, 3, 3, 3,
            idle_bytes=45_219_840, second_kind=(26, 2),
        ),
        DriverProfile(3, 5, "4g.71gb", 4, 4, (0,), 1, 64, 71_424, 4, 4, 4, idle_bytes=60_817_408),
        DriverProfile(
            4, 0, "7g.141gb", 7, 8, (0,), 1, 132, 143_360, 8, 7, 7, 1, idle_bytes=106_430_464
        ),
        DriverProfile(7, 20, "1g.18gb+me", 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, 16, 16_384, ofas=1),
        DriverProfile(9, 15, "1g.35gb", 1, 2, (0, 2, 4, 6), 4, 26, 33_280),
    ),
)  # fmt: skip


def _other(name: str, memory_mib: int, capability: tuple[int, int], links: int = 0) -> Model:
    ids = {0: 19, 1: 14, 2: 9, 3: 5, 4: 0, _ROOMY: 15}
    if "A30" in name:
        ids = {0: 14, 1: 5, 3: 0}
    cuts = geometry_of(name, memory_mib)
    slots = max((cut.slices for cut in cuts), default=1)
    profiles = []
    for cut in cuts:
        number = _ROOMY if cut.slices > cut.compute == 1 else _NUMBERS[cut.compute]
        memory = memory_mib * cut.slices // slots
        profiles.append(
            DriverProfile(
                number,
                ids[number],
                cut.name,
                cut.compute,
                cut.slices,
                cut.starts,
                len(cut.starts),
                14 * cut.compute,
                memory,
            )
        )
    major = capability[0]
    return Model(
        name, memory_mib * MIB, 512 * MIB, tuple(profiles), capability,
        architecture={7: 6, 8: 7, 9: 9, 10: 10}.get(major, 7), links=links, resets=major == 8,
    )  # fmt: skip


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        H200,
        _other("NVIDIA H100 80GB HBM3", 81_559, (9, 0), 18),
        _other("NVIDIA A100-SXM4-40GB", 40_960, (8, 0), 12),
        _other("NVIDIA A100-SXM4-80GB", 81_920, (8, 0), 12),
        _other("NVIDIA A30", 24_576, (8, 0)),
        _other("NVIDIA L4", 23_034, (8, 9)),
        _other("Tesla T4", 15_360, (7, 5)),
    )
}
