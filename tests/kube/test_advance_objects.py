"""Reservations as people write them, and what is wrong with some."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fairlead.kube.advance import ServedAdvance, decode_advance
from fairlead.model.advance import AdvancePhase, AdvanceReservation, AdvanceStatus

START = "2026-11-20T09:00:00Z"
START_S = 1795165200.0
GOOD: dict[str, Any] = {"start": START, "duration": "3h", "gpus": 16, "namespaces": ["demo"]}


def decoded(spec: object, status: object = None) -> AdvanceReservation:
    return seen(spec, status).described


def seen(spec: object, status: object = None) -> Any:
    body = {"metadata": {"name": "r", "uid": "u", "resourceVersion": "7"}, "spec": spec}
    return decode_advance(json.dumps(body | ({"status": status} if status else {})).encode())


def test_all_that_a_reservation_says_is_read() -> None:
    assert decoded({**GOOD, "gpuModel": "H100", "queues": ["a"], "preempt": True}) == (
        AdvanceReservation(
            "r", START_S, START_S + 10800, gpus=16, model="H100",
            namespaces=frozenset({"demo"}), queues=frozenset({"fairlead/a"}), preempts=True,
        )
    )  # fmt: skip
    upkeep = {
        "start": "2026-11-20T10:00:00+01:00", "end": "2026-11-20T10:00:00Z",
        "nodeSelector": {"rack": "a"}, "maintenance": True,
    }  # fmt: skip
    assert decoded(upkeep) == AdvanceReservation(
        "r", START_S, START_S + 3600, node_selector=(("rack", "a"),)
    )


def test_single_gpus_and_where_they_were_chosen_before_are_read() -> None:
    by_node = [{"node": "n2", "gpus": 2}, {"node": "n1", "gpus": 4}, {"node": "n3", "gpus": -2}]
    found = decoded({**GOOD, "gpusPerNode": 2}, {"nodes": ["n1"], "gpusByNode": by_node})
    assert (found.gpus_per_node, found.chosen_gpus) == (2, (("n1", 4), ("n2", 2)))
    assert decoded({**GOOD, "gpusPerNode": 2}, {"gpusByNode": {"n1": 4}}).chosen_gpus == ()
    assert decoded(GOOD, {"gpusByNode": by_node}).chosen_gpus == ()


def test_nodes_that_were_chosen_before_are_kept() -> None:
    assert decoded(GOOD, {"nodes": ["n1", "n2"]}).chosen == ("n1", "n2")
    assert decoded(GOOD, {"nodes": 7}).chosen == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"start": "Friday"}, "spec.start is 'Friday'; write a time such as 2026-11-20T09:00:00Z"),
        ({"start": ""}, "spec.start is ''"),
        ({"start": "9999-12-31T23:59:59-23:59"}, "spec.start is"),
        ({"duration": "-3h"}, "spec.duration: "),
        ({"duration": ""}, "write either spec.end or spec.duration"),
        ({"end": START}, "write either spec.end or spec.duration"),
        ({"end": START, "duration": ""}, "spec.end must be after spec.start"),
        ({"duration": "0s"}, "spec.end must be after spec.start"),
        ({"duration": "900000h"}, "it lasts for more than 366 days"),
        ({"gpus": 0}, "write either spec.nodeSelector or spec.gpus"),
        ({"gpus": -1}, "spec.gpus is -1; write a number from 1 to 1,000,000"),
        ({"gpus": "many"}, "its spec cannot be read: "),
        ({"nodeSelector": {"a": "b"}}, "write either spec.nodeSelector or spec.gpus"),
        ({"gpus": 0, "nodeSelector": {f"k{n}": "v" for n in range(17)}}, "more than 16 labels"),
        ({"gpusPerNode": -1}, "spec.gpusPerNode is -1; write a number from 1 to 64"),
        ({"gpusPerNode": 65}, "spec.gpusPerNode is 65; write a number from 1 to 64"),
        ({"gpusPerNode": 3}, "spec.gpus is 16; write a multiple of spec.gpusPerNode"),
        ({"gpusPerNode": 1, "gpus": 513}, "with spec.gpusPerNode, write at most 512"),
        (
            {"gpusPerNode": 1, "gpus": 0, "nodeSelector": {"a": "b"}},
            "spec.gpusPerNode needs spec.gpus",
        ),
        ({"namespaces": []}, "write who may use it in spec.namespaces or spec.queues"),
        ({"maintenance": True}, "write who may use it in spec.namespaces or spec.queues"),
        ({"namespaces": [f"n{n}" for n in range(1001)]}, "have more than 1000 names"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(change: dict[str, Any], why: str) -> None:
    found = decoded({**GOOD, **change})
    assert why in found.problem
    assert (found.gpus, found.node_selector, found.namespaces) == (0, (), frozenset())


def test_only_what_has_changed_is_written() -> None:
    status = AdvanceStatus(AdvancePhase.PENDING, ("n1",), 8, 2, "2 pod(s)")
    body = ServedAdvance("v1alpha1").body(seen(GOOD), status, "")
    assert body == {
        "status": {
            "phase": "Pending", "end": "2026-11-20T12:00:00Z", "nodes": ["n1"], "gpus": 8,
            "conflictingPods": 2, "message": "2 pod(s)",
        }
    }  # fmt: skip
    assert ServedAdvance("v1alpha1").body(seen(GOOD, body["status"]), status, "") is None
    some = replace(status, gpus_on=(("n1", 8),))
    body = ServedAdvance("v1alpha1").body(seen(GOOD, body["status"]), some, "")
    assert body == {"status": {"gpusByNode": [{"node": "n1", "gpus": 8}]}}
