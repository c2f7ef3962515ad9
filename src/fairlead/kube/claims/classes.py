"""The JSON of DeviceClasses and DeviceTaintRules."""

import msgspec
from msgspec import Raw

from fairlead.kube.claims.common import (
    config_of,
    read_claim_object,
    selectors_of,
    taint_of,
    unreadable,
)
from fairlead.kube.claims.wire import ClassSpecWire, TaintedWire, TaintRuleSpecWire
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.devices import DeviceClass, DeviceTaint, DeviceTaintRule

_classes = msgspec.json.Decoder(ClassSpecWire)
_rules = msgspec.json.Decoder(TaintRuleSpecWire)


def decode_device_class(raw: bytes | Raw) -> DeviceClass:
    """One that makes no sense has a `problem`."""
    wire = read_claim_object(raw)
    meta = wire.metadata
    try:
        spec = _classes.decode(wire.spec)
        problem = ""
        configs = tuple(config_of(each) for each in spec.config or ())
    except UNREADABLE as error:
        spec, configs, problem = ClassSpecWire(), (), unreadable("device class", error)
    return DeviceClass(
        meta.name,
        selectors_of(spec.selectors),
        configs,
        spec.extended_resource_name or "",
        meta.creation_timestamp or "",
        uid=meta.uid,
        version=meta.resource_version,
        problem=problem,
    )


def decode_taint_rule(raw: bytes | Raw) -> DeviceTaintRule:
    """One that makes no sense has a `problem`, and taints nothing."""
    wire = read_claim_object(raw)
    meta = wire.metadata
    try:
        spec = _rules.decode(wire.spec)
    except UNREADABLE as error:
        return DeviceTaintRule(
            meta.name,
            DeviceTaint(""),
            uid=meta.uid,
            version=meta.resource_version,
            problem=unreadable("rule", error),
        )
    about = spec.device_selector or TaintedWire()
    return DeviceTaintRule(
        meta.name,
        taint_of(spec.taint),
        has_selector=spec.device_selector is not None,
        driver=about.driver,
        pool=about.pool,
        device=about.device,
        uid=meta.uid,
        version=meta.resource_version,
    )
