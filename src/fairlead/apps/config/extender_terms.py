"""One HTTP extender as it was configured."""

from fairlead.model.http_extenders import ExtenderTerms
from fairlead.model.lazy_dataclass import dataclass

#: kube-scheduler's.
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ExtenderFiles:
    """How its certificate is checked, and which one it is shown."""

    insecure: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class ExtenderPlan:
    """One extender as it was configured."""

    terms: ExtenderTerms
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    timeout_s: float = TIMEOUT_S
    #: It gets names of nodes, not the nodes.
    by_name: bool = False
    https: bool = False
    tls: ExtenderFiles | None = None
