"""`tenants:` of the configuration: whose pods never share a GPU.

tenants:
  namespaceLabel: example.com/tenant
  slices: true
"""

from typing import Annotated

import msgspec

from fairlead.model.gpu_tenants import TenantTerms

LabelKey = Annotated[
    str,
    msgspec.Meta(
        max_length=317, pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
    ),
]


class TenantsConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    namespace_label: LabelKey
    slices: bool = False

    def terms(self) -> TenantTerms:
        return TenantTerms(self.namespace_label, self.slices)
