"""Whatever pods and nodes claim about GPUs: a clear reason, no GPU sold twice, no one held up.

Through the real API server, which lets all of this pass.
"""

import json
from collections import Counter
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, Running, eventually
from preloaded import run

SHARE, MEMORY = "fairlead.dev/gpu-share", "fairlead.dev/gpu-memory"
INVENTORY, ASSIGNMENT = "fairlead.dev/inventory", "fairlead.dev/assignment"
MIB = 16_000


def gpus(*uuids: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"uuid": uuid, "index": n, "model": "H100", "memoryMib": MIB, **more}
        for n, uuid in enumerate(uuids)
    ]


def listed(found: Any) -> str:
    return json.dumps({"version": 2, "gpus": found})


ABSURD = {
    "huge": listed(gpus("GPU-a", memoryMib=10**18)),
    "negative": listed(gpus("GPU-a", memoryMib=-1)),
    "nan": listed([]).replace("[]", '[{"uuid": "GPU-a", "index": 0, "memoryMib": NaN}]'),
    "twice": listed(gpus("GPU-a", "GPU-a")),
    "many": listed(gpus(*(f"GPU-{n}" for n in range(65)))),
    "deep": "[" * 100_000,
    "escapes": listed(gpus("\u001b[31mGPU-\u202e\n")),
    "path": listed(gpus("../../dev/nvidia0")),
}

SENTENCES = {
    "share-0": ({SHARE: "0"}, "write a share of one GPU such as 0.5"),
    "share-minus": ({SHARE: "-1"}, "write a share of one GPU such as 0.5"),
    "share-more": ({SHARE: "1.5"}, "write a share of one GPU such as 0.5"),
    "share-nan": ({SHARE: "nan"}, "write a share of one GPU such as 0.5"),
    "share-empty": ({SHARE: ""}, "write a share of one GPU such as 0.5"),
    "memory-0": ({MEMORY: "0"}, "request more than 0"),
    "memory-minus": ({MEMORY: "-4Gi"}, "request more than 0"),
    "memory-words": ({MEMORY: "much"}, MEMORY),
    "count-many": ({SHARE: "0.5", "fairlead.dev/gpu-count": "10000"}, "from 1 to 64"),
    "beyond": ({MEMORY: "17000Mi"}, "At most 16000 MiB are free on one GPU, requested 17000."),
    "beyond-all": ({MEMORY: "1000Pi"}, "which is more than any GPU has"),
    "beyond-these": ({MEMORY: "15Ti"}, "no GPU with enough free memory"),
    "memory-unit": ({MEMORY: "16000"}, "write the unit, such as 16Gi or 16000Mi"),
    "models": (
        {SHARE: "0.5", "fairlead.dev/gpu-model": "|".join(f"M{n}" for n in range(30_000))},
        "has 30000 alternatives; write at most 64",
    ),
    "control": ({SHARE: "\u001b[31m0.5\u202e"}, "write a share of one GPU such as 0.5"),
}

FORGED = {
    "unknown": [{"u": "GPU-of-nobody"}],
    "elsewhere": [{"u": "GPU-unknown-0"}],
    "twice": [{"u": "GPU-twice-0"}, {"u": "GPU-twice-0"}],
    "less": [{"u": "GPU-less-0", "m": 1, "w": False}],
    "slice": [{"u": "GPU-slice-0", "p": "1g.5gb", "n": 1, "w": False, "m": 0}],
    "none": [{"u": "GPU-none-0", "m": 0, "w": False, "mib": 0}],
    "negative": [{"u": "GPU-negative-0", "m": -1000}],
    "index": [{"u": "17"}],
    "all": [{"u": "all"}],
    "void": [{"u": "void"}],
    "mig": [{"u": "MIG-1a2b", "p": "1g.5gb", "n": 1}],
    "overlong": [{"u": "x" * 3000}],
    "crowd": [{"u": f"GPU-{n}"} for n in range(1000)],
}


def ask(pods: Pods, name: str, annotations: dict[str, str], **more: Any) -> None:
    pods.create(name, metadata={"annotations": annotations}, **more)


def sold(pods: Pods) -> Counter[str]:
    """Thousandths of each GPU that our own pods were given, as the API server tells."""
    _, found = pods.plane.api("GET", pods.path)
    total: Counter[str] = Counter()
    for pod in found["items"]:
        if pod["spec"].get("nodeName") and pod["spec"]["schedulerName"] == "gpu-scheduler":
            told = json.loads(pod["metadata"]["annotations"][ASSIGNMENT])
            for use in told["devices"]:
                total[use.get("u", "")] += use.get("m", 1000)
    return total


@pytest.mark.real  # it lets all of this pass
def test_pods_that_ask_for_nonsense_are_told_so_and_hold_up_nobody(
    create_nodes, pods, running: Running
) -> None:
    create_nodes(["asked"], annotations={INVENTORY: listed(gpus("GPU-0"))})
    for name, (annotations, _) in SENTENCES.items():
        ask(pods, name, annotations)
    ask(pods, "fine", {SHARE: "0.5"})
    assert pods.wait_bound("fine") == {"fine": "asked"}
    for name, (_, sentence) in SENTENCES.items():
        message = pods.wait_refused(name)["message"]
        assert sentence in message, f"{name}: {message}"
        assert message.isprintable()


def test_misspelt_annotations_are_reported_and_the_pod_goes_on(
    create_nodes, pods, running: Running
) -> None:
    create_nodes(["any"])
    ask(pods, "odd", {"fairlead.dev/GPU-share": "0.5", "gpu-schedulingmap": "0=any:0"})
    assert pods.wait_bound("odd") == {"odd": "any"}
    note = eventually(lambda: pods.events("odd", "UnknownAnnotation"))[0]["note"]
    assert "fairlead.dev/GPU-share is unknown and has no effect; did you mean" in note
    assert "did you mean gpu-scheduling-map?" in note
    assert running.metric("fairlead_pod_warnings_total", reason="UnknownAnnotation") == 1


def test_nodes_that_list_absurd_gpus_are_counted_and_hold_up_nobody(
    create_nodes, pods, running: Running
) -> None:
    for name, inventory in ABSURD.items():
        create_nodes([f"absurd-{name}"], annotations={INVENTORY: inventory})
    create_nodes(["sane"], annotations={INVENTORY: listed(gpus("GPU-0"))})
    create_nodes(["counted"], annotations={INVENTORY: "["}, allocatable={"nvidia.com/gpu": "2"})
    ask(pods, "part", {SHARE: "0.5"})
    assert pods.wait_bound("part") == {"part": "sane"}
    pods.create("whole", 2)
    assert pods.wait_bound("whole") == {"whole": "counted"}
    told = {
        r["node"] for r in running.records if r["event"] == "GPU list of the node cannot be read"
    }
    assert told == {*(f"absurd-{name}" for name in ABSURD), "counted"}
    assert running.get("/readyz")[0] == 200


def test_two_nodes_that_list_the_same_gpu_have_one_each(
    create_nodes, pods, running: Running
) -> None:
    create_nodes(["twin-a", "twin-b"], annotations={INVENTORY: listed(gpus("GPU-same"))})
    for number in range(3):
        ask(pods, f"p{number}", {SHARE: "1"})
    eventually(lambda: sum(map(bool, pods.nodes().values())) == 2)
    left = next(name for name, node in pods.nodes().items() if not node)
    assert (
        "The largest free share of a GPU is 0, requested 1." in pods.wait_refused(left)["message"]
    )
    assert sorted(filter(None, pods.nodes().values())) == ["twin-a", "twin-b"]


def test_explain_tells_gpu_by_gpu(
    control_plane: ControlPlane, create_nodes, pods, running: Running
) -> None:
    create_nodes(["told"], annotations={INVENTORY: listed(gpus("GPU-0", "GPU-1"))})
    for name, share in (("most", "0.7"), ("much", "0.6")):
        ask(pods, name, {SHARE: share})
        pods.wait_bound(name)
    ask(pods, "waits", {SHARE: "0.5"})
    nearest = "The largest free share of a GPU is 0.4, requested 0.5."
    assert nearest in pods.wait_refused("waits")["message"]
    assert nearest in eventually(lambda: pods.events("waits", "FailedScheduling"))[0]["note"]
    access = control_plane.kubeconfig_for()
    command = [str(FAIRLEAD), "explain", f"{pods.namespace}/waits", "--kubeconfig", str(access)]
    text = run(command, check=True).stdout
    assert "requested 0.5 of a GPU, the largest free share is 0.4\n" in text
    assert "  GPU-0: 0.3 of it free\n" in text
    assert "  GPU-1: 0.4 of it free\n" in text
    data = run([*command, "-o", "json"], check=True).stdout
    (node,) = json.loads(data)["nodes"]
    assert [(gpu["uuid"], gpu["free_share"]) for gpu in node["gpus"]] == [
        ("GPU-0", 0.3), ("GPU-1", 0.4),
    ]  # fmt: skip


def test_forged_assignments_cost_their_node_what_the_pod_asks_for(
    create_nodes, pods, running: Running
) -> None:
    """Pods with one GPU each, put there by somebody else, that say what they like about it."""
    for case, devices in FORGED.items():
        inventory = listed(gpus(f"GPU-{case}-0", f"GPU-{case}-1"))
        amounts = {"nvidia.com/gpu": "2"}
        create_nodes([case], annotations={INVENTORY: inventory}, allocatable=amounts)
        forged = {ASSIGNMENT: json.dumps({"devices": devices})}
        ask(pods, f"liar-{case}", forged, gpus=1, scheduler="other", nodeName=case)
    eventually(lambda: running.metric("scheduler_cache_size", type="pods") >= len(FORGED))
    for number in range(3 * len(FORGED)):
        ask(pods, f"p{number}", {SHARE: "0.5"})
    eventually(lambda: sum(map(bool, pods.nodes().values())) == 3 * len(FORGED))
    left = [name for name, node in pods.nodes().items() if not node]
    for name in left:
        pods.wait_refused(name)
    assert set(sold(pods).values()) <= {500, 1000}
    ours = Counter(node for name, node in pods.nodes().items() if node and name not in left)
    assert ours == dict.fromkeys(FORGED, 3), "a liar and two halves of the other GPU each"
