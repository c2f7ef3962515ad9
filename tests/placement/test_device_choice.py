"""Equal devices by policies: GPUs that work well together, and places of slices."""

from typing import Any

import pytest

from builders import SCHEDULER, a_node, decide, see, without_annotations
from claim_objects import (
    DRIVER,
    GPU_CLASS,
    a_claim,
    a_claiming_pod,
    a_device,
    a_gpu_device,
    a_slice,
    an_allocation,
)
from fairlead.apps.config.profiles import built_in, claiming
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Prepare
from fairlead.model.claims import DeviceConstraint, DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.model.devices import CounterSet, Device, DeviceClass, DeviceForm, ResourceSlice
from fairlead.plugins.claim_step import ClaimStep


def an_engine(*objects: Any, chooses: bool = True) -> Engine:
    profile = claiming(built_in(SCHEDULER), chooses=chooses)
    engine = Engine({SCHEDULER: profile}, encode=without_annotations)
    engine.handle(events.NodeSeen(a_node("n1", gpus=0)), now=0.0)
    for each in (GPU_CLASS, *objects):
        engine.handle(events.ClaimObjectSeen(each), now=0.0)
    return engine


def given(engine: Engine, claim: ResourceClaim) -> list[str]:
    """The devices that the claim gets."""
    engine.handle(events.ClaimObjectSeen(claim), now=0.0)
    see(engine, a_claiming_pod("p", claim.name))
    (asked,) = [made for made in decide(engine) if isinstance(made, Prepare)]
    (step,) = asked.steps
    assert isinstance(step, ClaimStep)
    (write,) = step.writes
    assert write.allocation is not None
    return [device.device for device in write.allocation.devices]


def on_numa(*nodes: int, **more: Any) -> ResourceSlice:
    """One GPU for each NUMA node given."""
    name = "resource.kubernetes.io/numaNode"
    gpus = (a_gpu_device(f"gpu-{at}", f"GPU-{at}", **{name: node, **more})
            for at, node in enumerate(nodes))  # fmt: skip
    return a_slice("n1", *gpus)


@pytest.mark.parametrize(("chooses", "devices"), [
    (True, ["gpu-1", "gpu-3"]),
    (False, ["gpu-0", "gpu-1"]),
])  # fmt: skip
def test_gpus_of_one_numa_node_are_taken_together(chooses: bool, devices: list[str]) -> None:
    engine = an_engine(on_numa(0, 1, 0, 1, 0), chooses=chooses)
    assert given(engine, a_claim(count=2)) == devices


def test_one_gpu_is_taken_where_fewest_are_left() -> None:
    held = a_claim("held", allocation=an_allocation("n1", "gpu-2"))
    engine = an_engine(on_numa(0, 0, 1, 1), held)
    assert given(engine, a_claim()) == ["gpu-3"]


def test_devices_that_differ_are_not_exchanged() -> None:
    published = [("A", 0), ("B", 1), ("B", 1), ("A", 1)]
    gpus = [a_gpu_device(f"gpu-{at}", f"GPU-{at}", productName=name, numaNode=numa)
            for at, (name, numa) in enumerate(published)]  # fmt: skip
    engine = an_engine(a_slice("n1", *gpus))
    assert given(engine, a_claim(count=2)) == ["gpu-0", "gpu-1"], "the first ones: one of each"


def test_rules_of_the_claim_are_kept() -> None:
    wanted = DeviceNeed("gpu", (f"device.attributes['{DRIVER}'].uuid != 'GPU-3'",), count=2)
    claim = a_claim(requests=(DeviceRequest("r", wanted),))
    assert given(an_engine(on_numa(0, 1, 0, 1, 0)), claim) == ["gpu-0", "gpu-1"], "the first ones"
    same = DeviceConstraint(match_attribute="resource.kubernetes.io/numaNode")
    claim = a_claim(count=2, constraints=(same,))
    assert given(an_engine(on_numa(0, 1, 0, 1, 0)), claim) == ["gpu-1", "gpu-3"]


# -- slices of MIG -------------------------------------------------------------------------------

PROFILES = {"1g.10gb": (1, range(7)), "2g.20gb": (2, (0, 2, 4)), "3g.40gb": (4, (0, 4))}
MIG_CLASS = DeviceClass("mig", (f"device.attributes['{DRIVER}'].type == 'mig'",))


def divided(uuid: str, number: int) -> list[Device]:
    """As NVIDIA's driver publishes the slices of a GPU."""
    found = []
    for profile, (length, starts) in PROFILES.items():
        for start in starts:
            slots = tuple((f"memory-slice-{at}", 1) for at in range(start, start + length))
            name = f"gpu-{number}-mig-{profile.replace('.', '')}-{start}"
            form = DeviceForm(name, consumes=(CounterSet(f"gpu-{number}", slots),))
            plain = a_device(name, type="mig", parentUUID=uuid, profile=profile)
            found.append(Device(form, plain.attributes))
    return found


def a_slice_of(profile: str, name: str = "c", **more: Any) -> ResourceClaim:
    expression = f"device.attributes['{DRIVER}'].profile == '{profile}'"
    request = DeviceRequest("r", DeviceNeed("mig", (expression,)))
    return a_claim(name, requests=(request,), **more)


def mig_engine(*held: str, gpus: int = 1, chooses: bool = True) -> Engine:
    slots = tuple((f"memory-slice-{at}", 1) for at in range(8))
    sets = tuple(CounterSet(f"gpu-{number}", slots) for number in range(gpus))
    devices = [each for number in range(gpus) for each in divided(f"GPU-{number}", number)]
    claims = (a_slice_of("x", f"held-{at}", allocation=an_allocation("n1", name))
              for at, name in enumerate(held))  # fmt: skip
    counters = a_slice("n1", name="counters", counter_sets=sets, slice_count=2)
    return an_engine(MIG_CLASS, a_slice("n1", *devices, slice_count=2), counters, *claims,
                     chooses=chooses)  # fmt: skip


@pytest.mark.parametrize(("chooses", "device"), [
    (True, "gpu-0-mig-1g10gb-6"),
    (False, "gpu-0-mig-1g10gb-0"),
])  # fmt: skip
def test_a_small_slice_leaves_places_for_large_ones(chooses: bool, device: str) -> None:
    assert given(mig_engine(chooses=chooses), a_slice_of("1g.10gb")) == [device]


def test_a_slice_goes_to_a_gpu_that_is_divided_already() -> None:
    engine = mig_engine("gpu-1-mig-1g10gb-4", gpus=2)
    (device,) = given(engine, a_slice_of("1g.10gb"))
    assert device.startswith("gpu-1-mig-1g10gb-")
    assert device.removeprefix("gpu-1-mig-1g10gb-") in {"5", "6"}, "where no large one fits now"
