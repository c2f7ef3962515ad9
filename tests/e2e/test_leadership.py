"""Several schedulers, one of which decides: on a real API server, with real deaths."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from fairlead.kube.access.kubeconfig import load_access
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import PATIENCE_S, Pods, eventually
from faultproxy import FaultProxy, a, drop, refuse_connection
from leaders import (
    EPOCH,
    Lease,
    bind,
    candidate,
    epoch_policy,
    inventory,
    pair,
    said,
    serves_epochs,
    sold,
    sold_twice,
    wait_leading,
    wait_standing_by,
)

GPUS = 8
T = TypeVar("T")


@pytest.fixture(scope="module")
def control_plane(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of this module's own: a policy on its binds is nothing for others."""
    with ControlPlane.start(assets, tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture
def lease(control_plane: ControlPlane, namespace: str) -> Lease:
    return Lease(control_plane, namespace)


@pytest.fixture
def machines(create_nodes: Callable[..., list[str]]) -> Callable[..., None]:
    """Nodes with GPUs that can be told apart."""

    def create(*names: str) -> None:
        for name in names:
            create_nodes(
                [name],
                allocatable={"nvidia.com/gpu": str(GPUS)},
                annotations=inventory(name, GPUS),
            )

    return create


@pytest.fixture
def policy(lease: Lease) -> Iterator[None]:
    with epoch_policy(lease):
        yield


def bound(pods: Pods) -> dict[str, str]:
    return {name: node for name, node in pods.nodes().items() if node}


# -- one decides, the other is ready to --------------------------------------------------------


def test_one_decides_and_the_other_stands_by(lease: Lease, pods: Pods, machines, policy) -> None:
    machines("one")
    with candidate(lease) as first:
        epoch = wait_leading(first)
        with candidate(lease) as second:
            wait_standing_by(second)
            pods.create("p", 1)
            pods.wait_bound("p")

            assert pods.get("p")["metadata"]["annotations"][EPOCH] == epoch == lease.epoch
            assert first.get("/readyz") == (200, "ok")
            assert second.get("/readyz") == (200, f"standby: {lease.holder} leads")
            assert json.loads(second.get("/ready")[1])["status"] == "ready"
            binds = {"name": "fairlead_writes_total", "kind": "bind", "result": "bound"}
            eventually(lambda: first.metric(**binds) == 1, what="the bind is counted")
            assert second.metric(**binds) == 0
            for process, leads in ((first, 1), (second, 0)):
                assert process.metric("leader_election_master_status") == leads
            # Warm: what the leader did is known here already.
            eventually(lambda: second.metric("scheduler_cache_size", type="pods") == 1)


def test_the_lease_reads_as_client_go_writes_it(lease: Lease, machines) -> None:
    with candidate(lease) as process:
        wait_leading(process)
        shown = _kubectl(lease, "get", "lease", lease.name).splitlines()[1].split()
        assert shown[:2] == [lease.name, lease.holder]
        spec = lease.spec
        assert set(spec) == {
            "holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime",
            "leaseTransitions",
        }  # fmt: skip
        assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (9, 0)
        eventually(lambda: lease.spec["renewTime"] > spec["renewTime"], what="it is renewed")
        assert lease.spec["acquireTime"] == spec["acquireTime"]
    released = lease.spec
    assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)


def test_kube_scheduler_can_share_the_lease(lease: Lease, control_plane, machines) -> None:
    """Its elector is client-go's: it waits for ours, and ours for it."""
    election = {
        "leaderElect": True, "leaseDuration": "9s", "renewDeadline": "6s", "retryPeriod": "300ms",
        "resourceName": lease.name, "resourceNamespace": lease.namespace,
    }  # fmt: skip
    profiles = [{"schedulerName": "another"}]
    lease.allow("system:kube-scheduler")
    with candidate(lease) as ours:
        wait_leading(ours)
        held = lease.holder
        theirs = control_plane.start_kube_scheduler(
            {"profiles": profiles, "leaderElection": election}
        )
        with theirs:
            renewed = lease.spec["renewTime"]
            eventually(lambda: lease.spec["renewTime"] > renewed)
            assert lease.holder == held
            ours.process.terminate()
            eventually(lambda: lease.holder not in ("", held), what="kube-scheduler leads")
            assert lease.spec["leaseTransitions"] == 1
            with candidate(lease) as again:
                wait_standing_by(again)
                theirs.stop()
                assert wait_leading(again).startswith("2/")


def _kubectl(lease: Lease, *words: str) -> str:
    access = ("--kubeconfig", str(lease.plane.kubeconfig_for()), "-n", lease.namespace)
    command = [lease.plane.program("kubectl"), *access, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# -- leaders end -------------------------------------------------------------------------------


def test_the_leader_is_killed_and_the_standby_finishes(
    lease: Lease, pods: Pods, machines, policy
) -> None:
    machines(*(f"k{number}" for number in range(5)))
    with pair(lease, {"ends_with": -signal.SIGKILL}, {}) as (first, second):
        for number in range(60):
            pods.create(f"p{number}", 1)
            if number == 30:
                first.process.kill()
        wait_leading(second)
        eventually(lambda: len(bound(pods)) == 5 * GPUS)
        for name in set(pods.nodes()) - set(bound(pods)):
            pods.wait_refused(name)
    assert sold(lease.plane).total() == 5 * GPUS
    assert sold_twice(lease.plane) == []


def test_a_leader_that_is_told_to_stop_makes_room_at_once(
    lease: Lease, pods: Pods, machines
) -> None:
    machines("s1")
    # So long that only a lease that was given back can be taken within this test.
    long = {"lease_duration": "300s", "renew_deadline": "200s", "retry_period": "1s"}
    with pair(lease, {"durations": long}, {"durations": long}) as (first, second):
        pods.create("before", 1)
        pods.wait_bound("before")
        first.process.terminate()
        assert first.process.wait(PATIENCE_S) == 0
        assert wait_leading(second).startswith("1/")
        pods.create("after", 1)
        pods.wait_bound("after")
    assert said(first, "lease released")


@pytest.mark.parametrize("fenced", [True, False], ids=["with the policy", "without the policy"])
async def test_a_bind_that_was_sent_before_a_long_sleep(
    fenced: bool, lease: Lease, pods: Pods, machines
) -> None:
    """The lease cannot stop what is under way: only the policy refuses it."""
    await asyncio.to_thread(machines, "z1")
    _a_priority_class(lease.plane)
    with epoch_policy(lease) if fenced else contextlib.nullcontext():
        async with _slow(lease) as (proxy, access):
            arrived, let_go = asyncio.Event(), asyncio.Event()
            answers: list[int] = []

            async def hold(forward):
                arrived.set()
                await let_go.wait()
                reply = await forward()
                answers.append(reply.status)
                return reply

            proxy.on_request(hold, method="POST", path="/binding")
            both = pair(lease, {"kubeconfig": access, "ends_with": 1}, {})
            async with _entered(both) as (first, _):
                await asyncio.to_thread(pods.create, "late", GPUS)
                await arrived.wait()
                first.process.send_signal(signal.SIGSTOP)
                await asyncio.to_thread(
                    pods.create, "urgent", GPUS, priorityClassName="urgent-in-leadership"
                )
                await asyncio.to_thread(pods.wait_bound, "urgent")
                let_go.set()
                await asyncio.to_thread(eventually, lambda: answers)
                first.process.send_signal(signal.SIGCONT)
                assert await asyncio.to_thread(first.process.wait, PATIENCE_S) == 1
        assert said(first, "leadership lost")
        late = pods.get("late")["spec"].get("nodeName")
        twice = sold_twice(lease.plane)
    if fenced:
        assert (answers, late, twice) == ([403], None, [])
    else:
        assert (answers, late, len(twice)) == ([201], "z1", GPUS), "nothing else prevents it"


def _a_priority_class(plane: ControlPlane) -> None:
    served.priority_class(plane, "urgent-in-leadership", 10, preemptionPolicy="Never")


@contextlib.asynccontextmanager
async def _entered(block: contextlib.AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enters and leaves a block that takes its time, while the proxy goes on."""
    entered = await asyncio.to_thread(block.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(block.__exit__, *sys.exc_info())


@contextlib.asynccontextmanager
async def _slow(lease: Lease) -> AsyncIterator[tuple[FaultProxy, Path]]:
    """A proxy before the API server, and a kubeconfig that leads through it."""
    async with FaultProxy(load_access(str(lease.plane.kubeconfig_for()))) as proxy:
        yield proxy, _kubeconfig(lease.plane.logs / f"{lease.namespace}.proxy", proxy.access.server)


def _kubeconfig(path: Path, server: str) -> Path:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }  # fmt: skip
    path.write_text(json.dumps(config))
    return path


def test_a_leader_that_hangs_in_a_plugin_stops_renewing(
    lease: Lease, pods: Pods, machines, tmp_path: Path
) -> None:
    machines("h1")
    hangs = {"options": ["--config", str(_hanging(tmp_path))], "ends_with": -signal.SIGKILL}
    with pair(lease, hangs, {}) as (first, second):
        pods.create("p", 1)
        pods.wait_bound("p")
        assert pods.get("p")["metadata"]["annotations"][EPOCH] == wait_leading(second)
        first.process.kill()


def _hanging(folder: Path) -> Path:
    """A configuration whose picker never comes to an end."""
    (folder / "hanging.py").write_text(
        "import time\n"
        "class Hanging:\n"
        "    name = 'Hanging'\n"
        "    def pick(self, request, nodes, scores):\n"
        "        time.sleep(3600)\n"
    )
    path = folder / "config.yaml"
    profile = {"schedulerName": "gpu-scheduler", "picker": "./hanging.py:Hanging"}
    path.write_text(
        json.dumps({
            "apiVersion": "fairlead.dev/v1alpha1", "kind": "SchedulerConfiguration",
            "profiles": [profile],
        })
    )  # fmt: skip
    return path


async def test_a_leader_without_an_api_server_steps_down(
    lease: Lease, pods: Pods, machines
) -> None:
    await asyncio.to_thread(machines, "u1")
    async with _slow(lease) as (proxy, access):
        async with _entered(pair(lease, {"kubeconfig": access, "ends_with": 1}, {})) as both:
            first, second = both
            proxy.on_request(refuse_connection, times=None)
            proxy.cut()
            assert await asyncio.to_thread(first.process.wait, PATIENCE_S) == 1
            await asyncio.to_thread(wait_leading, second)
            await asyncio.to_thread(pods.create, "p", 1)
            await asyncio.to_thread(pods.wait_bound, "p")
        (lost,) = said(first, "leadership lost")
        assert "no renewal within 6 s" in lost["reason"]


# -- what the new leader knows -----------------------------------------------------------------


async def test_a_standby_that_missed_something_decides_only_when_it_has_caught_up(
    lease: Lease, pods: Pods, machines
) -> None:
    await asyncio.to_thread(machines, "m1")
    async with _slow(lease) as (proxy, access):
        kinds = ("ADDED", "MODIFIED")
        faults = [drop(a(kind, "first"), times=1000) for kind in kinds]
        proxy.on_watch(*faults, path="/api/v1/pods")
        killed = {"ends_with": -signal.SIGKILL}
        async with _entered(pair(lease, killed, {"kubeconfig": access})) as (first, _):
            await asyncio.to_thread(pods.create, "first", GPUS)
            await asyncio.to_thread(pods.wait_bound, "first")
            first.process.kill()
            await asyncio.to_thread(pods.create, "second", GPUS)
            why = await asyncio.to_thread(pods.wait_refused, "second")
    assert "Insufficient nvidia.com/gpu" in why["message"]
    assert sold_twice(lease.plane) == []


def test_two_who_lead_at_once_sell_no_gpu_twice(lease: Lease, pods: Pods, machines) -> None:
    """Each holds a Lease of its own, so both decide; the policy knows one of them."""
    machines("t1", "t2")
    other = Lease(lease.plane, lease.namespace, "another")
    with candidate(lease) as ours, candidate(other) as theirs:
        epoch = wait_leading(ours)
        wait_leading(theirs)
        with epoch_policy(lease):
            for number in range(3 * GPUS):
                pods.create(f"p{number}", 1)
            eventually(lambda: len(bound(pods)) == 2 * GPUS)
            eventually(
                lambda: theirs.metric("fairlead_writes_total", kind="bind", result="denied"),
                what="the other one tried",
            )
    assert sold(lease.plane).total() == 2 * GPUS
    assert sold_twice(lease.plane) == []
    found = [pods.get(name) for name in bound(pods)]
    assert {pod["metadata"]["annotations"][EPOCH] for pod in found} == {epoch}


# -- hands on the Lease ------------------------------------------------------------------------


def test_a_deleted_lease_is_made_again_by_its_leader(
    lease: Lease, pods: Pods, machines, policy
) -> None:
    machines("d1")
    with pair(lease, {}, {}) as (_, second):
        epoch = lease.epoch
        assert lease.plane.api("DELETE", lease.path)[0] == 200
        eventually(lambda: lease.spec, what="it is there again")
        assert lease.epoch == epoch
        pods.create("p", 1)
        pods.wait_bound("p")
        assert not said(second, "elected")


def test_a_deleted_epoch_is_made_again_by_its_leader(
    lease: Lease, pods: Pods, machines, policy
) -> None:
    with candidate(lease) as process:
        epoch = wait_leading(process)
        assert lease.plane.api("DELETE", lease.epoch_path)[0] == 200
        eventually(
            lambda: lease.plane.api("GET", lease.epoch_path)[1].get("spec") == {"epoch": epoch},
            what="it is there again",
        )
        pods.create("p", scheduler="nobody")
        eventually(
            lambda: bind(lease, "p", "n", **{EPOCH: "0/old"})[0] == 403, what="old ones are refused"
        )


def test_without_the_kind_for_epochs_others_bind_and_so_do_we(
    lease: Lease, pods: Pods, machines, policy
) -> None:
    """A policy whose parameter has no kind must not hold up the whole cluster."""
    machines("f1")
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert lease.plane.api("DELETE", f"{crds}/schedulerepochs.fairlead.dev")[0] == 200
    served.until(lambda: not serves_epochs(lease.plane), "the kind is gone")
    with candidate(lease) as process:
        wait_leading(process)
        pods.create("theirs", scheduler="nobody")
        assert bind(lease, "theirs", "n")[0] == 201
        pods.create("ours", 1)
        pods.wait_bound("ours")


def test_a_leader_whose_lease_was_given_to_another_by_hand_steps_down(
    lease: Lease, pods: Pods, machines, policy
) -> None:
    machines("e1")
    with pair(lease, {"ends_with": 1}, {}) as (first, second):
        lease.edit(holderIdentity="somebody")
        assert first.process.wait(PATIENCE_S) == 1
        (lost,) = said(first, "leadership lost")
        assert lost["reason"] == "somebody holds it now"
        assert "fairlead: lost the lease" in first.log.read_text()
        wait_leading(second)
        pods.create("p", 1)
        pods.wait_bound("p")


def test_a_candidate_without_rights_says_which_it_needs(lease: Lease, control_plane) -> None:
    access = control_plane.kubeconfig_for("system:kube-scheduler")
    with candidate(lease, kubeconfig=access) as process:
        (trouble,) = eventually(lambda: said(process, "lease error; retrying"))
        assert "grant this user create, get and update on leases" in trouble["reason"]
        assert process.get("/readyz")[1] == "standby: nobody leads"


# -- the policy alone --------------------------------------------------------------------------


def test_the_policy_refuses_every_epoch_but_the_present(lease: Lease, pods: Pods, policy) -> None:
    with candidate(lease) as process:
        epoch = wait_leading(process)
        number, _, holder = epoch.partition("/")
        pods.create("mine", scheduler="nobody")
        for wrong in (f"{int(number) + 1}/{holder}", f"{number}/another", number, "", " "):
            status, answer = bind(lease, "mine", "n", **{EPOCH: wrong or " "})
            assert (status, "this bind was decided in epoch" in answer["message"]) == (403, True)
        eventually(
            lambda: bind(lease, "mine", "n", **{EPOCH: epoch})[0] == 201,
            what="the policy has seen the present epoch",
        )
        pods.create("theirs", scheduler="nobody")
        assert bind(lease, "theirs", "n")[0] == 201, "other schedulers are let alone"
    # The policy is asked before it is looked whether there is such a pod.
    eventually(
        lambda: bind(lease, "nobody", "n", **{EPOCH: epoch})[0] == 403, what="it was released"
    )
    pods.create("late", scheduler="nobody")
    assert bind(lease, "late", "n", **{EPOCH: epoch})[0] == 403


def test_our_own_user_binds_nothing_without_an_epoch(
    lease: Lease, pods: Pods, policy, tmp_path: Path
) -> None:
    """Such as one that was told not to be elected."""
    with candidate(lease) as process:
        wait_leading(process)
        pods.create("p", scheduler="nobody")
        body = {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
            "target": {"kind": "Node", "name": "n"},
        }  # fmt: skip
        file = tmp_path / "binding.json"
        file.write_text(json.dumps(body))
        us = ("--as=system:serviceaccount:fairlead-system:fairlead", "--as-group=system:masters")
        with pytest.raises(subprocess.CalledProcessError) as refused:
            _kubectl(lease, *us, "create", "--raw", f"{pods.path}/p/binding", "-f", str(file))
        assert "this bind was decided in epoch none" in refused.value.stderr
