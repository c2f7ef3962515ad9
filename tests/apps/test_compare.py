"""The same pods, side by side."""

import io
import json

import pytest

from fairlead.apps import compare
from fairlead.apps.config import profiles
from fairlead.model.errors import ConfigError

NODE = """
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10", nvidia.com/gpu: "1"}}
---
"""
POD = """
kind: Pod
metadata: {name: p, namespace: default}
spec: {containers: [{name: c, image: x, resources: {requests: {nvidia.com/gpu: "1"}}}]}
---
"""


def test_the_example_shows_that_profiles_differ() -> None:
    found = compare.compare(compare.read_scene(None))
    assert list(found["profiles"]) == list(profiles.NAMES)
    first = {name: places[0]["node"] for name, places in found["profiles"].items()}
    assert first["alnair-cost-saving"] == "big-b", "where a GPU is in use"
    assert first["alnair-high-performance"] == "big-a", "where the most is free"
    assert first["gpu-aware-scheduler"] == "big-a", "an H100"


def test_pods_see_what_those_before_them_took() -> None:
    scene = compare.parse_scene(NODE + POD + POD.replace("name: p,", "name: q,"))
    places = compare.compare(scene, ["spread"])["profiles"]["spread"]
    assert [place["node"] for place in places] == ["n1", ""]
    assert "Insufficient nvidia.com/gpu" in places[1]["why"]


def test_text_and_json_say_the_same() -> None:
    found = compare.compare(compare.parse_scene(NODE + POD), ["binpack", "spread"])
    text, data = io.StringIO(), io.StringIO()
    compare.show(found, "text", text)
    compare.show(found, "json", data)
    rows = [line.split()[:3] for line in text.getvalue().splitlines()[1:]]
    assert rows == [["default/p", "binpack", "n1"], ["default/p", "spread", "n1"]]
    assert json.loads(data.getvalue()) == found


def test_a_list_as_kubectl_prints_it() -> None:
    bodies = compare._objects(NODE + POD)
    listed = json.dumps({"kind": "List", "items": list(bodies)})
    assert [pod.key for pod in compare.parse_scene(listed).waiting] == ["default/p"]


@pytest.mark.parametrize(
    ("text", "says"),
    [(NODE, "at least one Node and one Pod"), ("a: [", "not valid YAML"),
     (NODE.replace('"8"', '"many"') + POD, "Node n1: ")],
)  # fmt: skip
def test_what_cannot_be_used_is_told(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        compare.parse_scene(text)
