"""Counted resources as people write them, and what is wrong with some."""

import json
from typing import Any

import pytest

from fairlead.kube.counted import ServedCounted, decode_counted
from fairlead.kube.counted_words import CHARGED_COUNTED, COUNTED, read_counted
from fairlead.model.counted import (
    CountedAsk,
    CountedLayer,
    CountedMode,
    CountedResource,
    CountedStatus,
    OutsideTerms,
    OutsideUse,
)

RACK = {"name": "rack", "count": 3, "nodeLabel": "rack"}


def seen(spec: object, status: object = None) -> Any:
    body = {"metadata": {"name": "r", "uid": "u", "resourceVersion": "7"}, "spec": spec}
    return decode_counted(json.dumps(body | ({"status": status} if status else {})).encode())


def test_all_that_a_counted_resource_says_is_read() -> None:
    layers = [
        {"name": "hall", "count": 9, "base": 1},
        {**RACK, "counts": {"a": 4}, "parent": "hall"},
        {"name": "one", "count": 2, "nodeSelector": {"zone": "a"}},
    ]
    spec = {
        "total": 5, "unit": "W", "mode": "Tree", "layers": layers, "perGpu": {"H100": 700},
        "namespaces": ["a"], "outside": {"maxAge": "1m", "fallback": 2, "includesPods": True},
    }  # fmt: skip
    status = {"outsideUse": {"used": 3, "time": "1970-01-01T00:01:00Z"}}
    assert seen(spec, status).described == CountedResource(
        "r", 5, "W", CountedMode.TREE,
        (
            CountedLayer("hall", 9, base=1),
            CountedLayer("rack", 3, label="rack", counts=(("a", 4),), parent="hall"),
            CountedLayer("one", 2, (("zone", "a"),)),
        ),
        (("H100", 700),), frozenset("a"), OutsideTerms(60.0, 2, includes_pods=True),
        OutsideUse(3, 60.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "write spec.total, spec.layers or both"),
        ({"total": -1}, "spec.total is -1"),
        ({"total": "many"}, "cannot be read"),
        ({"layers": [RACK], "outside": {}}, "spec.outside needs spec.total"),
        ({"total": 1, "outside": {"maxAge": "soon"}}, "spec.outside.maxAge"),
        ({"layers": [RACK, RACK]}, "two of spec.layers have one name"),
        ({"layers": [{**RACK, "name": "a/b"}]}, "write a name without"),
        ({"layers": [{"name": "a", "count": 1}]}, "write nodeSelector or nodeLabel"),
        ({"layers": [{**RACK, "parent": "x"}]}, "parent needs the mode Tree"),
        ({"mode": "Tree", "layers": [{**RACK, "parent": "x"}]}, "the layers above it must exist"),
        (
            {"mode": "Tree", "layers": [{"name": "a", "count": 1, "parent": "a"}]},
            "the layers above it must exist",
        ),
        ({"layers": [{"name": "a", "count": 1, "nodeSelector": {"x": "y"}, "counts": {"a": 1}}]},
         "counts needs nodeLabel"),
        ({"layers": [{**RACK, "name": f"l{n}"} for n in range(300)]}, "more than 256 layers"),
        ({"total": 1, "perGpu": {str(n): 1 for n in range(40)}}, "more than 32 models"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said_in_one_sentence(spec: Any, why: str) -> None:
    assert why in seen(spec).described.problem


@pytest.mark.parametrize(
    "status",
    [
        {"outsideUse": {"used": -1, "time": "2026-01-01T00:00:00Z"}},
        {"outsideUse": {"used": 1, "time": "yesterday"}},
        {"outsideUse": 5},
        {"outsideUse": {"used": 1, "time": "9999999-01-01T00:00:00Z"}},
    ],
)
def test_an_outside_use_that_makes_no_sense_is_not_known(status: Any) -> None:
    assert seen({"total": 1, "outside": {}}, status).described.measured is None


def test_only_what_has_changed_is_written_and_outside_use_stays() -> None:
    standing = {"used": 1, "outsideUse": {"used": 2, "time": "2026-01-01T00:00:00Z"}}
    status = CountedStatus(1, 3, 0, (("a", 1),), (("rack/a", 1, 2),), "")
    body = ServedCounted("v1alpha1").body(seen({"total": 4}, standing), status, "")
    assert body == {
        "status": {
            "free": 3, "outside": 0, "holders": [{"namespace": "a", "used": 1}],
            "layers": [{"name": "rack/a", "used": 1, "count": 2}], "message": "",
        }
    }  # fmt: skip
    written = {**standing, **body["status"]}
    assert ServedCounted("v1alpha1").body(seen({"total": 4}, written), status, "") is None


def test_pods_ask_and_are_charged_by_annotation() -> None:
    asks = {COUNTED: "solver=2, tokens = 1", CHARGED_COUNTED: "solver=2@east"}
    assert read_counted(asks, is_bound=False) == (CountedAsk((("solver", 2), ("tokens", 1))), "")
    charged = CountedAsk(charged=(("solver", 2, "east"),))
    assert read_counted(asks, is_bound=True) == (charged, "")
    assert read_counted({COUNTED: "solver=2"}, is_bound=True) == (None, "")
    assert read_counted(None, is_bound=False) == (None, "")


MANY = ",".join(f"s{number}=1" for number in range(17))


@pytest.mark.parametrize(
    "text", ["", "solver", "solver=0", "solver=-1", "a=1,a=2", "=1", "solver=1.5", MANY]
)
def test_what_a_pod_cannot_mean_is_refused(text: str) -> None:
    ask, problem = read_counted({COUNTED: text}, is_bound=False)
    assert ask is None
    assert problem.startswith(f"the pod is invalid: {COUNTED}: ")
