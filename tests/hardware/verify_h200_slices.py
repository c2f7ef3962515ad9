"""Holds the devices and counters that the agent publishes to a real GPU that nothing else uses.

    PYTHONPATH=src python tests/hardware/verify_h200_slices.py

Needs root and nvidia-ml-py. Prints each check with what it saw; status 1 if one fails. It ends with
MIG off. The agent publishes to the embedded API server, with MIG off and on. Attributes are
compared with NVML and /sys, counters with `nvidia-smi mig` where it is there, and then with the
driver itself: pairs of slices that the counters allow together are created, and pairs that they do
not allow are refused. $OUT keeps what was published. NVML=MODULE uses another library.
"""

import contextlib
import ctypes
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

from lone_cluster import Cluster  # noqa: E402

from fairlead.telemetry.nvml.worker import load  # noqa: E402

OUT = Path(os.environ.get("OUT") or tempfile.mkdtemp())
LIBRARY = os.environ.get("NVML", "pynvml")
ENV = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        filter(None, (str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH")))
    )
}
AGENT = [
    sys.executable, "-c", "from fairlead.apps.entry import main; main()", "agent",
    "--nvml", LIBRARY,
]  # fmt: skip
NODE = "h200"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
OWN = "fairlead.dev/publisher"
#: Pairs of slices that are tried on the driver.
PAIRS = 150
failed: list[str] = []
Object = dict[str, Any]


def check(what: str, holds: object, saw: object) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what}: {saw}", flush=True)
    if not holds:
        failed.append(what)


# -- what the agent publishes ----------------------------------------------------------------------


def published(cluster: Cluster, mode: str, count: int) -> list[Object]:
    """All slices of a new agent, in order."""
    for old in cluster.api("GET", SLICES)["items"]:
        cluster.api("DELETE", f"{SLICES}/{old['metadata']['name']}")
    with cluster.agent([*AGENT, "--resource-slices", mode], NODE):
        cluster.eventually(lambda: len(cluster.api("GET", SLICES)["items"]) == count)
        found = cluster.api("GET", SLICES)["items"]
    found.sort(key=lambda each: each["metadata"]["name"])
    return [each["spec"] for each in found]


def keep(name: str, found: object) -> None:
    (OUT / name).write_text(json.dumps(found, indent=1))


def plain(device: Object) -> dict[str, Any]:
    """Attributes without their kinds and domains."""
    return {
        name.rpartition("/")[2]: next(iter(value.values()))
        for name, value in device["attributes"].items()
        if name != OWN
    }


def amounts(values: Object) -> dict[str, int]:
    units = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    found = {}
    for name, entry in values.items():
        number = re.fullmatch(r"(\d+)(|Ki|Mi|Gi)", entry["value"])
        assert number, entry
        found[name] = int(number[1]) * units[number[2]]
    return found


# -- attributes ------------------------------------------------------------------------------------


def against_nvml(library: Any, devices: list[Object]) -> None:
    count = library.nvmlDeviceGetCount()
    check("one device for each GPU", len(devices) == count, [one["name"] for one in devices])
    for index in range(count):
        handle = library.nvmlDeviceGetHandleByIndex(index)
        name = f"gpu-{library.nvmlDeviceGetMinorNumber(handle)}"
        device = next((one for one in devices if one["name"] == name), None)
        if device is None:
            check("each GPU has a device with its minor number", False, name)
            continue
        seen, expected = plain(device), attributes(library, handle)
        for key, value in expected.items():
            check(f"{name} {key}", seen.get(key) == value, f"{seen.get(key)} and {value}")
        known = expected.keys() | {"type"}
        check(f"{name} has no other attributes", seen.keys() <= known, sorted(seen.keys() - known))
        total = int(library.nvmlDeviceGetMemoryInfo(handle).total)
        memory = amounts(device["capacity"])["memory"]
        check(f"{name} memory", memory == total, f"{memory} and {total}")


def attributes(library: Any, handle: Any) -> dict[str, Any]:
    """What NVML and the kernel say, asked here once more and not through the agent."""
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    cuda = library.nvmlSystemGetCudaDriverVersion_v2()
    pci = said(library.nvmlDeviceGetPciInfo(handle).busId).lower()[-12:]
    brands = {value: key for key, value in vars_of(library, "NVML_BRAND_").items()}
    brand = brands[library.nvmlDeviceGetBrand(handle)]
    kinds = {value: key for key, value in vars_of(library, "NVML_DEVICE_ARCH_").items()}
    driver = said(library.nvmlSystemGetDriverVersion())
    found = {
        "uuid": said(library.nvmlDeviceGetUUID(handle)),
        "productName": said(library.nvmlDeviceGetName(handle)),
        "brand": {"NVIDIA": "Nvidia", "TESLA": "Tesla"}.get(brand, brand),
        "architecture": kinds[library.nvmlDeviceGetArchitecture(handle)].capitalize(),
        "cudaComputeCapability": f"{major}.{minor}.0",
        "driverVersion": ".".join(str(int(part)) for part in driver.split(".")),
        "cudaDriverVersion": f"{cuda // 1000}.{cuda % 1000 // 10}.0",
        "pciBusID": pci,
    }
    return found | addressing(library, handle) | from_kernel(pci)


def addressing(library: Any, handle: Any) -> dict[str, Any]:
    try:
        mode = library.nvmlDeviceGetAddressingMode(handle)
    except (AttributeError, library.NVMLError) as error:
        print("info addressing mode:", error)
        return {}
    return {"addressingMode": ("None", "HMM", "ATS")[mode]}


def from_kernel(pci: str) -> dict[str, Any]:
    """The root complex and the NUMA node, where the kernel shows them."""
    path = Path("/sys/bus/pci/devices") / pci
    if not path.exists():
        print("info the kernel does not show", path)
        return {"numaNode": 0}
    root = next(part for part in path.resolve().parts if part.startswith("pci"))
    numa = int((path / "numa_node").read_text())
    return {"pcieRoot": root} | ({"numaNode": numa} if numa >= 0 else {"numaNode": 0})


def vars_of(library: Any, start: str) -> dict[str, int]:
    import pynvml

    return {
        name.removeprefix(start): value
        for name, value in vars(pynvml).items()
        if name.startswith(start) and not name.endswith("_COUNT")
    }


def said(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# -- counters --------------------------------------------------------------------------------------


class Pool:
    """What was published with `mig`: counters of the GPU, and what each device takes of them."""

    def __init__(self, specs: list[Object]) -> None:
        counters, devices = specs
        (self.set,) = counters["sharedCounters"]
        self.available = amounts(self.set["counters"])
        self.devices = {device["name"]: device for device in devices["devices"]}
        self.whole = next(name for name in self.devices if "mig" not in name)

    def takes(self, name: str) -> dict[str, int]:
        (uses,) = self.devices[name]["consumesCounters"]
        assert uses["counterSet"] == self.set["name"]
        return amounts(uses["counters"])

    def allow(self, *names: str) -> bool:
        return all(
            sum(self.takes(name).get(counter, 0) for name in names) <= amount
            for counter, amount in self.available.items()
        )


def against_profiles(library: Any, pool: Pool) -> None:
    """Each profile that the driver knows, with its amounts and its places."""
    handle = library.nvmlDeviceGetHandleByIndex(0)
    named: dict[str, list[str]] = {}
    for name, device in pool.devices.items():
        named.setdefault(plain(device).get("profile", ""), []).append(name)
    for number in range(18):
        try:
            info = library.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
        except library.NVMLError:
            continue
        profile = said(info.name).removeprefix("MIG ")
        mine = named.pop(profile, [])
        capacity = amounts(pool.devices[mine[0]]["capacity"]) if mine else {}
        expected = {
            "memory": int(info.memorySizeMB) << 20, "multiprocessors": info.multiprocessorCount,
            "copyEngines": info.copyEngineCount, "decoders": info.decoderCount,
            "encoders": info.encoderCount, "jpegEngines": info.jpegCount,
            "ofaEngines": info.ofaCount,
        }  # fmt: skip
        check(f"{profile} has the amounts of NVML", capacity == expected, capacity)
        places = placements(library, handle, info.id)
        if places is None:
            print("info NVML does not list places of", profile, "while MIG is off")
            continue
        seen = sorted(int(name.rpartition("-")[2]) for name in mine)
        check(f"{profile} can be where NVML says", seen == sorted(dict(places)), seen)
        for start, size in places:
            name = next(one for one in mine if one.endswith(f"-{start}"))
            slots = {int(key[13:]) for key in pool.takes(name) if key.startswith("memory-slice")}
            check(
                f"{name} takes its memory slices", slots == set(range(start, start + size)), slots
            )
    check("and no profile that NVML does not know", named.keys() <= {""}, list(named))
    most = {
        key: max(pool.takes(name).get(key, 0) for name in pool.devices) for key in pool.available
    }
    check("the set has the most that a device takes", most == pool.available, pool.available)
    check("the GPU takes all of it", pool.takes(pool.whole) == pool.available, pool.whole)


def placements(library: Any, handle: Any, profile: int) -> list[tuple[int, int]] | None:
    array, count = (library.c_nvmlGpuInstancePlacement_t * 32)(), ctypes.c_uint(32)
    try:
        library.nvmlDeviceGetGpuInstancePossiblePlacements(
            handle, profile, array, ctypes.byref(count)
        )
    except library.NVMLError:
        return None
    return [(place.start, place.size) for place in array[: count.value]] or None


def against_nvidia_smi(pool: Pool) -> None:
    """`nvidia-smi mig -lgip` prints amounts of each profile, in two lines."""
    if shutil.which("nvidia-smi") is None:
        print("info without nvidia-smi")
        return
    said_ = subprocess.run(
        ["nvidia-smi", "mig", "-lgip"], capture_output=True, text=True, check=False
    )
    (OUT / "lgip.txt").write_text(said_.stdout)
    row = re.compile(
        r"MIG (\S+)\s+(\d+)\s+\d+/\d+\s+([\d.]+)\s+\w+\s+(\d+)\s+(\d+)\s+(\d+)\s+\|\s*\n"
        r"\|\s+(\d+)\s+(\d+)\s+(\d+)\s+\|"
    )
    rows = row.findall(said_.stdout)
    check("nvidia-smi lists profiles", rows, len(rows))
    for profile, id_, gib, sm, dec, enc, ce, jpeg, ofa in rows:
        name = next(
            (one for one, device in pool.devices.items()
             if plain(device).get("profile") == profile and f"-{id_}-" in one), None,
        )  # fmt: skip
        have = amounts(pool.devices[name]["capacity"]) if name else {}
        shown = [have.get(key) for key in ("multiprocessors", "decoders", "encoders",
                                           "copyEngines", "jpegEngines", "ofaEngines")]  # fmt: skip
        expected = [int(each) for each in (sm, dec, enc, ce, jpeg, ofa)]
        check(f"{profile} as nvidia-smi shows it", shown == expected, f"{shown} and {expected}")
        memory = have.get("memory", 0) / (1 << 30)
        check(f"{profile} memory", abs(memory - float(gib)) < 0.01, f"{memory:.2f} and {gib} GiB")


def against_driver(library: Any, pool: Pool) -> None:
    """Two slices that the counters allow together can be created, and no others."""
    handle = library.nvmlDeviceGetHandleByIndex(0)
    names = [name for name in pool.devices if name != pool.whole]
    pairs = list(itertools.product(names, names))
    random.Random(23).shuffle(pairs)
    counts = {"both": 0, "neither": 0}
    strict, loose = [], []
    for one, other in pairs[:PAIRS]:
        created = [
            instance for name in (one, other) if (instance := create(library, handle, pool, name))
        ]
        fits = len(created) == 2
        for instance in created:
            library.nvmlGpuInstanceDestroy(instance)
        counts["both" if fits else "neither"] += 1
        if fits and not pool.allow(one, other):
            strict.append((one, other))
        if not fits and pool.allow(one, other):
            loose.append((one, other))
    check("the driver creates what the counters allow", not loose, loose[:5] or counts)
    check("the counters allow what the driver creates", not strict, strict[:5] or counts)


def create(library: Any, handle: Any, pool: Pool, name: str) -> Any:
    """None if the driver refuses."""
    *_, profile, start = name.split("-")
    size = sum(key.startswith("memory-slice") for key in pool.takes(name))
    place = library.c_nvmlGpuInstancePlacement_t(int(start), size)
    try:
        return library.nvmlDeviceCreateGpuInstanceWithPlacement(
            handle, int(profile), ctypes.byref(place)
        )
    except library.NVMLError:
        return None


@contextlib.contextmanager
def mig_on(library: Any) -> Iterator[None]:
    handle = library.nvmlDeviceGetHandleByIndex(0)
    library.nvmlDeviceSetMigMode(handle, 1)
    try:
        check("MIG is on", library.nvmlDeviceGetMigMode(handle)[0] == 1, "on")
        yield
    finally:
        library.nvmlDeviceSetMigMode(handle, 0)
        check("it ends with MIG off", library.nvmlDeviceGetMigMode(handle)[0] == 0, "off")


def verify(cluster: Cluster, library: Any) -> None:
    cluster.create_node(NODE)
    (whole,) = published(cluster, "whole", 1)
    keep("whole.json", whole)
    check("one pool with the name of the node", whole["pool"]["name"] == NODE, whole["pool"])
    against_nvml(library, whole["devices"])
    off = published(cluster, "mig", 2)
    keep("mig_off.json", off)
    against_profiles(library, Pool(off))
    with mig_on(library):
        on = published(cluster, "mig", 2)
        keep("mig_on.json", on)
        same = [one.get("devices") or one["sharedCounters"] for one in off] == [
            one.get("devices") or one["sharedCounters"] for one in on
        ]
        check("the same is published with MIG on and off", same, [len(one) for one in on])
        pool = Pool(on)
        against_profiles(library, pool)
        against_nvidia_smi(pool)
        against_driver(library, pool)


def main() -> int:
    began = time.monotonic()
    library = load(LIBRARY)
    library.nvmlInit()
    with tempfile.TemporaryDirectory() as folder, Cluster.start(Path(folder), ENV) as cluster:
        try:
            verify(cluster, library)
        except Exception:
            failed.append(traceback.format_exc())
            print("FAIL", failed[-1], flush=True)
    print(f"{len(failed)} failed, in {time.monotonic() - began:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
