"""Every built-in plugin keeps the contract, and the contract finds those that do not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from examples import some
from fairlead.cluster.aspects import Aspect
from fairlead.model.nodes import GPU
from fairlead.plugins.registry import FILTERS, SCORES
from fairlead.testing import ContractViolation, a_request, check_plugin


@pytest.mark.parametrize("kind", [*FILTERS, *SCORES], ids=lambda kind: kind.name)
def test_built_in_plugins_keep_the_contract(kind) -> None:
    check_plugin(kind(), seeds=some(range(12), 2, kind.name))


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


class LooksAtShares(_Score):
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE | Aspect.PODS

    def rate(self, request, nodes):
        shared = (nodes.gpus.users() > 0) & (nodes.gpus.milli_free() > 0)
        return np.clip(shared.sum(axis=1).astype(np.float64), 0, 100)


class Alternates(_Score):
    calls = 0

    def rate(self, request, nodes):
        type(self).calls += 1
        return np.full(len(nodes), self.calls % 2, dtype=np.float64)


class RatesNoGpus(_Score):
    def rate(self, request, nodes):
        return np.zeros(len(nodes))

    def rate_gpus(self, request, nodes):
        return np.zeros(len(nodes))


class NoPlugin:
    name = "none"


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (PrefersFirstRow(), "other nodes|order of nodes"),
        (Unscaled(), "from 0 to 100"),
        (ComparesNodes(), "other nodes"),
        (ForgetsToSay(), "which `reads` must name"),
        (WrongReasons(), "exactly the nodes"),
        (LooksAtShares(), "depends on DEVICES, which `reads` must name"),
        (Alternates(), "same result"),
        (RatesNoGpus(), "rate GPUs by node"),
        (NoPlugin(), "NoPlugin is not a plugin"),
    ],
    ids=lambda item: type(item).__name__ if not isinstance(item, str) else "",
)
def test_the_contract_finds_plugins_that_break_it(plugin, says) -> None:
    with pytest.raises(ContractViolation, match=says):
        check_plugin(plugin)


def test_a_plugin_cannot_write_into_the_cluster() -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_plugin(Writes())


def test_a_violation_names_the_request_and_the_cluster() -> None:
    with pytest.raises(ContractViolation, match=r"bad must score .*\(request: nothing, seed 3\)"):
        check_plugin(Unscaled(), seeds=[3])


class ReadsTeam(_Score):
    pod_keys = ("team",)

    def rate(self, request, nodes):
        return np.full(len(nodes), 200.0 if request.pod_value("team") else 0.0)


def test_requests_of_the_author_are_checked_too() -> None:
    check_plugin(ReadsTeam(), seeds=[1])
    with pytest.raises(ContractViolation, match="from 0 to 100"):
        check_plugin(ReadsTeam(), [a_request(pod_keys=(("team", "x"),))], seeds=[1])
