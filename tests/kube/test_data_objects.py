"""Datasets of Fluid and models of KServe, as their controllers write them."""

import json
from typing import Any

from fairlead.kube.data_objects import (
    DATASET,
    MODEL_CACHE,
    MODEL_NODE,
    NAMESPACE_CACHE,
    data_decoder,
    gone,
)
from fairlead.kube.gangs.api import GangKind
from fairlead.model.data_sets import DataSet, NodeData

GIB = 1 << 30


def described(kind: GangKind, name: str, namespace: str = "", **fields: Any) -> DataSet | NodeData:
    meta = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"}
    return data_decoder(kind)(json.dumps({"metadata": meta, **fields}).encode()).described


def test_a_dataset_has_its_size_and_what_is_cached() -> None:
    status = {"ufsTotal": "2.5GiB", "cacheStates": {"cached": "512.00MiB", "cachedPercentage": "9"}}
    found = described(DATASET, "imagenet", "team", status=status)
    label = "fluid.io/s-team-imagenet"
    assert found == DataSet("dataset/team/imagenet", 5 * GIB // 2, GIB // 2, label)


def test_a_dataset_that_is_still_measured_is_not_counted() -> None:
    for status in ({"ufsTotal": "[Calculating]"}, {}, None, {"cacheStates": None}, "odd", 7):
        found = described(DATASET, "imagenet", "team", status=status)
        assert isinstance(found, DataSet)
        assert (found.key, found.size_bytes) == ("dataset/team/imagenet", 0)


def test_models_have_a_size_and_those_of_a_namespace_have_its_name() -> None:
    spec = {"modelSize": "140Gi", "sourceModelUri": "s3://models/llama", "nodeGroups": ["gpus"]}
    assert described(MODEL_CACHE, "llama", spec=spec) == DataSet("model/llama", 140 * GIB)
    found = described(NAMESPACE_CACHE, "llama", "team", spec=spec)
    assert found == DataSet("model/team/llama", 140 * GIB)
    assert described(MODEL_CACHE, "llama", spec={"modelSize": 5}) == DataSet("model/llama", 5)


def test_a_node_has_the_models_that_were_downloaded_there() -> None:
    states = {
        "llama": "ModelDownloaded", "team/small": "ModelDownloaded",
        "late": "ModelDownloading", "bad": "ModelDownloadError",
    }  # fmt: skip
    found = described(MODEL_NODE, "gpu-7", status={"modelStatus": states})
    assert found == NodeData("gpu-7", frozenset({"model/llama", "model/team/small"}))
    assert described(MODEL_NODE, "gpu-7", status={"modelStatus": ["odd"]}) == NodeData("gpu-7")


def test_an_object_that_is_gone_takes_back_what_it_said() -> None:
    assert gone(DATASET, "team/imagenet") == DataSet("dataset/team/imagenet")
    assert gone(MODEL_CACHE, "llama") == DataSet("model/llama")
    assert gone(MODEL_NODE, "gpu-7") == NodeData("gpu-7")
