"""Rules about nodes that administrators and users write as expressions."""

from fairlead.model.lazy_dataclass import dataclass

#: A rule of a user, about the nodes of one pod.
NODE_RULE = "fairlead.dev/node-rule"
LONGEST_RULE = 1024
#: In front of a key that a plugin reads of pods: of their labels alone, never of annotations.
LABEL_ONLY = "label "


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Pods that it is about run only on nodes for which the expression is true."""

    name: str
    expression: str
    #: Its pods: of these namespaces ("team-*": those that begin so), with all of these labels.
    namespaces: tuple[str, ...] = ()
    pod_labels: tuple[tuple[str, str], ...] = ()
    #: What is said to users about nodes that it refuses.
    message: str = ""

    @property
    def refusal(self) -> str:
        why = f" ({self.message})" if self.message else ""
        return f"node(s) didn't match the rule {self.name}{why}"
