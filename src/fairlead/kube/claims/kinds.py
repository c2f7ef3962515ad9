"""The kinds of resource.k8s.io that are read, with ComputeDomains, and who reads them."""

from collections.abc import Callable, Mapping

from msgspec import Raw

from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.classes import decode_device_class, decode_taint_rule
from fairlead.kube.claims.compute_domains import decode_compute_domain
from fairlead.kube.claims.slices import decode_slice
from fairlead.kube.object_kinds import ObjectKind
from fairlead.model.claims import ClaimObject

GROUP = "resource.k8s.io"
SLICES = ObjectKind(GROUP, ("v1",), "resourceslices", "ResourceSlice")
CLASSES = ObjectKind(GROUP, ("v1",), "deviceclasses", "DeviceClass")
CLAIMS = ObjectKind(GROUP, ("v1",), "resourceclaims", "ResourceClaim")
#: Served by default from 1.37 on; before, in beta and off.
TAINT_RULES = ObjectKind(GROUP, ("v1", "v1beta2"), "devicetaintrules", "DeviceTaintRule")
#: Of NVIDIA's driver; served where it is installed.
COMPUTE_DOMAINS = ObjectKind(
    "resource.nvidia.com", ("v1beta1",), "computedomains", "ComputeDomain"
)  # fmt: skip

#: In the order in which they are best shown: claims after all that they depend on.
CLAIM_KINDS: Mapping[ObjectKind, Callable[[bytes | Raw], ClaimObject]] = {
    SLICES: decode_slice,
    CLASSES: decode_device_class,
    TAINT_RULES: decode_taint_rule,
    COMPUTE_DOMAINS: decode_compute_domain,
    CLAIMS: decode_claim,
}
