"""ComputeDomains of NVIDIA's driver: nodes whose pods exchange memory over NVLink."""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass

#: The driver that has the channels of ComputeDomains.
CHANNEL_DRIVER = "compute-domain.nvidia.com"
#: The label of a node that says which nodes it has NVLink to: the domain, and the clique in it.
CLIQUE = "nvidia.com/gpu.clique"


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node that has joined the domain."""

    name: str
    clique: str = ""
    is_ready: bool = False


@dataclass(frozen=True, slots=True)
class ComputeDomain:
    namespace: str
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    #: How many nodes are to join; 0: that is not said.
    num_nodes: int = 0
    #: The ResourceClaimTemplate that the driver makes for its channels.
    template: str = ""
    is_ready: bool = False
    nodes: tuple[DomainNode, ...] = ()
    deleting: bool = False
    #: Why it cannot be read, in one sentence.
    problem: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
