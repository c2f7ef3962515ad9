"""Tenants whose pods never share a GPU."""

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TenantTerms:
    #: The label of namespaces that names the tenant; those without it are one tenant together.
    label: str
    #: Whether MIG slices of one GPU are kept apart, too.
    slices: bool = False
