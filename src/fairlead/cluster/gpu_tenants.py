"""Which tenant has the pods on each GPU, by the labels that namespaces have now.

Nothing of it is stored: after a restart, and after a namespace got another label, it follows from
namespaces and pods.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.gpus import Grant
from fairlead.model.holders import Holder
from fairlead.model.pods import PodRequest
from fairlead.model.sizes import remembered

#: On a GPU: no pod, or pods of several tenants, or of one that is not known.
NO_TENANT, SEVERAL = -1, -2
#: The tenant of a namespace that was not seen yet; no label has such a value.
UNKNOWN = "?"
#: Numbers of tenants that are kept beside those of the namespaces.
_SPARE = 64


class GpuTenants:
    def __init__(self, terms: TenantTerms) -> None:
        self.terms = terms
        #: Tenants of the namespaces that are there.
        self._tenant_of: dict[str, str] = {}
        self._codes: dict[str, int] = {}
        self._next_code = 0
        self._namespace_of: dict[tuple[int, Holder], str] = {}
        #: The rows where each namespace has GPUs, and how many holders.
        self._rows: dict[str, Counter[int]] = {}

    # -- namespaces --------------------------------------------------------------------------

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether its tenant changed; None: it is gone."""
        old = self._tenant_of.get(name)
        new = None if labels is None else labels.get(self.terms.label, "")
        if new is None:
            self._tenant_of.pop(name, None)
        else:
            self._tenant_of[name] = new
        return old != new

    def of(self, namespace: str) -> str:
        return self._tenant_of.get(namespace, UNKNOWN)

    def rows_of(self, namespace: str) -> tuple[int, ...]:
        return tuple(self._rows.get(namespace, ()))

    def code(self, tenant: str) -> int:
        """A number for the tenant; that of an unknown one is on no GPU."""
        found = self._codes.get(tenant)
        if found is None:
            if len(self._codes) > _SPARE + 2 * len(self._tenant_of):
                self._forget_codes()
            found = self._codes[tenant] = self._next_code
            self._next_code += 1
        return found

    def _forget_codes(self) -> None:
        """Of tenants that no namespace has any more: none is on a GPU. No number comes again."""
        there = {*self._tenant_of.values()}
        self._codes = {name: code for name, code in self._codes.items() if name in there}

    def name(self, code: int) -> str:
        """What the pods on a GPU are of, in words."""
        found = next((name for name, its in self._codes.items() if its == code), None)
        if found is None:
            return "several tenants, or of one that is not known"
        return f"the tenant {found}" if found else "namespaces without a tenant"

    # -- holders -----------------------------------------------------------------------------

    def came(self, row: int, holder: Holder, namespace: str) -> None:
        self._namespace_of[row, holder] = namespace
        self._rows.setdefault(namespace, Counter())[row] += 1

    def left(self, row: int, holder: Holder) -> None:
        namespace = self._namespace_of.pop((row, holder), None)
        rows = self._rows.get(namespace, Counter()) if namespace is not None else Counter()
        rows[row] -= 1
        if rows[row] <= 0:
            del rows[row]
        if not rows and namespace is not None:
            self._rows.pop(namespace, None)

    def clear_row(self, row: int, holders: Iterable[Holder]) -> None:
        for holder in tuple(holders):
            self.left(row, holder)

    def codes_on(
        self, row: int, slot_of: Mapping[str, int], grants: Mapping[Holder, Grant]
    ) -> dict[int, int]:
        """The tenant of each GPU of the row with pods, by slot."""
        found: dict[int, int] = {}
        for holder, grant in grants.items():
            tenant = self.of(self._namespace_of.get((row, holder), ""))
            code = SEVERAL if tenant == UNKNOWN else self.code(tenant)
            for use in grant.uses:
                slot = slot_of.get(use.uuid)
                if slot is not None:
                    found[slot] = code if found.get(slot, code) == code else SEVERAL
        return found

    # -- requests ----------------------------------------------------------------------------

    def concerns(self, request: PodRequest) -> bool:
        """Whether it shares GPUs."""
        ask = request.gpu_request
        return ask is not None and (not ask.whole or bool(ask.profile))

    def request(self, request: PodRequest, namespace: str) -> PodRequest:
        """A request that shares GPUs, with the tenant."""
        return _of_tenant(request, self.of(namespace))


@remembered(8 << 20)
def _of_tenant(request: PodRequest, tenant: str) -> PodRequest:
    assert request.gpu_request is not None
    return replace(request, gpu_request=replace(request.gpu_request, tenant=tenant))
