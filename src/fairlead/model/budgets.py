"""A pod disruption budget: how many pods of a kind may still be disturbed."""

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class Budget:
    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    selector: LabelSelector | None = None
    #: Evictions that it still allows (`status.disruptionsAllowed`).
    allowed: int = 0
    #: Names of pods whose eviction was granted already, and is counted.
    disrupted: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def protects(self, pod: Pod) -> bool:
        """Would evicting this pod use up some of the budget?"""
        if pod.namespace != self.namespace or not pod.labels or pod.name in self.disrupted:
            return False
        # Without any line the selector selects no pod, other than elsewhere in Kubernetes.
        return (
            self.selector is not None
            and bool(self.selector.lines)
            and self.selector.matches(pod.labels)
        )

    def protects_less_than(self, other: "Budget") -> bool:
        """Whether pods may be evicted now that might not be by the other one; perhaps none."""
        return (
            self.allowed > other.allowed
            or self.selector != other.selector
            or not self.disrupted <= other.disrupted
        )
