"""Whatever filter allocates devices, its pods are given GPUs, whatever its class is."""

from dataclasses import dataclass, replace
from typing import ClassVar

from builders import a_node, a_pod
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.pods import PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Refused
from fairlead.plugins.gpu_fit import GpuFit

GPUS = Inventory(tuple(Gpu(f"GPU-{n}", n, "H100") for n in range(4)), dialects=frozenset({"odd"}))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Allocates GPUs in pairs, for requests in one dialect only."""

    name: ClassVar[str] = "Pairs"
    reads: ClassVar[Aspect] = Aspect.DEVICES
    refusal: ClassVar[str] = "node(s) had no pair of GPUs"
    resolvable: ClassVar[bool] = True

    def allocates(self, ask: GpuRequest) -> GpuRequest | None:
        return replace(ask, gpus=2 * ask.gpus) if ask.dialect == "odd" else None

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        ask = self.allocates(request.gpu_request) if request.gpu_request else None
        return nodes.gpus.enough(ask) if ask else nodes.all()


def profile_with(*allocators: Pairs | GpuFit) -> Profile:
    profile = built_in("gpu-scheduler")
    others = tuple(rule for rule in profile.filters if not isinstance(rule, GpuFit))
    return replace(profile, filters=(*others, *allocators))


def placed(profile: Profile, dialect: str, gpus: int = 1) -> Placed | Refused:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=4, inventory=GPUS))
    pod = a_pod(gpu_request=GpuRequest(gpus, dialect=dialect))
    return Placement(profile, cluster).place(pod)


def test_another_allocator_has_its_gpus_chosen_as_it_understands_the_request() -> None:
    verdict = placed(profile_with(Pairs()), "odd")
    assert isinstance(verdict, Placed)
    assert verdict.grant is not None
    assert len(verdict.grant.uses) == 2
    assert isinstance(placed(profile_with(Pairs()), "odd", gpus=3), Refused)


def test_the_first_allocator_that_takes_a_request_has_it() -> None:
    for rules, gpus in (((Pairs(), GpuFit()), 2), ((GpuFit(), Pairs()), 1)):
        verdict = placed(profile_with(*rules), "odd")
        assert isinstance(verdict, Placed)
        assert verdict.grant is not None
        assert len(verdict.grant.uses) == gpus


def test_a_request_that_no_allocator_takes_is_refused_or_counted() -> None:
    profile = profile_with(Pairs())
    assert not profile.grants_gpus
    refused = placed(profile, "fairlead")
    assert isinstance(refused, Refused)
    assert "enable the filter GpuFit" in refused.message
    assert profile_with(Pairs(), GpuFit()).grants_gpus
