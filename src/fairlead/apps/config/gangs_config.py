"""The part of the configuration about gangs: which APIs are read, and how nodes are requested."""

import re

import msgspec

from fairlead.base.durations import DurationError, length_s
from fairlead.kube.gangs.kai import GROUPED, KaiGangs
from fairlead.kube.gangs.registry import DIALECTS, NAMES, GangDialects
from fairlead.model.errors import ConfigError
from fairlead.model.node_requests import ATOMIC, RequestTerms

_CLASS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOST_PARAMETERS, _LONGEST_PARAMETER = 100, 255


class NodeRequestsConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: The class of the ProvisioningRequest.
    class_name: str = msgspec.field(default=ATOMIC, name="class")
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    #: When a request that has ended is written again; each time after twice as long.
    retry_after: str = "1m"

    def terms(self) -> RequestTerms:
        """Raises ConfigError for what the API server would not take."""
        if not _CLASS.fullmatch(self.class_name):
            raise ConfigError(
                f"gangs.nodeRequests.class is {self.class_name[:64]!r}, which is not the name of "
                f"a class; write one such as {ATOMIC}"
            )
        longest = max(map(len, self.parameters.values()), default=0)
        if len(self.parameters) > _MOST_PARAMETERS or longest > _LONGEST_PARAMETER:
            raise ConfigError(
                f"gangs.nodeRequests.parameters may have {_MOST_PARAMETERS} values of at most "
                f"{_LONGEST_PARAMETER} characters"
            )
        try:
            retry_s = length_s(self.retry_after)
        except DurationError as error:
            raise ConfigError(f"gangs.nodeRequests.retryAfter: {error}") from None
        return RequestTerms(self.class_name, self.parameters, retry_s)


class GangsConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    #: Dialects whose words and objects are not read; their pods are ordinary ones.
    disabled: list[str] = msgspec.field(default_factory=list)
    #: Scheduler names that KAI's podgrouper serves: their pods wait until it has grouped them.
    grouped: list[str] = msgspec.field(default_factory=lambda: list(GROUPED))

    #: Whether nodes are requested for whole gangs, by ProvisioningRequests; None: they are not.
    node_requests: NodeRequestsConfig | None = None

    def request_terms(self) -> RequestTerms | None:
        return self.node_requests.terms() if self.node_requests else None

    def dialects(self) -> GangDialects:
        """Those that are on. Raises ConfigError for a name that is none."""
        for name in self.disabled:
            if name not in NAMES:
                raise ConfigError(
                    f"gangs.disabled has {name[:64]!r}, which is not a dialect of gangs; "
                    f"the dialects are {', '.join(NAMES)}"
                )
        on = (each for each in DIALECTS if each.name not in self.disabled)
        return GangDialects(
            KaiGangs(self.grouped) if isinstance(each, KaiGangs) else each for each in on
        )
