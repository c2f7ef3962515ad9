"""The contract of plugins, checked on clusters drawn at random."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import (
    HIGHEST_SCORE,
    ClusterFilter,
    Filter,
    GpuChooser,
    Picker,
    Plugin,
    RelativeScore,
    Score,
    concerns,
    reasons_of,
)
from fairlead.testing.drawn import draw_cluster
from fairlead.testing.sample_requests import REQUESTS
from fairlead.testing.variations import VARIATIONS, ClusterVariations

Result = npt.NDArray[Any]
_KINDS = (Filter, Score, RelativeScore, Picker)


class ContractViolation(AssertionError):
    """A plugin does not fulfil the contract; the message names the rule, request and cluster."""


def check_plugin(
    plugin: Plugin, requests: Iterable[PodRequest] = (), seeds: Iterable[int] = range(12)
) -> None:
    """Raises ContractViolation unless the plugin fulfils the contract in `docs/plugins.md`.

    It is called for `REQUESTS` and the additional `requests` (give some if it reads `pod_keys`),
    on one drawn cluster for each seed. Errors of the plugin itself are raised as they are.
    """
    if not isinstance(plugin, _KINDS):
        raise ContractViolation(
            f"{type(plugin).__name__} is not a plugin: it needs `name` and `pick`, or `name`, "
            "`reads` and `rate` or `rank`, or `name`, `reads`, `refusal`, `resolvable` and `allows`"
        )
    asked = (*REQUESTS, *requests)
    for seed in seeds:
        rng = Random(seed)
        scene = ClusterVariations(draw_cluster(rng), rng)
        for request in asked:
            for kind in _KINDS:
                if isinstance(plugin, kind):
                    _check_as(kind, plugin, request, scene, f"seed {seed}")


@dataclass(frozen=True, slots=True)
class _Check:
    """One plugin, as one kind, with one request."""

    plugin: Any
    kind: type
    request: PodRequest
    place: str

    def result(self, nodes: Nodes) -> Result:
        return _CALLS[self.kind](self, nodes)

    def require(self, fulfilled: Any, rule: str) -> None:
        if not fulfilled:
            text = f"{self.plugin.name} {rule} ({_brief(self.request)}, {self.place})"
            raise ContractViolation(text)


def _check_as(
    kind: type, plugin: Plugin, request: PodRequest, scene: ClusterVariations, place: str
) -> None:
    check, nodes = _Check(plugin, kind, request, place), scene.cluster.nodes
    before = _fingerprint(scene.cluster)
    whole = check.result(nodes)
    _check_form(check, whole, len(nodes))
    again = check.result(nodes)
    check.require(np.array_equal(whole, again), "must return the same result for the same input")
    if kind is not Picker:
        _check_rows(check, scene, whole)
        _check_reads(check, scene, whole)
    if kind is Filter:
        _check_reasons(check, nodes, whole)
    if isinstance(plugin, GpuChooser) and request.gpu_request:
        shape = np.shape(plugin.rate_gpus(request, nodes))
        check.require(shape[:1] == (len(nodes),) and len(shape) == 2, "must rate GPUs by node")
    check.require(_fingerprint(scene.cluster) == before, "must not change the cluster")


def _rank(check: _Check, nodes: Nodes) -> Result:
    """As the scheduler does: some of the nodes are left, and it may not apply to the request."""
    left = nodes.named([f"n{number}" for number in range(12) if number % 3 != 1])
    left = left if left.any() else nodes.present()
    ranks: Result = check.plugin.rank(check.request, nodes, left)
    if check.plugin.applies_as_score(check.request, nodes):
        return ranks
    equal = len(set(ranks[left])) <= 1
    check.require(equal, "ranks nodes differently where applies_as_score returns False")
    return np.zeros(len(nodes))


_CALLS: dict[type, Callable[[_Check, Nodes], Result]] = {
    Filter: lambda check, nodes: check.plugin.allows(check.request, nodes),
    Score: lambda check, nodes: check.plugin.rate(check.request, nodes),
    RelativeScore: _rank,
    Picker: lambda check, nodes: check.plugin.pick(check.request, nodes, np.zeros(len(nodes))),
}


def _check_form(check: _Check, result: Result, rows: int) -> None:
    if check.kind is Picker:
        check.require(-1 <= int(result) < rows, "must pick a position in `nodes`, or -1")
        return
    check.require(np.shape(result) == (rows,), "must return one result for each node")
    if check.kind is Filter:
        check.require(result.dtype == np.bool_, "must return booleans")
        return
    check.require(result.dtype == np.float64, "must return floats (numpy.float64)")
    scaled = (result >= 0) & (result <= HIGHEST_SCORE)
    check.require(scaled.all(), "must score from 0 to 100, and never NaN")


def _check_rows(check: _Check, scene: ClusterVariations, whole: Result) -> None:
    """The result for a node depends on that node alone, unless the plugin says otherwise."""
    again = check.result(scene.in_another_order())
    names = [node.name for node in scene.drawn.nodes]
    by_name = dict(zip(names, whole.tolist(), strict=True))
    expected = [by_name[node.name] for node in scene.shuffled]
    check.require(again.tolist() == expected, "depends on the order of nodes")
    if check.kind is RelativeScore:
        return
    if not concerns(check.plugin, check.request):
        unmoved = whole.all() if check.kind is Filter else not whole.any()
        check.require(unmoved, "applies to a request for which `concerns` returns False")
    if check.kind is Score or not isinstance(check.plugin, ClusterFilter):
        _check_some_rows(check, scene, whole)


def _check_some_rows(check: _Check, scene: ClusterVariations, whole: Result) -> None:
    """Called for some nodes, it returns what it returns for them among all."""
    rule, rng, columns = "depends on other nodes", scene.rng, scene.cluster.columns
    rows = np.array(sorted(rng.sample(range(len(whole)), rng.randint(1, len(whole)))))
    some = check.result(Nodes(columns, rows))
    check.require(np.array_equal(some, whole[rows]), rule)
    row = int(rows[0])
    one = check.result(Nodes(columns, slice(row, row + 1)))
    check.require(np.array_equal(one, whole[row : row + 1]), rule)


def _check_reads(check: _Check, scene: ClusterVariations, whole: Result) -> None:
    """What is not in `reads` does not change the result."""
    for aspects in VARIATIONS:
        for nodes in () if check.plugin.reads & aspects else scene.with_other(aspects):
            same = np.array_equal(check.result(nodes), whole)
            check.require(same, f"depends on {_named(aspects)}, which `reads` must name")


def _named(aspects: Aspect) -> str:
    return " or ".join(str(aspect.name) for aspect in Aspect if aspect & aspects)


def _check_reasons(check: _Check, nodes: Nodes, allowed: Result) -> None:
    explained = nodes.none()
    for reason in reasons_of(check.plugin, check.request, nodes):
        explained |= reason.where
        beyond = reason.resolvable & ~reason.where
        check.require(not beyond.any(), "has a reason resolvable on nodes that it does not refuse")
    exact = np.array_equal(explained, ~allowed)
    check.require(exact, "must give a reason for exactly the nodes that it refuses")


def _fingerprint(cluster: Cluster) -> bytes:
    columns = cluster.columns
    arrays = columns.allocatable, columns.requested, columns.cordoned, columns.present
    return b"".join(array.tobytes() for array in arrays)


_DEFAULT = PodRequest()


def _brief(request: PodRequest) -> str:
    """The fields of the request that are not as usual."""
    names = [field.name for field in fields(PodRequest) if field.compare]
    values = [(name, getattr(request, name)) for name in names]
    told = (f"{name}={value!r}" for name, value in values if value != getattr(_DEFAULT, name))
    return f"request: {', '.join(told) or 'nothing'}"
