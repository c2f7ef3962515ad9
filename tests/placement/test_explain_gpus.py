"""A pod that waits for GPUs is told what was missing: in the event, by node, and GPU by GPU."""

import io
from dataclasses import asdict
from typing import Any

import pytest

from builders import SCHEDULER, a_node, a_pod, a_taint
from fairlead.apps.config.profiles import built_in
from fairlead.apps.explain.explain import show
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, MigProfile
from fairlead.model.machines import all_joined
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.placement.explain import Explanation, explain
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.plugins.low_utilisation import LowUtilisation

MIG = (MigProfile("1g.10gb", 1, tuple(range(7))), MigProfile("3g.40gb", 4, (0, 4)))
WHOLE = GpuUse("")


def part(milli: int, mib: int = 0) -> GpuUse:
    return GpuUse("", False, milli, mib)


def cut(start: int, slices: int) -> GpuUse:
    return GpuUse("", False, 0, 0, "1g.10gb", start, slices)


def a_gpu(number: int, **more: Any) -> Gpu:
    return Gpu(f"GPU-{number}", number, **{"model": "H100", "memory_mib": 8000, **more})


def asked(ask: GpuRequest, *gpus: Gpu, used: dict[int, list[GpuUse]], **more: Any) -> Explanation:
    """One node with these GPUs, pods on some, and a pod that asks."""
    cluster = Cluster()
    inventory = Inventory(gpus, dialects=frozenset({"fairlead"}), **more)
    cluster.put_node(a_node("n1", gpus=len(gpus), inventory=inventory))
    far = Inventory((Gpu("GPU-far", 0, "H100", 90_000),), dialects=frozenset({"fairlead"}))
    cluster.put_node(a_node("kept", gpus=0, inventory=far, taints=(a_taint(),)))
    for number, uses in used.items():
        for at, use in enumerate(uses):
            held = GpuUse(f"GPU-{number}", use.whole, use.milli, use.memory_mib, use.profile,
                           use.start, use.slices)  # fmt: skip
            pod = a_pod(f"p{number}-{at}", node="n1", grant=Grant((held,), "fairlead"), priority=9)
            cluster.confirm(pod)
    pod = a_pod("asks", gpu_request=ask)
    return explain(Placement(built_in(SCHEDULER), cluster), cluster, pod)


def share(milli: int, mib: int = 0, gpus: int = 1) -> GpuRequest:
    return GpuRequest(gpus, False, milli, mib, dialect="fairlead")


CASES = {
    "whole GPUs": (
        asked(GpuRequest(3), *map(a_gpu, range(4)), used={0: [WHOLE], 1: [part(300), part(200)]}),
        "Of 3 requested GPUs, at most 2 are free on one node.",
        "requested 3 GPUs, 2 of 4 free",
        ["assigned whole", "shared by 2 pods", "", ""],
    ),
    "a share": (
        asked(share(500), *map(a_gpu, range(3)),
              used={0: [part(700)], 1: [WHOLE], 2: [part(900)]}),
        "The largest free share of a GPU is 0.3, requested 0.5.",
        "requested 0.5 of a GPU, the largest free share is 0.3",
        ["0.3 of it free", "assigned whole", "0.1 of it free"],
    ),
    "memory": (
        asked(share(0, 6144), *map(a_gpu, range(2)),
              used={0: [part(0, 3000)], 1: [part(0, 4000)]}),
        "At most 5000 MiB are free on one GPU, requested 6144.",
        "requested 6144 MiB on one GPU, at most 5000 are free",
        ["5000 of 8000 MiB free", "4000 of 8000 MiB free"],
    ),
    "more memory than a GPU has": (
        asked(share(0, 9000), a_gpu(0), used={}),
        "At most 8000 MiB are free on one GPU, requested 9000.",
        "requested 9000 MiB on one GPU, at most 8000 are free",
        ["8000 MiB in total"],
    ),
    "the share on one GPU, the memory on another": (
        asked(share(500, 5000), *map(a_gpu, range(2)),
              used={0: [part(600, 0)], 1: [part(0, 4000)]}),
        "",
        "of 1 GPU with the share, the memory and a free pod slot, 0 found",
        ["0.4 of it free", "4000 of 8000 MiB free"],
    ),
    "a place for another pod": (
        asked(share(100), a_gpu(0, sharers=2), used={0: [part(100), part(100)]}),
        "",
        "of 1 GPU with the share, the memory and a free pod slot, 0 found",
        ["2 pods on it, the maximum"],
    ),
    "a slice": (
        asked(GpuRequest(1, False, 0, profile="3g.40gb"), a_gpu(0, mig=MIG), a_gpu(1),
              a_gpu(2, mig=MIG[:1]), used={0: [cut(1, 1), cut(6, 1)]}),
        "No node can fit a 3g.40gb slice.",
        "requested 1 3g.40gb, 0 fit on 3 GPUs",
        ["no placement for a 3g.40gb; slices 1, 6 are in use", "not divided into MIG slices",
         "cannot be divided into 3g.40gb"],
    ),
    "a slice that somebody else cuts": (
        asked(GpuRequest(1, False, 0, profile="3g.40gb"), a_gpu(0, mig=MIG, slots=8), used={}),
        "No node can fit a 3g.40gb slice.",
        "requested 1 3g.40gb, 0 fit on 1 GPU",
        ["divided by the agent, which serves fairlead.dev/gpu-slice"],
    ),
    "GPUs that are not cut, in order, and of a kind": (
        asked(GpuRequest(2, models=frozenset({"H100"})), a_gpu(0, mig=MIG),
              a_gpu(1, healthy=False), a_gpu(2, model="T4"), a_gpu(3), used={}),
        "Of 2 requested GPUs, at most 1 are free on one node.",
        "requested 2 GPUs, 1 of 3 free",
        ["divided into MIG slices", "unhealthy", "not of the requested kind", ""],
    ),
    "GPUs joined by NVLink": (
        asked(GpuRequest(2, linked=True), *map(a_gpu, range(2)), used={},
              links=((0, 10), (10, 0))),
        "",
        "requested 2 GPUs connected by NVLink, no two of 2 free are",
        ["", ""],
    ),
    "enough of those that NVLink joins": (
        asked(GpuRequest(2, linked=True), *map(a_gpu, range(2)), used={0: [WHOLE]},
              links=all_joined(2)),
        "Of 2 requested GPUs, at most 1 are free on one node.",
        "requested 2 GPUs, 1 of 2 free",
        ["assigned whole", ""],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_was_missing(case: str) -> None:
    found, event, detail, missing = CASES[case]
    answer = next(node for node in found.nodes if node.node == "n1")
    assert answer.rule == "GpuFit"
    assert answer.detail == detail
    assert [gpu.missing for gpu in answer.gpus] == missing
    said = found.verdict.message
    before, after = ". ", " no new claims"
    told = said[said.index(before) + len(before) - 1 : said.index(after)].strip()
    assert told == event, "the tainted node is empty, but it is not one of those that are too full"


def test_a_gpu_as_data() -> None:
    found, *_ = CASES["a share"]
    answer = next(node for node in found.nodes if node.node == "n1")
    assert asdict(answer)["gpus"][0] == {
        "uuid": "GPU-0", "index": 0, "model": "H100", "memory_mib": 8000, "free_share": 0.3,
        "free_mib": 8000, "pods": 1, "missing": "0.3 of it free", "utilisation": None,
        "memory_used_mib": None, "reading_age_s": None,
    }  # fmt: skip


def measured(profile: Profile) -> Explanation:
    cluster = Cluster()
    inventory = Inventory((a_gpu(0), a_gpu(1)), dialects=frozenset({"fairlead"}))
    cluster.put_node(a_node("n1", gpus=2, inventory=inventory))
    gpus = {"GPU-0": GpuReading(0.374, memory_used_mib=5000.0)}
    cluster.put_readings([NodeReadings("n1", 3.0, gpus)], 8.0)
    pod = a_pod("asks", gpu_request=share(500))
    return explain(Placement(profile, cluster), cluster, pod)


def test_where_a_score_goes_by_readings_gpus_that_would_do_tell_theirs() -> None:
    by_load = Profile("x", built_in(SCHEDULER).filters, ((LowUtilisation(), 1.0),))
    found = measured(by_load)
    (node,) = found.nodes
    told = [(c.missing, c.utilisation, c.memory_used_mib, c.reading_age_s) for c in node.gpus]
    assert told == [("", 0.37, 5000.0, 5.0), ("", None, None, None)]
    text = io.StringIO()
    answer = {"pod": "p", "state": "fits", "message": "", "requests": {}, "nodes": [asdict(node)]}
    show(answer, "text", text)
    assert [line.strip() for line in text.getvalue().splitlines()[3:]] == [
        "GPU-0: free, 37% busy, 5000 MiB in use, 5 s ago",
        "GPU-1: free",
    ]


def test_where_none_does_nodes_that_would_do_have_their_score_alone() -> None:
    found = measured(built_in(SCHEDULER))
    assert [node.gpus for node in found.nodes] == [()]
