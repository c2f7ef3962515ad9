"""Kubelets in virtual time: what is prepared for one claim is not prepared for another."""

import pytest

from builders import SCHEDULER, a_node, a_pod
from claim_objects import (
    DRIVER,
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_device,
    a_slice,
    an_allocation,
)
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectGone, ClaimObjectSeen
from fairlead.model.claims import ResourceClaim
from fairlead.model.devices import CounterSet, Device, DeviceForm
from fairlead.queue.retry_times import ONLY_ON_CHANGE
from fairlead.sim.virtual.cluster import SimulationError, VirtualCluster
from fairlead.sim.virtual.jobs import SimJob
from fairlead.sim.virtual.preparing import PreparationRefused, VirtualPreparations

USERS = {name: a_pod(name, uid=f"u-{name}") for name in ("a", "b")}


def allocated(name: str, *devices: str, user: str = "") -> ResourceClaim:
    pod = USERS[user or name]
    return a_claim(
        name, allocation=an_allocation("n1", *devices), reserved_for=(a_claim_user(pod),)
    )


def a_part(name: str, *places: int) -> Device:
    uses = CounterSet("set", tuple((f"memory-slice-{place}", 1) for place in places))
    return Device(DeviceForm(name, consumes=(uses,)), (("parentUUID", "GPU-n1-0"),))


def prepared() -> VirtualPreparations:
    found = VirtualPreparations()
    found.publish(a_slice("n1", "gpu-0", "gpu-1", a_part("low", 0, 1), a_part("high", 2, 3)))
    return found


@pytest.mark.parametrize(
    ("first", "second", "ok"),
    [
        ("gpu-0", "gpu-0", False),
        ("gpu-0", "gpu-1", True),
        ("gpu-0", "low", False),
        ("low", "gpu-0", False),
        ("low", "high", True),
        ("low", "low", False),
    ],
)
def test_a_device_is_prepared_for_one_claim_at_a_time(first: str, second: str, ok: bool) -> None:
    devices = prepared()
    devices.prepare(USERS["a"], [allocated("a", first)])
    if not ok:
        with pytest.raises(
            PreparationRefused, match=f"device {DRIVER}/n1/{second} of claim default/b"
        ):
            devices.prepare(USERS["b"], [allocated("b", second)])
        devices.unprepare(USERS["a"])
    devices.prepare(USERS["b"], [allocated("b", second)])


def test_a_pod_that_a_claim_is_not_reserved_for_does_not_start() -> None:
    with pytest.raises(PreparationRefused, match="not allowed to use ResourceClaim default/a"):
        prepared().prepare(USERS["b"], [allocated("a", "gpu-0")])


def test_a_simulation_in_which_a_device_is_given_twice_ends() -> None:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)}, retries=ONLY_ON_CHANGE)
    cluster = VirtualCluster(engine)
    cluster.add_nodes([a_node("n1", gpus=0)])
    cluster.add_devices([GPU_CLASS], [a_slice("n1", a_device("gpu-0"))])
    for name in USERS:
        engine.handle(ClaimObjectSeen(a_claim(name)), now=0.0)
        cluster.submit(
            SimJob(name, 0.0 if name == "a" else 10.0, 100.0, (a_claiming_pod(name, name),))
        )
    cluster.run_until(5.0)
    # The scheduler forgets what it gave away.
    engine.handle(ClaimObjectGone(engine.cluster.claims.claims["default/a"]), now=5.0)
    with pytest.raises(SimulationError, match=r"n1 cannot start default/b: device .*gpu-0"):
        cluster.run()
