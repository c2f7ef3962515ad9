"""Why a node's GPUs will not do, in words and numbers."""

import pytest

from builders import a_node, a_pod, a_request
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, Links
from fairlead.model.machines import all_joined, links_of
from fairlead.model.nodes import Node
from fairlead.plugins.gpu_fit import NO_LINKS, NO_MODEL, TOO_FEW, GpuFit

MESH = links_of("Tesla-V100-SXM2-32GB", 8)
PCIE = links_of("L40S", 8)


def a_cluster(links: Links, *, named: bool = True, taken: str = "", model: str = "V") -> Cluster:
    cluster = Cluster()
    gpus = (Gpu(f"GPU-{n}" if named else "", n, model, 32768) for n in range(8))
    listed = Inventory(tuple(gpus), links, named=named)
    cluster.put_node(a_node("n1", inventory=listed))
    for gpu in taken:
        grant = Grant((GpuUse(f"GPU-{gpu}"),))
        cluster.confirm(a_pod(f"p{gpu}", uid=gpu, node="n1", grant=grant))
    return cluster


def nvlink(gpus: int, *models: str) -> GpuRequest:
    return GpuRequest(gpus, models=frozenset(models), linked=True, together=gpus)


@pytest.mark.parametrize(
    ("cluster", "ask", "text", "resolvable", "detail"),
    [
        pytest.param(
            a_cluster(MESH, taken="1234"), nvlink(4), NO_LINKS, True,
            "requested 4 GPUs connected by NVLink, of 4 free GPUs at most 3 are",
            id="the GPUs that are free do not make a ring",
        ),
        pytest.param(
            a_cluster(MESH, taken="123567"), nvlink(2, "V"), TOO_FEW, True, "",
            id="it fits",
        ),
        pytest.param(
            a_cluster(MESH, taken="1234567"), nvlink(2), TOO_FEW, True,
            "requested 2 GPUs, 1 of 8 free", id="too few are free",
        ),
        pytest.param(
            a_cluster(PCIE), nvlink(2), NO_LINKS, False,
            "requested 2 GPUs connected by NVLink, no two of 8 free are", id="there is no NVLink",
        ),
        pytest.param(
            a_cluster(MESH, named=False), nvlink(4), NO_LINKS, False,
            "requested 4 GPUs connected by NVLink; those of the node are not known to be",
            id="somebody else chooses the GPUs",
        ),
        pytest.param(
            a_cluster(all_joined(8), named=False, model="NVIDIA-A100-SXM4-80GB"),
            nvlink(4, "H100", "H200"), NO_MODEL, False,
            "requested H100 or H200, it has NVIDIA-A100-SXM4-80GB", id="another model",
        ),
    ],
)  # fmt: skip
def test_reasons(
    cluster: Cluster, ask: GpuRequest, text: str, resolvable: bool, detail: str
) -> None:
    request = a_request(gpus=0)
    request = type(request)(resources=request.resources, gpu_request=ask)
    nodes = Nodes(cluster.columns)
    rule = GpuFit()
    given = {r.text: bool(r.resolvable[0]) for r in rule.reasons(request, nodes) if r.where[0]}
    if not detail:
        assert rule.allows(request, nodes)[0]
        assert not given
        return
    assert not rule.allows(request, nodes)[0]
    assert given == {text: resolvable}
    assert rule.detail(request, nodes) == detail


def test_a_model_where_no_label_says_what_there_is() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1"))
    request = a_request()
    request = type(request)(
        resources=request.resources, gpu_request=GpuRequest(1, models=frozenset({"H100"}))
    )
    told = GpuFit().detail(request, Nodes(cluster.columns))
    assert told == "requested H100, its labels do not say what it has"


@pytest.mark.parametrize(
    ("node", "reason", "detail"),
    [
        pytest.param(
            a_node("n1", gpus=0), "node(s) had no GPU", "the node has no GPU", id="without GPUs"
        ),
        pytest.param(
            a_node("n1", gpus=8),
            "node(s) cannot serve this kind of GPU request "
            "(their GPUs are not listed in fairlead.dev/inventory)",
            "needs the annotation fairlead.dev/inventory, which the Fairlead agent writes; "
            "or, beside NVIDIA's device plugin, reservations (--reservation-image)",
            id="with NVIDIA's device plugin",
        ),
    ],
)
def test_a_share_where_none_is_served(node: Node, reason: str, detail: str) -> None:
    cluster = Cluster()
    cluster.put_node(node)
    nodes = Nodes(cluster.columns, slice(0, 1))
    request = a_request(gpu_request=GpuRequest(1, False, 500, dialect="fairlead"))
    reasons = [r.text for r in GpuFit().reasons(request, nodes) if r.where.any()]
    assert reasons == [reason]
    assert GpuFit().detail(request, nodes) == detail
