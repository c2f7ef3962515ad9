"""Every built-in plugin keeps the contract, and the contract finds those that do not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from contract import check_plugin
from fairlead.cluster.aspects import Aspect
from fairlead.model.nodes import GPU
from fairlead.plugins.registry import FILTERS, SCORES


@pytest.mark.parametrize("kind", [*FILTERS, *SCORES], ids=lambda kind: kind.name)
def test_built_in_plugins_keep_the_contract(kind) -> None:
    check_plugin(kind())


class _Score:
    name: ClassVar[str] = "bad"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE


class PrefersFirstRow(_Score):
    def rate(self, request, nodes):
        return np.linspace(100.0, 0.0, len(nodes))


class Unscaled(_Score):
    def rate(self, request, nodes):
        return nodes.allocatable("memory").astype(np.float64)


class ComparesNodes(_Score):
    def rate(self, request, nodes):
        free = np.maximum(nodes.free(GPU), 0)
        return 100.0 * free / max(1, free.max())


class Writes(_Score):
    def rate(self, request, nodes):
        nodes.allocatable(GPU)[:] = 0
        return np.zeros(len(nodes))


class ForgetsToSay(_Score):
    reads: ClassVar[Aspect] = Aspect.TAINTS

    def rate(self, request, nodes):
        return np.clip(nodes.free(GPU).astype(np.float64), 0, 100)


@dataclass(frozen=True)
class WrongReasons:
    name: ClassVar[str] = "bad"
    reads: ClassVar[Aspect] = Aspect.TAINTS
    refusal: ClassVar[str] = "never"
    resolvable: ClassVar[bool] = False

    def allows(self, request, nodes):
        return ~nodes.cordoned()

    def reasons(self, request, nodes):
        return []


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (PrefersFirstRow(), "other nodes|minds order"),
        (Unscaled(), "from 0 to 100"),
        (ComparesNodes(), "other nodes"),
        (ForgetsToSay(), "must say so"),
        (WrongReasons(), "explain exactly"),
    ],
    ids=lambda item: type(item).__name__ if not isinstance(item, str) else "",
)
def test_the_contract_finds_plugins_that_break_it(plugin, says) -> None:
    with pytest.raises(AssertionError, match=says):
        check_plugin(plugin)


def test_a_plugin_cannot_write_into_the_cluster() -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_plugin(Writes())
