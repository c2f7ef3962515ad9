"""The annotation by which the author of a pod restricts its nodes."""

from fairlead.model.errors import FairleadError
from fairlead.model.rules import LONGEST_RULE, NODE_RULE


def read_node_rule(text: str) -> str:
    """The expression, if it can be evaluated. Raises FairleadError."""
    from fairlead.plugins.rule_expressions import compiled

    if len(text) > LONGEST_RULE:
        raise FairleadError(f"{NODE_RULE} has more than {LONGEST_RULE:,} characters")
    try:
        compiled(text)
    except FairleadError as error:
        raise FairleadError(f"{NODE_RULE}: {error}") from None
    return text
