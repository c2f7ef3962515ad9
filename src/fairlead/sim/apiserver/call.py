"""One request, understood: which kind, which object, with which options."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.status import ApiStatusError, Cause, unsupported
from fairlead.sim.apiserver.store import key_of

Object = dict[str, Any]
_NO_QUERY: Mapping[str, str] = {}
ADMIN = "fairlead-admin"


@dataclass(slots=True)
class Call:
    """A client's request; `warnings` go back to it as Warning headers."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=lambda: _NO_QUERY)
    warnings: list[str] = field(default_factory=list)
    # What the client asked for, where that differs from how the object is kept.
    view: Kind | None = None

    # A server-side apply writes managedFields itself.
    applies: bool = False
    # A PUT holds the uid it names to be a precondition; a patch is refused for changing it.
    replaces: bool = False
    # Webhooks were asked already, about the Scale or the Eviction that this call carries out.
    is_reviewed: bool = False
    # The user, as webhooks see it.
    user: str = ADMIN

    @property
    def shown(self) -> Kind:
        return self.view or self.kind

    @property
    def key(self) -> str:
        return key_of(self.namespace, self.name)

    @property
    def dry_run(self) -> bool:
        return "dryRun" in self.query

    def check_options(self, options_kind: str) -> None:
        """Refuses values of dryRun and fieldValidation that mean nothing."""
        causes = []
        if self.dry_run and self.query["dryRun"] != "All":
            causes.append(unsupported("dryRun", [self.query["dryRun"]], ("All",)))
        level = self.query.get("fieldValidation", "")
        if level not in ("", "Ignore", "Warn", "Strict"):
            causes.append(unsupported("fieldValidation", level, ("", "Ignore", "Strict", "Warn")))
        if causes:
            raise _invalid_options(options_kind, causes)


def _invalid_options(kind: str, causes: list[Cause]) -> ApiStatusError:
    shown = causes[0].text if len(causes) == 1 else f"[{', '.join(each.text for each in causes)}]"
    listed = [
        {"reason": each.reason, "message": each.message, "field": each.field} for each in causes
    ]
    details: Object = {"group": "meta.k8s.io", "kind": kind, "causes": listed}
    message = f'{kind}.meta.k8s.io "" is invalid: {shown}'
    return ApiStatusError(422, "Invalid", message, details)
