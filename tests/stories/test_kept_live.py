"""A standby that was running all along knows the devices that evictions free, and for whom."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from claim_audit import ClaimAudit
from dra_objects import DraObjects, devices_of, uses
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually
from leaders import Lease, pair, wait_leading
from replays import replayed
from test_claims import gpus, kept_for, one, terminating

LOW, GANG = ("low-0", "low-1", "low-2"), ("g-0", "g-1")


@pytest.fixture
def node(dra: DraObjects, create_nodes: Callable[..., list[str]]) -> str:
    """A node with three devices, and the class of all of them."""
    (name,) = create_nodes([f"node-of-{dra.namespace}"[:60].strip("-")])
    dra.a_slice(name, gpus(3))
    dra.a_class(dra.namespace)
    dra.a_template("gpu", one(dra))
    return name


@pytest.fixture
def create(pods: Pods) -> Callable[..., Any]:
    def create(name: str, level: str = "", **more: Any) -> None:
        of = {"priorityClassName": level} if level else {}
        pods.create(name, resourceClaims=uses("gpu", template=True), **of, **more)

    return create


@pytest.fixture
def levels(control_plane: ControlPlane) -> Iterator[None]:
    """Two of the same priority; pods of one of them evict no others."""
    served.priority_class(control_plane, "kept-patient", 1000, preemptionPolicy="Never")
    # Also the one that is there already is forgotten at the end, before the next test makes it.
    with served.priority_classes(control_plane, {"kept-patient": 1000, "kept-high": 1000}):
        yield


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize("freed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_gang_has_its_devices_although_another_process_leads_now(
    dra: DraObjects, pods: Pods, node: str, create: Callable[..., Any], tmp_path: Path, freed: int
) -> None:
    """Of two devices, some are free before. A pod of the same priority is tried before the gang."""
    config, log = tmp_path / "fairlead.yaml", tmp_path / "log"
    config.write_text("profiles: [{schedulerName: gpu-scheduler, claims: {preempts: true}}]")
    log.mkdir()
    audit, lease = ClaimAudit(dra.plane, dra.namespace), Lease(dra.plane, dra.namespace)
    options = ["--config", str(config)]
    killed = {"options": options, "ends_with": -signal.SIGKILL}
    logged = {"options": [*options, "--decision-log", str(log)]}
    for name in LOW:
        create(name)
    with pair(lease, killed, logged) as (first, second):
        pods.wait_bound(*LOW)
        create("patient", "kept-patient")
        pods.wait_refused("patient")
        victims = _victims_of_a_gang(pods, create)
        first.process.kill()
        for name in victims[:freed]:
            pods.delete(name)  # as its kubelet does
        eventually(lambda: not _allocated(dra, victims[:freed]), what="claims are deallocated")
        wait_leading(second)
        for name in victims[freed:]:
            pods.delete(name)
        assert pods.wait_bound(*GANG) == dict.fromkeys(GANG, node)
        assert not pods.node("patient")
        assert not terminating(pods), "no pod is evicted a second time"
    assert audit.check() == 5
    assert "the replay is the same, byte for byte" in replayed(log, "5")


def _allocated(dra: DraObjects, names: list[str]) -> bool:
    """Whether claims of these pods have devices; the other scheduler may have given them away."""
    found = (each for each in dra.all_claims() if devices_of(each))
    return any(owner["name"] in names for each in found
               for owner in each["metadata"].get("ownerReferences", ()))  # fmt: skip


def _victims_of_a_gang(pods: Pods, create: Callable[..., Any]) -> list[str]:
    """They are leaving, and it is written what is kept for the gang."""
    said = {"fairlead.dev/gang": "g", "fairlead.dev/gang-min": "2"}
    for name in GANG:
        create(name, "kept-high", metadata={"annotations": said})
    victims = eventually(
        lambda: len(found := terminating(pods)) == 2 and found, what="two pods are being evicted"
    )
    eventually(lambda: any(kept_for(pods, name) for name in GANG), what="it is written")
    return list(victims)
