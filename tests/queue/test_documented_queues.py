"""docs/queues.md says what is: every field and reason, and the worked example of shares."""

import re
from pathlib import Path

import pytest

from fairlead.kube.queues.registry import NAMES
from fairlead.model.queues import UnitOrder
from fairlead.model.run_times import RUN_TIME
from fairlead.model.start_times import DEADLINE
from fairlead.queue.quotas import policy
from fairlead.queue.quotas.fair_share import QueueDemand, continuous
from yaml_texts import yamls_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queues.md").read_text()


def _fields() -> list[str]:
    kinds = yamls_of(ROOT / "deploy" / "crds.yaml")
    kind = next(k for k in kinds if k["metadata"]["name"] == "queues.fairlead.dev")
    schema = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    inner = spec.pop("preemption")["properties"]
    return [*spec, *(f"preemption.{name}" for name in inner)]


@pytest.mark.parametrize("field", _fields())
def test_every_field_is_described(field: str) -> None:
    assert f"| `{field}` |" in PAGE


@pytest.mark.parametrize("word", [*(order.value for order in UnitOrder)])
def test_every_order_is_described(word: str) -> None:
    assert f"| `{word}` |" in PAGE


@pytest.mark.parametrize(
    "reason",
    [policy.LIMIT, policy.NOT_FOUND, policy.CLOSED, policy.NOT_ALLOWED, policy.INVALID,
     policy.BUDGET],
)  # fmt: skip
def test_every_reason_is_described(reason: str) -> None:
    assert f"| `{reason}` |" in PAGE


@pytest.mark.parametrize("dialect", [name for name in NAMES if name != "fairlead"])
def test_every_api_is_described(dialect: str) -> None:
    assert f"| `{dialect}`: " in PAGE


def test_the_annotations_are_named() -> None:
    assert f"`{RUN_TIME}`" in PAGE
    assert f"`{DEADLINE}`" in PAGE


def test_the_worked_example_of_shares_is_what_is_computed() -> None:
    rows = re.findall(r"^\| (?:research|product|interns) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    table = [row.split(" | ") for row in rows]
    demands = [QueueDemand(float(r[2]), float(r[0]), float(r[1])) for r in table]
    assert len(demands) == 3
    assert continuous(16.0, demands) == pytest.approx([float(r[-1]) for r in table], abs=0.005)
