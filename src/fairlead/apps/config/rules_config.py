"""`rules:` of the configuration: on which nodes pods of some namespaces may run.

rules:
  - name: eu-only
    namespaces: [finance, "hr-*"]
    nodes: node.labels[?"example.node-restriction.kubernetes.io/region"].orValue("") == "eu"
    message: personal data stays in the EU
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from fairlead.apps.config.findings import Finding
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.rules import NodeRule

#: More rules would take too long for each new kind of pod.
_MOST_RULES = 32
#: Labels of a node that its kubelet cannot write, by the admission plugin NodeRestriction.
_PROTECTED = "node-restriction.kubernetes.io/"
_LABEL = re.compile(r"""node\.labels\s*\[\s*\??\s*(['"])(.+?)\1|node\.labels\.\??(\w+)""")

RuleName = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]


class RuleConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: RuleName
    nodes: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    namespaces: list[RuleName] = msgspec.field(default_factory=list)
    pod_labels: dict[str, str] = msgspec.field(default_factory=dict)
    message: Annotated[str, msgspec.Meta(max_length=200)] = ""

    def rule(self) -> NodeRule:
        from fairlead.plugins.rule_expressions import compiled

        try:
            compiled(self.nodes)
        except FairleadError as error:
            raise ConfigError(f"rule {self.name!r}: {error}") from None
        labels = tuple(sorted(self.pod_labels.items()))
        return NodeRule(self.name, self.nodes, tuple(self.namespaces), labels, self.message)


def node_rules(found: Sequence[RuleConfig]) -> tuple[NodeRule, ...]:
    """Raises ConfigError."""
    if len(found) > _MOST_RULES:
        raise ConfigError(f"there are {len(found)} rules; write at most {_MOST_RULES}")
    twice = [name for name, count in Counter(each.name for each in found).items() if count > 1]
    if twice:
        raise ConfigError(f"two rules have the name {twice[0]!r}; rename one")
    return tuple(each.rule() for each in found)


def rule_warnings(found: Sequence[RuleConfig]) -> Iterator[Finding]:
    for each in found:
        keys = (match[1] or match[2] for match in _LABEL.findall(each.nodes))
        if weak := [key for key in keys if _PROTECTED not in key]:
            yield Finding(
                f"rules.{each.name}",
                f"a kubelet can write the label {weak[0]} of its own node; for compliance, use "
                f"labels with the prefix {_PROTECTED}",
            )
