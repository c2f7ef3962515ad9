"""The annotation about spot and on-demand capacity: every form, and one sentence for the rest."""

import pytest

from dialect_objects import a_pod
from fairlead.model.capacity_types import CAPACITY_TYPE, CapacityTerms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("on-demand", CapacityTerms(on_demand_only=True)),
        ("spot-allowed", None),
        ("spot-preferred", CapacityTerms(prefers_spot=True)),
        ("spot-preferred 1h30m", CapacityTerms(prefers_spot=True, wait_s=5400.0)),
        ("spot-at-most 50%", CapacityTerms(spot_share=0.5)),
        ("spot-at-most 0%", CapacityTerms(spot_share=0.0)),
    ],
)
def test_what_the_annotation_says(text: str, terms: CapacityTerms | None) -> None:
    pod = a_pod({}, annotations={CAPACITY_TYPE: text})
    assert (pod.request.capacity, pod.problem) == (terms, "")


@pytest.mark.parametrize(
    "text",
    [
        "spot", "On-Demand", "on-demand 5m", "spot-preferred soon", "spot-preferred -5m",
        "spot-preferred 9999h", "spot-at-most", "spot-at-most 101%", "spot-at-most 0.5",
        "spot-at-most ²%", "on-demand " * 1000, " ",
    ],
)  # fmt: skip
def test_anything_else_keeps_the_pod_pending_with_what_to_write(text: str) -> None:
    pod = a_pod({}, annotations={CAPACITY_TYPE: text})
    assert "write on-demand, spot-allowed, spot-preferred" in pod.problem
    assert len(pod.problem) < 300


def test_on_a_bound_pod_it_is_no_problem() -> None:
    pod = a_pod({}, annotations={CAPACITY_TYPE: "odd"}, node="n1")
    assert (pod.request.capacity, pod.problem) == (None, "")
