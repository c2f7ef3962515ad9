from typing import ClassVar

import pytest

from fairlead.model.errors import ConfigError, UnknownPlugin
from fairlead.plugins.gpu_best_fit import GpuBestFit
from fairlead.plugins.registry import Registry


def test_plugins_are_found_by_name() -> None:
    assert Registry().find("GpuBestFit") is GpuBestFit


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownPlugin, match="did you mean 'GpuBestFit'"):
        Registry().find("GpuBestFti")


def test_a_name_can_be_taken_once() -> None:
    class Other:
        name: ClassVar[str] = "GpuBestFit"

    with pytest.raises(ConfigError, match="two plugins are named 'GpuBestFit'"):
        Registry().add(Other)
