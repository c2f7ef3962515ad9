"""Allocations from what a search has chosen."""

from collections.abc import Sequence

from fairlead.claims.errors import AllocationError
from fairlead.claims.nodes import NAME_FIELD
from fairlead.claims.requests import WantedDevices
from fairlead.claims.trial_state import Choice
from fairlead.model.claims import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    ResourceClaim,
)
from fairlead.model.devices import OpaqueConfig
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement


def claim_allocation(
    claim: ResourceClaim,
    taken: Sequence[WantedDevices],
    choices: Sequence[Choice],
    node: str,
    *,
    merges: bool,
) -> Allocation:
    """`taken` has the request, or its alternative, that devices were chosen for."""
    configs = [*_class_configs(taken), *_claim_configs(claim, taken, merges=merges)]
    if merges:
        configs = [_for_all(config, taken) for config in configs]
    try:
        terms = _node_terms(choices, node)
    except AllocationError as error:
        text = f"create NodeSelector for claim {claim.name}: {error}"
        raise AllocationError(text) from None
    return Allocation(tuple(_result(choice) for choice in choices), tuple(configs), terms)


def _result(choice: Choice) -> AllocatedDevice:
    form, key, need = choice.candidate.device.form, choice.candidate.key, choice.wanted.need
    return AllocatedDevice(
        choice.wanted.full_name,
        *key,
        admin_access=need.admin_access,
        tolerations=need.tolerations,
        binding_conditions=form.binding_conditions,
        binding_failure_conditions=form.binding_failure_conditions,
        share_id="" if form.shareable else None,
        consumed_capacity=(choice.amounts or None) if form.shareable else None,
    )


def _class_configs(taken: Sequence[WantedDevices]) -> list[AllocatedConfig]:
    """Those of each class once, with all requests of the class."""
    requests: dict[str, list[str]] = {}
    for wanted in taken:
        requests.setdefault(wanted.known_class.name, []).append(wanted.full_name)
    classes = {wanted.known_class.name: wanted.known_class for wanted in taken}
    return [
        AllocatedConfig(
            FROM_CLASS, OpaqueConfig(config.driver, config.parameters, tuple(requests[name]))
        )
        for name, known in classes.items()
        for config in known.configs
    ]


def _claim_configs(
    claim: ResourceClaim, taken: Sequence[WantedDevices], *, merges: bool
) -> list[AllocatedConfig]:
    """Those that concern any request; in 1.36 once for each request that they concern."""
    configs: list[AllocatedConfig] = []
    for config in claim.configs:
        times = 1 if not config.requests else sum(_concerns(config, each) for each in taken)
        configs += [AllocatedConfig(FROM_CLAIM, config)] * (min(times, 1) if merges else times)
    return configs


def _concerns(config: OpaqueConfig, wanted: WantedDevices) -> bool:
    return wanted.request in config.requests or wanted.full_name in config.requests


def _for_all(found: AllocatedConfig, taken: Sequence[WantedDevices]) -> AllocatedConfig:
    """Without the names of requests where it concerns all of them."""
    config = found.config
    if config.requests and all(_concerns(config, wanted) for wanted in taken):
        return AllocatedConfig(found.source, OpaqueConfig(config.driver, config.parameters))
    return found


def _node_terms(choices: Sequence[Choice], node: str) -> tuple[NodeTerm, ...] | None:
    """Nodes that can use all devices; None: all nodes."""
    fields: list[Requirement] = []
    labels: list[Requirement] = []
    for choice in choices:
        part, form = choice.candidate.slice, choice.candidate.device.form
        nodes = form.nodes if part.per_device else part.nodes
        if form.binds_to_node or (nodes is not None and nodes.node_name):
            return (NodeTerm(fields=(Requirement(NAME_FIELD, "In", (node,)),)),)
        terms = nodes.terms or () if nodes is not None else ()
        if len(terms) > 1:
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(text)
        for term in terms:
            _add_new(fields, term.fields)
            _add_new(labels, term.labels)
    return (NodeTerm(tuple(labels), tuple(fields)),) if fields or labels else None


def _add_new(known: list[Requirement], lines: Sequence[Requirement]) -> None:
    """Lines that differ in more than the order of their values."""
    for line in lines:
        same = (each for each in known if (each.key, each.operator) == (line.key, line.operator))
        if not any(set(each.values) == set(line.values) for each in same):
            known.append(line)
