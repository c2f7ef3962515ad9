"""Many pods that leave together leave what they leave one by one, and come back as they were."""

from collections.abc import Callable

import pytest

from builders import a_node, a_pod, pod_term
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.counted_books import CountedBooks
from fairlead.cluster.many_pods import plain_pods
from fairlead.model.counted import ANY_MODEL, CountedAsk, CountedResource
from fairlead.model.gpus import Gpu, GpuUse, Grant, Inventory, Isolation, MigProfile
from fairlead.model.map_slots import Member
from fairlead.model.pods import HostPort, Pod
from fairlead.model.service_classes import GpuTerms
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from snapshots import state

_NODES = 6
_CUT = (MigProfile("1g.10gb", 1, (0, 1, 2, 3)),)


def _node(number: int, *, cut: bool = False, listed: bool = True) -> tuple[Gpu, ...]:
    mig, name = _CUT if cut else (), f"n{number}"
    gpus = (Gpu(f"GPU-{name}-{at}", at, "A100", 40_000, mig=mig, sharers=2) for at in range(4))
    return tuple(gpus) if listed else ()


def _grants(number: int) -> list[Grant | None]:
    """What pods of a node have: on even ones whole GPUs and shares, on odd ones slices."""
    names = [f"GPU-n{number}-{at}" for at in range(4)]
    whole = Grant((GpuUse(names[0]), GpuUse(names[1])))
    share = Grant((GpuUse(names[2], False, 300, 9000),), "fairlead")
    larger = Grant((GpuUse(names[2], False, 500, 32_000),), "fairlead", isolation=Isolation.MPS)
    cut = Grant((GpuUse(names[3], False, 0, 0, "1g.10gb", 1, 1),))
    lost = Grant((GpuUse("GPU-lost"), GpuUse("GPU-lost-too", False, 200)))
    unknown = Grant((GpuUse(""),), pending=number == 2)
    mapped = Grant((GpuUse(names[3]),), member=Member("default/web", number))
    twice = Grant((GpuUse(names[0]),))
    return [whole, share, larger, cut, lost, unknown, mapped, twice, None]


def _pods(number: int) -> list[Pod]:
    found = []
    for at, grant in enumerate(_grants(number)):
        more = {0: {"priority": 2}, 3: {"anti_affinity": (pod_term("zone", app="x"),)}}.get(at, {})
        ports = (HostPort(80),) if at == 5 and number == 3 else ()
        volumes = PodVolumes((VolumeClaimUse("ns0/data"),)) if at == 2 else None
        asked = CountedAsk((("licences", 1),)) if at == 8 else None
        name = f"p{number}-{at}"
        found.append(
            a_pod(name, uid=name, node=f"n{number}", grant=grant, cpu=100 * at, gpus=0,
                  namespace=f"ns{at % 2}", labels={"app": "xy"[at % 2]}, host_ports=ports,
                  volumes=volumes, counted=asked, **more)
        )  # fmt: skip
    return found


def _cluster(prepare: Callable[[Cluster], None]) -> Cluster:
    cluster = Cluster()
    prepare(cluster)
    for number in range(_NODES):
        gpus = _node(number, cut=number % 2 > 0, listed=number < _NODES - 1)
        inventory = Inventory(gpus, dialects=frozenset({"fairlead"})) if gpus else None
        cluster.put_node(a_node(f"n{number}", gpus=4, inventory=inventory))
    for number in range(_NODES + 1):  # there is no last node
        for pod in _pods(number):
            cluster.confirm(pod)
    cluster.evictable(a_pod(uid="asks", priority=3))
    return cluster


def _nothing(cluster: Cluster) -> None:
    pass


def _app(pod: Pod) -> str:
    return pod.labels["app"]


def _tenants(cluster: Cluster) -> None:
    cluster.count_tenants(_app)


def _services(cluster: Cluster) -> None:
    terms = {"x": GpuTerms(quiet=0.5), "y": GpuTerms(neighbours=0.5, packed=True)}
    cluster.put_gpu_terms(terms, _app)


def _released(_name: str) -> None:
    pass


def _counted(cluster: Cluster) -> None:
    cluster.counted = CountedBooks(cluster, _released)
    cluster.counted.put_resource(CountedResource("licences", 100))


def _counted_by_gpu(cluster: Cluster) -> None:
    _counted(cluster)
    assert cluster.counted is not None
    cluster.counted.put_resource(CountedResource("watts", 100_000, per_gpu=((ANY_MODEL, 700),)))


def _uids(cluster: Cluster) -> list[str]:
    return [uid for uid in sorted(cluster.holdings) if not uid.endswith("-1")]


_KINDS = pytest.mark.parametrize("prepare", [_nothing, _tenants, _services, _counted])


@_KINDS
def test_many_pods_leave_what_they_leave_one_by_one(prepare: Callable[[Cluster], None]) -> None:
    together, alone = _cluster(prepare), _cluster(prepare)
    assert len(plain_pods(together, _uids(together))) > len(_uids(together)) // 2
    with together.trial() as trial:
        trial.evict_all(_uids(together))
        trial.commit()
    for uid in _uids(alone):
        alone.remove(uid)
    assert state(together) == state(alone)
    assert together.improved.drain() == alone.improved.drain()


def test_pods_with_ports_and_volumes_leave_together() -> None:
    """So that plans do not depend on whether others have such pods."""
    cluster = _cluster(_counted)
    plain = plain_pods(cluster, cluster.holdings)
    assert {"p3-5", "p3-2"} <= {*plain}  # a port, a volume
    assert not {"p3-8", "p3-6"} & {*plain}  # a counted resource, a place in a map
    charged = plain_pods(_cluster(_counted_by_gpu), cluster.holdings)
    assert not charged


def test_pods_that_are_charged_by_gpu_leave_what_they_leave_one_by_one() -> None:
    together, alone = _cluster(_counted_by_gpu), _cluster(_counted_by_gpu)
    with together.trial() as trial:
        trial.evict_all(_uids(together))
        trial.commit()
    for uid in _uids(alone):
        alone.remove(uid)
    assert state(together) == state(alone)


@_KINDS
def test_many_pods_come_back_as_they_were(prepare: Callable[[Cluster], None]) -> None:
    cluster = _cluster(prepare)
    before = state(cluster)
    with cluster.trial() as trial:
        trial.evict_all(_uids(cluster))
        assert state(cluster) != before
        trial.rollback()
        assert state(cluster) == before


def test_each_row_is_in_the_log_once_however_many_pods_leave_it() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n0", gpus=4))
    for number in range(20):
        cluster.confirm(a_pod(f"p{number}", uid=f"p{number}", node="n0"))
    mark = cluster.changes.mark
    with cluster.trial() as trial:
        trial.evict_all(list(cluster.holdings))
        assert cluster.changes.mark == mark + 1
        assert not cluster.holdings
        trial.rollback()
    assert cluster.changes.mark == mark + 2
    assert len(cluster.holdings) == 20
