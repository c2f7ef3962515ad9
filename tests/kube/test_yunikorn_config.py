"""The ConfigMap of YuniKorn: what is read of it, and what is refused, with which sentence."""

import json

import pytest

from fairlead.kube.queues.registry import ALL_QUEUES
from fairlead.kube.queues.yunikorn_config import YunikornConfig, decode_yunikorn
from fairlead.model.queues import GPUS, QueueSpec, UnitOrder, Victims

#: As in YuniKorn's documentation, with GPUs.
DOCUMENTED = """
partitions:
  - name: default
    placementrules:
      - {name: tag, value: namespace, create: true}
    queues:
      - name: root
        submitacl: '*'
        properties: {application.sort.policy: fair}
        queues:
          - name: advertisement
            resources:
              guaranteed: {memory: 500G, vcore: 10}
              max: {memory: 800G, vcore: 50.5, nvidia.com/gpu: 8}
            maxapplications: 10
          - name: Search
            parent: true
            properties: {application.sort.policy: fifo, priority.offset: 100}
            queues:
              - name: batch
                properties: {preemption.policy: disabled, application.sort.priority: disabled}
                queues: [{name: night}]
  - name: gpu
    queues: [{name: root}]
"""


def config(text: str | None) -> YunikornConfig:
    meta = {"name": "yunikorn-configs", "namespace": "yunikorn", "uid": "u", "resourceVersion": "7"}
    data = {} if text is None else {"queues.yaml": text}
    body = {"metadata": meta, "data": data}
    return decode_yunikorn("yunikorn", json.dumps(body).encode())


def one_queue(more: str) -> str:
    return f"partitions: [{{name: default, queues: [{{name: root, {more}}}]}}]"


def test_the_queues_of_the_default_partition() -> None:
    found = config(DOCUMENTED)
    assert (found.key, found.uid, found.version) == ("yunikorn/yunikorn-configs", "u", "7")
    assert found.problem == ""
    by_name = {spec.name: spec for spec in found.queues}
    assert list(by_name) == [
        "root", "root.advertisement", "root.search", "root.search.batch", "root.search.batch.night"
    ]  # fmt: skip
    assert by_name["root.advertisement"] == QueueSpec(
        "yunikorn/root.advertisement",
        "yunikorn/root",
        guaranteed=(("cpu", 10_000), ("memory", 500 * 10**9)),
        limit=(("cpu", 50_500), ("memory", 800 * 10**9), (GPUS, 8000)),
        order=UnitOrder.FAIR,
        leaves_only=True,
    )
    assert (by_name["root.search"].order, by_name["root.search"].priority) == (
        UnitOrder.PRIORITY, 100
    )  # fmt: skip
    batch, night = by_name["root.search.batch"], by_name["root.search.batch.night"]
    for spec in (batch, night):  # these properties hold for the queues beneath, an offset does not
        assert (spec.order, spec.priority) == (UnitOrder.FIFO, 0)
        assert (spec.reclaims, spec.reclaimable) == (Victims.NEVER, False)


def test_names_are_the_same_in_any_case() -> None:
    assert ALL_QUEUES.named({"yunikorn.apache.org/queue": "root.Search"}, None) == (
        "yunikorn/root.search", ""
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "it has no queues.yaml"),
        ("partitions: [", "queues.yaml is no YAML"),
        ("- a", "queues.yaml: Expected `object`, got `array`"),
        ("partitions: 3", "queues.yaml: Expected `array`, got `int`"),
        ("partitions: [{name: gpu}]", "queues.yaml has no partition default"),
        (one_queue("queues: [{name: a}, {name: A}]"), "it lists the queue root.a twice"),
        (one_queue("queues: [{name: a/b}]"), "the name of a queue has no /"),
        ("a: &a [1]\nb: *a", "queues.yaml has YAML aliases, which are not read"),
        ("- " * 101, "queues.yaml has more than 100 levels"),
        ("[" * 30_000, "queues.yaml has more than 100 levels"),
        ("a" * 65_537, "queues.yaml is longer than 64 KiB"),
        ("a: 2026-99-99", "queues.yaml is no YAML"),
        ("a: !!timestamp b", "queues.yaml is no YAML"),
        ("a: !!bool b", "queues.yaml is no YAML"),
        ("a: !!int ''", "queues.yaml is no YAML"),
        (f"a: {'1:' * 1500}1.5", "queues.yaml is no YAML"),
        (f"a: {'1:' * 30_000}1", "queues.yaml has a word of more than 10000 characters"),
        (one_queue(f"resources: {{max: {{vcore: 0x{'f' * 6000}}}}}"), "Expected `int` <= "),
        (one_queue(f"properties: {{priority.offset: 0x{'f' * 6000}}}"), "Expected `int` <= "),
        (
            one_queue("queues: [" + ", ".join(f"{{name: q{n}}}" for n in range(1000)) + "]"),
            "it has more than 1000 queues",
        ),
    ],
)
def test_what_makes_no_sense_as_a_whole(text: str | None, why: str) -> None:
    found = config(text)
    assert found.queues == ()
    assert found.problem.startswith("the ConfigMap yunikorn/yunikorn-configs cannot be read: ")
    assert why in found.problem
    assert len(found.problem) < 500


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("resources: {max: {vcore: many}}", "resources.max[cpu]"),
        ("resources: {guaranteed: {vcore: -1}}", "write 0 or more"),
        (
            "resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}",
            "raise the one or lower the other",
        ),
        ("properties: {priority.offset: high}", "priority.offset is 'high'; write a whole number"),
    ],
)
def test_a_queue_that_makes_no_sense_is_the_only_one(more: str, why: str) -> None:
    found = config(one_queue(f"queues: [{{name: bad, {more}}}, {{name: good}}]"))
    assert found.problem == ""
    problems = {spec.name: spec.problem for spec in found.queues}
    assert why in problems.pop("root.bad")
    assert set(problems.values()) == {""}
