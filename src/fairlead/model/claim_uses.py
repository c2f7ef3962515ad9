"""What a pod says about its resource claims, as far as placing it is concerned."""

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """An entry of `spec.resourceClaims` that the pod needs."""

    entry: str
    #: "namespace/name" of the claim; empty while it is not made from its template yet.
    key: str
    #: Key and uid of the pod that the claim must have been made for; empty when any pod may use it.
    pod: str = ""
    owner: str = ""
    #: The template that the claim is made from; empty: the pod names the claim itself.
    template: str = ""
    #: "namespace/name" of the PodGroup of the pod: the claim may be one of all of its pods.
    group: str = ""

    @property
    def name(self) -> str:
        """Of the claim."""
        return self.key.partition("/")[2]
