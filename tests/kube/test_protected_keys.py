"""The admission policy protects all that device plugins are told, in whatever dialect."""

import re
from pathlib import Path

import pytest

from dialect_objects import (
    A,
    Json,
    a_pod,
    alnair_node,
    gpushare_node,
    hami_node,
    our_node,
    told,
    volcano_node,
)
from fairlead.kube.admission.validation import ANSWERS
from fairlead.kube.dialects import DIALECTS, alnair, kai
from fairlead.kube.gangs.fairlead import FairleadGangs
from fairlead.kube.spelling import misspelt
from fairlead.model.gpus import GpuUse, Grant
from fairlead.model.nodes import Node

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "fairlead"
POLICY = CHART / "templates" / "policy-assignments.yaml"
KAI_KEY = "nvidia.com/container.c0.gpus.devices"


@pytest.mark.parametrize(
    ("asked", "annotations", "node", "uuid"),
    [
        ({}, {"fairlead.dev/gpu-share": "0.5"}, our_node(), A),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}, {}, hami_node(), A),
        ({"volcano.sh/vgpu-number": 1}, {}, volcano_node(), A),
        ({"aliyun.com/gpu-mem": 4}, {}, gpushare_node(), "0"),
        ({"alnair/vgpu-memory": 4}, {}, alnair_node(), A),
        ({}, {"gpu-fraction": "0.5"}, our_node(), A),
    ],
    ids=["fairlead", "hami", "volcano", "gpushare", "alnair", "kai"],
)
def test_what_a_device_plugin_is_told_is_protected(
    asked: Json, annotations: Json, node: Node, uuid: str
) -> None:
    pod = a_pod(asked, annotations=annotations)
    ask = pod.request.gpu_request
    assert ask is not None
    grant = Grant((GpuUse(uuid, False, 500, 4096),), ask.dialect, ask.containers)

    keys = set(told(pod, grant, node))

    assert keys >= {"fairlead.dev/gpus", "fairlead.dev/assignment"}
    assert len(keys) > 2 or ask.dialect == "fairlead"
    assert _unprotected(keys) == set()


def test_what_is_believed_of_others_is_protected() -> None:
    assert _unprotected({*ANSWERS, alnair.TAKEN, kai.RESERVED, kai.GROUP}) == set()


def test_every_word_that_asks_is_fixed_once_the_pod_is_bound() -> None:
    text = POLICY.read_text()
    listed = text.partition("- name: requestKeys")[2].partition("- name: isBound")[0]

    named = set(re.findall(r"'([^']+)'", listed))

    assert named == {word for dialect in DIALECTS for word in dialect.annotation_keys}


def test_the_policy_that_warns_knows_the_same_keys() -> None:
    text = (CHART / "templates" / "policy-spelling.yaml").read_text()
    known = set(re.findall(r"'([^']+)'", text.partition("- name: known")[2].partition("# ")[0]))
    nearly = set(re.findall(r"'([^']+)'", text.partition("- name: nearly")[2].partition("- n")[0]))

    assert {key for key in known if misspelt({key: ""})} == set()
    words = {word for dialect in DIALECTS for word in dialect.annotation_keys}
    without_prefix = {word for word in words if "/" not in word}
    assert known >= {word for word in words if word.startswith("fairlead.dev/")} | without_prefix
    assert known >= set(FairleadGangs.annotation_keys)
    assert nearly == {w.replace("-", "") for w in {*without_prefix, "gpu-share", "gpu-slice"}}


def _unprotected(keys: set[str]) -> set[str]:
    """Keys that the policy does not name; those of containers it knows by both their ends."""
    text = POLICY.read_text()
    by_container = {"nvidia.com/container.", ".gpus.devices"}
    assert all(f"'{end}'" in text for end in by_container)
    named = {key for key in keys if f"'{key}'" in text or key == KAI_KEY}
    return keys - named
