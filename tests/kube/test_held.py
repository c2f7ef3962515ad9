"""What was assigned is what is held, whatever the annotations of a bound pod ask for now."""

import json

import pytest

from dialect_objects import (
    A,
    B,
    Json,
    a_pod,
    alnair_node,
    gpushare_node,
    hami_node,
    our_list,
    our_node,
    told,
    volcano_node,
)
from dialect_objects import a_node as decoded_node
from fairlead.cluster.devices import Devices
from fairlead.kube.dialects import DIALECTS, request_annotations
from fairlead.model.gpus import GpuUse, Grant
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.placement.gpus import GpuPolicy, choose

SHARE, MEMORY = "fairlead.dev/gpu-share", "fairlead.dev/gpu-memory"
SLICE, COUNT = "fairlead.dev/gpu-slice", "fairlead.dev/gpu-count"
MODEL, LINKS = "fairlead.dev/gpu-model", "fairlead.dev/gpu-links"
ISOLATION = "fairlead.dev/gpu-isolation"
CONTAINER = "nvidia.com/container.c0."
MAP = "gpu-scheduling-map"
CUTS = [{"name": "1g.18gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]}]
GPU = "nvidia.com/gpu"


def cut_node() -> Node:
    listed = our_list({"slices": CUTS, "cut": "free", "slots": 8})
    return decoded_node({"fairlead.dev/inventory": listed})


#: Every word that asks, on a pod that is served with it: resources, annotations, node.
ASKING: dict[str, tuple[Json, Json, Node]] = {
    SHARE: ({}, {SHARE: "0.5"}, our_node()),
    MEMORY: ({}, {MEMORY: "4Gi"}, our_node()),
    COUNT: ({}, {SHARE: "0.25", COUNT: "2"}, our_node()),
    SLICE: ({}, {SLICE: "1g.18gb"}, cut_node()),
    MODEL: ({GPU: 1}, {MODEL: "H100"}, our_node()),
    LINKS: ({GPU: 1}, {LINKS: "nvlink"}, our_node()),
    ISOLATION: ({}, {SHARE: "0.125", ISOLATION: "mig"}, cut_node()),
    "gpu-fraction": ({}, {"gpu-fraction": "0.5"}, our_node()),
    "gpu-memory": ({}, {"gpu-memory": "4000"}, our_node()),
    "gpu-fraction-num-devices": (
        {}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, our_node(),
    ),
    "gpu-fraction-container-name": (
        {}, {"gpu-fraction": "0.5", "gpu-fraction-container-name": "c0"}, our_node(),
    ),
    CONTAINER + "gpu-memory.request": (
        {}, {CONTAINER + "gpu-memory.request": "4Gi"}, our_node(),
    ),
    CONTAINER + "gpu-memory.limit": ({}, {CONTAINER + "gpu-memory.limit": "4Gi"}, our_node()),
    CONTAINER + "gpu-compute.mode": (
        {},
        {CONTAINER + "gpu-memory.limit": "4Gi", CONTAINER + "gpu-compute.mode": "time-slicing"},
        our_node(),
    ),
    MAP: ({}, {MAP: "0=n1:0\n1=n1:1"}, our_node()),
    "nvidia.com/use-gputype": (
        {GPU: 1, "nvidia.com/gpumem": 4000}, {"nvidia.com/use-gputype": "V100"}, hami_node(),
    ),
    "nvidia.com/nouse-gputype": (
        {GPU: 1, "nvidia.com/gpumem": 4000}, {"nvidia.com/nouse-gputype": "A100"}, hami_node(),
    ),
    "nvidia.com/use-gpuuuid": (
        {GPU: 1, "nvidia.com/gpumem": 4000}, {"nvidia.com/use-gpuuuid": A}, hami_node(),
    ),
    "nvidia.com/nouse-gpuuuid": (
        {GPU: 1, "nvidia.com/gpumem": 4000}, {"nvidia.com/nouse-gpuuuid": B}, hami_node(),
    ),
    "volcano.sh/vgpu-use-gpuuuid": (
        {"volcano.sh/vgpu-number": 1}, {"volcano.sh/vgpu-use-gpuuuid": A}, volcano_node(),
    ),
    "volcano.sh/vgpu-nouse-gpuuuid": (
        {"volcano.sh/vgpu-number": 1}, {"volcano.sh/vgpu-nouse-gpuuuid": B}, volcano_node(),
    ),
    "no word of gpushare": ({"aliyun.com/gpu-mem": 4}, {}, gpushare_node()),
    "no word of Alnair": ({"alnair/vgpu-memory": 4}, {}, alnair_node()),
    "no word at all": ({GPU: 1}, {}, our_node()),
}  # fmt: skip

# fmt: off
MORE = {SHARE: "1", MEMORY: "16Gi", COUNT: "64", SLICE: "7g.141gb", "gpu-fraction": "1",
        "gpu-memory": "16000", "gpu-fraction-num-devices": "64", MAP: "0=n1:0,1",
        CONTAINER + "gpu-memory.request": "16Gi", CONTAINER + "gpu-memory.limit": "16Gi"}
LESS = {SHARE: "0.001", MEMORY: "1Mi", COUNT: "1", SLICE: "1g.5gb", "gpu-fraction": "0.001",
        "gpu-memory": "1", "gpu-fraction-num-devices": "1", MAP: "0=n1:",
        CONTAINER + "gpu-memory.request": "1Mi", CONTAINER + "gpu-memory.limit": "1Mi"}
# fmt: on

EDITS = {
    "removed": lambda said, word: {key: text for key, text in said.items() if key != word},
    "all removed": lambda _said, _word: {},
    "spoiled": lambda said, word: {**said, word: "bogus"},
    "emptied": lambda said, word: {**said, word: ""},
    "doubled by fairlead": lambda said, _: {**said, SHARE: "0.1", "gpu-fraction": "0.1"},
    "doubled by KAI": lambda said, _: {**said, "gpu-memory": "100", MEMORY: "1Gi"},
    "doubled by HAMi": lambda said, _: {**said, "nvidia.com/use-gputype": "T4"},
    "doubled by a map": lambda said, _: {**said, MAP: "0=n1:0,1"},
    "raised": lambda said, word: {**said, word: MORE.get(word, "A100|T4")},
    "raised by a count": lambda said, _: {**said, COUNT: "64", "gpu-fraction-num-devices": "64"},
    "lowered": lambda said, word: {**said, word: LESS.get(word, "x")},
}


def test_every_word_that_asks_is_tried() -> None:
    known = {word for dialect in DIALECTS for word in dialect.annotation_keys}
    by_container = {word for word in ASKING if word.startswith(CONTAINER)}

    assert known <= set(ASKING)
    assert dict(request_annotations(dict.fromkeys(ASKING, ""))).keys() == known | by_container


@pytest.mark.parametrize("word", ASKING)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_what_a_bound_pod_asks_for_changes_nothing(word: str, edit: str) -> None:
    resources, said, node = ASKING[word]
    grant, answer = _bound(resources, said, node)
    before = _read(resources, {**said, **answer})
    after = _read(resources, {**EDITS[edit](said, word), **answer})

    assert before.grant == grant
    assert not before.edited
    assert after.grant == grant
    assert not after.problem


@pytest.mark.parametrize("word", [*MORE])
@pytest.mark.parametrize("edit", ["removed", "spoiled", "raised", "lowered"])
def test_an_edit_that_would_have_changed_what_it_gets_is_noticed(word: str, edit: str) -> None:
    resources, said, node = ASKING[word]
    _, answer = _bound(resources, said, node)

    assert _read(resources, {**EDITS[edit](said, word), **answer}).edited


def test_a_second_dialect_is_noticed_on_a_pod_that_asks_by_its_spec() -> None:
    for word in ("nvidia.com/use-gpuuuid", "volcano.sh/vgpu-use-gpuuuid", "no word of gpushare"):
        resources, said, node = ASKING[word]
        _, answer = _bound(resources, said, node)

        assert "not a valid request" in _read(resources, {**said, SHARE: "0.5", **answer}).edited


def test_a_forged_assignment_frees_nothing_however_many_entries_it_has() -> None:
    """Without the policy: more devices than the spec requests, and nothing of each."""
    nothing = [{"u": uuid, "m": 0, "mib": 0, "w": False} for uuid in (A, B)]
    forged = {"fairlead.dev/assignment": json.dumps({"devices": nothing, "dialect": "nvidia"})}

    held = _read({GPU: 1}, forged).grant

    assert held is not None
    assert all(use.whole for use in held.uses)


def test_an_assignment_by_annotation_holds_when_the_request_is_gone() -> None:
    """It cannot be told from a forged one, so the safe side is to hold it."""
    devices = [{"u": A, "m": 500, "mib": 8000, "w": False}]
    said = {"fairlead.dev/assignment": json.dumps({"devices": devices, "dialect": "fairlead"})}

    assert _read({}, said).grant == Grant((GpuUse(A, False, 500, 8000),), "fairlead")


def test_devices_that_kai_wrote_are_held_when_the_request_is_gone() -> None:
    devices = {CONTAINER + "gpus.devices": f"{A},1"}

    assert _read({}, devices).grant == Grant((GpuUse(A), GpuUse("1")), "kai")
    assert a_pod({}, annotations=devices, labels={"runai-gpu-group": "g"}, node="n1").grant is None
    assert _read({}, {CONTAINER + "gpus.devices": "../x"}).grant is None


def test_a_pod_of_a_map_stays_the_one_it_was_when_the_map_changes() -> None:
    resources, said, node = ASKING[MAP]
    grant, answer = _bound(resources, said, node)

    assert grant.member is not None
    for text in ("0=n2:1", "5=n1:0", "nonsense", ""):
        after = _read(resources, {MAP: text, **answer}).grant
        assert after is not None
        assert after.member == grant.member


def _bound(resources: Json, said: Json, node: Node) -> tuple[Grant, dict[str, str]]:
    pod = a_pod(resources, annotations=said, labels={"apps.kubernetes.io/pod-index": "0"})
    ask = pod.request.gpu_request
    assert ask is not None, pod.problem
    devices = Devices(1)
    devices.put(0, node.inventory)
    grant = choose(ask, devices, 0, GpuPolicy.PACK)
    assert grant is not None
    return grant, told(pod, grant, node)


def _read(resources: Json, annotations: Json) -> Pod:
    labels = {"apps.kubernetes.io/pod-index": "0"}
    return a_pod(resources, annotations=annotations, labels=labels, node="n1")
