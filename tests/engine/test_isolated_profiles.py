"""Profiles that name the isolation of shares, whatever else they consist of."""

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config.profiles import KUBE, NAMES, built_in, isolated, overcommitted
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen
from fairlead.engine.instructions import Bind
from fairlead.model.gpus import Gpu, Inventory, Isolation, MigProfile
from fairlead.testing import gpu_share

SEVENTHS = (
    MigProfile("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6), 9_000, 8),
    MigProfile("2g.20gb", 2, (0, 2, 4), 18_000, 8),
)
GPUS = {
    "advisory": Gpu("GPU-advisory", 0, "A100", 80_000),
    "mps": Gpu("GPU-mps", 0, "A100", 80_000, mps=2),
    "mig": Gpu("GPU-mig", 0, "A100", 80_000, mig=SEVENTHS, slots=8),
}


@pytest.mark.parametrize("name", [name for name in NAMES if name != KUBE])
@pytest.mark.parametrize("isolation", Isolation)
def test_every_built_in_profile_isolates_shares(name: str, isolation: Isolation) -> None:
    profile = isolated(overcommitted(built_in(name), 1.5, 0.8), isolation)
    engine = Engine({SCHEDULER: profile})
    for node, gpu in GPUS.items():
        inventory = Inventory((gpu,), dialects=frozenset({"fairlead"}))
        engine.handle(NodeSeen(a_node(node, gpus=0, inventory=inventory)), now=0.0)
    ask = gpu_share(250, mps_injected=True)

    see(engine, *(a_pod(f"p{n}", gpus=0, gpu_request=ask) for n in range(3)))
    binds = [made for made in decide(engine) if isinstance(made, Bind)]

    most = {"advisory": 3, "mps": 2, "mig": 3}[isolation]
    assert [(bind.node, bind.grant and bind.grant.isolation) for bind in binds] == [
        (isolation.value, isolation)
    ] * most
