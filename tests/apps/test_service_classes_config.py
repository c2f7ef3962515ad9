"""Service classes as they are configured: what is read, and what is refused with what to write."""

import msgspec
import pytest

from fairlead.apps.config.service_classes_config import ServiceClassConfig, service_classes
from fairlead.model.errors import ConfigError
from fairlead.model.service_classes import GpuTerms


def terms(**said: object) -> GpuTerms | None:
    raw = {"name": "a", "wait": "2m", "gpus": said}
    (class_,) = service_classes([msgspec.convert(raw, ServiceClassConfig)])
    return class_.gpus


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"quiet": "40%"}, GpuTerms(quiet=0.4)),
        ({"quiet": 0.4, "neighbours": "60%"}, GpuTerms(0.4, 0.6)),
        ({"neighbours": "none"}, GpuTerms(neighbours=0.0)),
        ({"packed": True}, GpuTerms(packed=True)),
        ({"quiet": "100%"}, GpuTerms(1.0)),
        ({}, GpuTerms()),
    ],
)
def test_levels_are_shares_of_the_time(said: dict[str, object], wanted: GpuTerms) -> None:
    assert terms(**said) == wanted


@pytest.mark.parametrize(
    "said",
    [
        {"quiet": "0%"},
        {"quiet": "101%"},
        {"quiet": "none"},
        {"quiet": "often"},
        {"quiet": 40.0},
        {"neighbours": "few"},
        {"neighbours": float("nan")},
    ],
)
def test_what_is_no_level_is_refused_with_what_to_write(said: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="write how busy a GPU may be, such as 40%"):
        terms(**said)


def test_a_class_without_terms_has_none() -> None:
    (class_,) = service_classes([ServiceClassConfig("a", "2m")])
    assert class_.gpus is None
