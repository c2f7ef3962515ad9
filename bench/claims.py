"""The allocator of devices alone: claims a second, claims that cannot be served, and memory.

python bench/claims.py [--nodes 5000]

Devices are those that NVIDIA's driver publishes for eight H100: whole, and with DynamicMIG.
"first look" asks every node for one claim before anything is known of the class, "next look" once
more; a "glance" is one pass over all of them. "claims" gives every device to a claim of its own,
node by node. "infeasible" asks 1,000 nodes of 64 devices for eight requests that must have the same
PCIe root, of which seven devices each do; "in the engine" is a pod with such a claim, from the
first decision to the refusal with its reasons, and a pod without claims that comes after it. "mig"
asks for a slice of a GPU until nothing is left.
"memory" is what 5,000 pools of 26 × 8 devices add to the process. Times are CPU.
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator

from fairlead.apps.config.profiles import built_in
from fairlead.claims.allocator import Allocator
from fairlead.claims.glance import NO, YES
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.usage import DeviceUsage
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen, NodeSeen, PodSeen
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import DeviceConstraint, DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.model.devices import (
    AttributeValue,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceForm,
    DeviceNodes,
    ResourceSlice,
    VersionText,
)
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod, PodRequest

Attributes = tuple[tuple[str, AttributeValue], ...]
DRIVER = "gpu.nvidia.com"
ROOT = "resource.kubernetes.io/pcieRoot"
#: Name, identifier, and places: first slices, and how many.
PROFILES = (
    ("1g.10gb", 19, range(7), 1),
    ("1g.10gb+me", 20, range(7), 1),
    ("1g.20gb", 15, range(0, 8, 2), 2),
    ("2g.20gb", 14, range(0, 6, 2), 2),
    ("3g.40gb", 9, range(0, 8, 4), 4),
    ("4g.40gb", 5, range(1), 4),
    ("7g.80gb", 0, range(1), 8),
)
CLASSES = {
    f"{kind}.nvidia.com": DeviceClass(
        f"{kind}.nvidia.com",
        (f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'",),
    )
    for kind in ("gpu", "mig")
}


def common(node: str, gpu: int, **more: AttributeValue) -> Attributes:
    known: dict[str, AttributeValue] = {
        "architecture": "Hopper",
        "brand": "Nvidia",
        "cudaComputeCapability": VersionText("9.0.0"),
        "cudaDriverVersion": VersionText("13.0.0"),
        "driverVersion": VersionText("580.95.5"),
        "productName": "NVIDIA H100 80GB HBM3",
        "resource.kubernetes.io/numaNode": gpu // 4,
        "resource.kubernetes.io/pciBusID": f"0000:{gpu:02x}:00.0",
        ROOT: f"pci0000:{gpu:02x}",
        **more,
    }
    return tuple(sorted(known.items()))


def whole_gpus(node: str) -> ResourceSlice:
    devices = (
        Device(
            DeviceForm(f"gpu-{gpu}", (("memory", DeviceCapacity(81559 << 20)),)),
            common(node, gpu, type="gpu", uuid=f"GPU-{node}-{gpu}"),
        )
        for gpu in range(8)
    )
    return ResourceSlice(
        f"0-{DRIVER}-{node}", DRIVER, node, nodes=DeviceNodes(node), devices=tuple(devices)
    )


def mig_slices(node: str) -> Iterator[ResourceSlice]:
    """Nine: the counters, and one for each GPU."""
    names = [f"memory-slice-{index}" for index in range(8)]
    sets = (
        CounterSet(
            f"gpu-{gpu}-counter-set", (("memory", 81152 << 20), *((name, 1) for name in names))
        )
        for gpu in range(8)
    )
    place = DeviceNodes(node)
    yield ResourceSlice(f"0-{DRIVER}-{node}", DRIVER, node, 1, 9, place, counter_sets=tuple(sets))
    for gpu in range(8):
        yield ResourceSlice(
            f"{gpu + 1}-{DRIVER}-{node}", DRIVER, node, 1, 9, place,
            devices=tuple(mig_devices(node, gpu, names)),
        )  # fmt: skip


def mig_devices(node: str, gpu: int, names: list[str]) -> Iterator[Device]:
    uuid = f"GPU-{node}-{gpu}"
    yield mig_device(f"gpu-{gpu}", gpu, 81152, names, common(node, gpu, type="gpu", uuid=uuid))
    for profile, number, starts, size in PROFILES:
        attributes = common(node, gpu, type="mig", parentUUID=uuid, profile=profile)
        short = profile.replace(".", "").replace("+", "-")
        for start in starts:
            name = f"gpu-{gpu}-mig-{short}-{number}-{start}"
            yield mig_device(name, gpu, 9984 * size, names[start : start + size], attributes)


def mig_device(
    name: str, gpu: int, memory: int, slots: list[str], attributes: Attributes
) -> Device:  # fmt: skip
    uses = CounterSet(
        f"gpu-{gpu}-counter-set", (("memory", memory << 20), *((slot, 1) for slot in slots))
    )
    capacity = (("memory", DeviceCapacity(memory << 20)),)
    return Device(DeviceForm(name, capacity, (uses,)), attributes)


def a_claim(name: str, *needs: DeviceNeed, match: str | None = None) -> ResourceClaim:
    requests = (DeviceRequest(f"r{number}", need) for number, need in enumerate(needs))
    constraints = (DeviceConstraint(match_attribute=match),) if match else ()
    return ResourceClaim("team", name, name, requests=tuple(requests), constraints=constraints)


def an_inventory(slices: Iterator[ResourceSlice]) -> DeviceInventory:
    inventory = DeviceInventory()
    for part in slices:
        inventory.put(part)
    return inventory


def looks(nodes: list[str]) -> None:
    inventory = an_inventory(whole_gpus(node) for node in nodes)
    allocator = Allocator(inventory, CLASSES, DeviceUsage())
    claim = a_claim("c", DeviceNeed("gpu.nvidia.com"))
    for name in ("first look", "next look"):
        begin = time.process_time()
        found = sum(allocator.allocate(node, {}, [claim]) is not None for node in nodes)
        spent = time.process_time() - begin
        each = spent / len(nodes) * 1e6
        print(f"{name}: {found} of {len(nodes)} nodes in {spent * 1e3:.0f} ms, {each:.0f} µs each")
    glances(allocator, nodes, claim)


def glances(allocator: Allocator, nodes: list[str], claim: ResourceClaim) -> None:
    """All nodes in one pass."""
    for name in ("first", "next"):
        begin = time.process_time()
        codes = allocator.glance(nodes, [claim])
        spent = time.process_time() - begin
        counts = {word: int((codes == code).sum()) for code, word in ((YES, "yes"), (NO, "no"))}
        print(f"  {name} glance: {counts} of {len(nodes)} nodes in {spent * 1e3:.1f} ms")


def claims(nodes: list[str]) -> None:
    inventory, usage = an_inventory(whole_gpus(node) for node in nodes), DeviceUsage()
    allocator = Allocator(inventory, CLASSES, usage)
    begin = time.process_time()
    count = 0
    for node in nodes:
        for number in range(8):
            claim = a_claim(f"{node}-{number}", DeviceNeed("gpu.nvidia.com"))
            found = allocator.allocate(node, {}, [claim])
            assert found is not None
            usage.hold(found[0])
            count += 1
    spent = time.process_time() - begin
    print(f"claims: {count} in {spent:.1f} s, {count / spent:.0f} claims/s")


def seven_a_root(node: str) -> ResourceSlice:
    devices = (
        Device(
            DeviceForm(f"d{index:02}"),
            ((ROOT, f"pci0000:{index // 7:02x}"), ("uuid", f"{node}-{index}")),
        )
        for index in range(64)
    )
    return ResourceSlice(node, DRIVER, node, nodes=DeviceNodes(node), devices=tuple(devices))


def infeasible() -> None:
    names = [f"node-{number:04}" for number in range(1000)]
    inventory = an_inventory(map(seven_a_root, names))
    classes = {"any": DeviceClass("any", (f"device.driver == '{DRIVER}'",))}
    allocator = Allocator(inventory, classes, DeviceUsage())
    claim = a_claim("c", *[DeviceNeed("any")] * 8, match=ROOT)
    for name in ("first look", "next look"):
        begin = time.process_time()
        found = [allocator.allocate(node, {}, [claim]) for node in names]
        spent = time.process_time() - begin
        assert not any(found)
        print(f"infeasible, {name}: {len(names)} nodes in {spent * 1e3:.0f} ms")
    glances(Allocator(inventory, classes, DeviceUsage()), names, claim)
    infeasible_in_engine(names, classes["any"], claim)


def infeasible_in_engine(names: list[str], known: DeviceClass, claim: ResourceClaim) -> None:
    engine = Engine({"bench": built_in("gpu-scheduler")})
    for node in names:
        room = (("cpu", 8000), ("memory", 1 << 35), ("pods", 110))
        engine.handle(NodeSeen(Node(node, allocatable=room)), now=0.0)
    for shown in (known, *map(seven_a_root, names), claim):
        engine.handle(ClaimObjectSeen(shown), now=0.0)
    uses = (ClaimUse("r", claim.key),)
    for name, request in (("asks", PodRequest(claims=uses)), ("plain", PodRequest())):
        pod = Pod("team", name, f"u-{name}", scheduler="bench", request=request)
        engine.handle(PodSeen(pod), now=0.0)
    turns: list[float] = []
    while True:
        begin = time.process_time()
        attempt = engine.decide(now=0.0)
        if attempt is None:
            break
        turns.append((time.process_time() - begin) * 1e3)
        made = [type(each).__name__ for each in attempt.instructions]
        print(f"  in the engine, turn {len(turns)}: {turns[-1]:.1f} ms {' '.join(made)}")
    print(f"  in the engine: {sum(turns):.0f} ms, the longest turn {max(turns):.0f} ms")


def mig(nodes: list[str]) -> None:
    inventory, usage = (
        an_inventory(part for node in nodes for part in mig_slices(node)),
        DeviceUsage(),
    )
    allocator = Allocator(inventory, CLASSES, usage)
    begin, count = time.process_time(), 0
    for node in nodes:
        while found := allocator.allocate(node, {}, [a_claim("c", DeviceNeed("mig.nvidia.com"))]):
            usage.hold(found[0])
            count += 1
    spent = time.process_time() - begin
    print(
        f"mig: {count} slices of {len(nodes)} nodes in {spent:.1f} s, {count / spent:.0f} claims/s"
    )


def memory(nodes: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    inventory = an_inventory(part for node in nodes for part in mig_slices(node))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    devices = sum(len(part.devices) for part in inventory.slices())
    print(
        f"memory: {devices} devices of {len(inventory)} slices in {(after - before) / 1024:.0f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    nodes = [f"node-{number:05}" for number in range(options.nodes)]
    parts: dict[str, Callable[[], None]] = {
        "memory": lambda: memory(nodes),
        "looks": lambda: looks(nodes),
        "claims": lambda: claims(nodes),
        "infeasible": infeasible,
        "mig": lambda: mig(nodes[:50]),
    }
    for name, part in parts.items():
        if not options.only or name in options.only:
            part()


if __name__ == "__main__":
    main()
