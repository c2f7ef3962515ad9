"""What an explanation says about the gang of a pod, as data and as text."""

from collections.abc import Iterator
from typing import Any

from fairlead.engine.gang_outlook import GangOutlook, MemberOutlook

#: Members that are listed one by one.
MOST_LISTED = 200


def gang_answer(
    found: GangOutlook, namespace: str, *, nodes: bool = True, pods: bool = True
) -> dict[str, Any]:
    """`nodes` and `pods`: whether they are named; pods of this namespace always are."""
    named = [each for each in found.members if pods or each.pod.namespace == namespace]
    with_node = sum(member.has_node for member in found.members)
    return {
        "name": found.spec.name,
        "dialect": found.spec.key.partition("/")[0],
        "state": found.state,
        "message": found.message,
        "minimum": found.spec.minimum,
        "maximum": found.spec.maximum,
        "withNode": with_node,
        "finished": found.finished,
        "pending": len(found.members) - with_node,
        "stillNeeded": found.needed,
        "members": [_member(member, nodes=nodes) for member in named[:MOST_LISTED]],
        "membersLeftOut": len(found.members) - len(named[:MOST_LISTED]),
        "remedies": list(found.remedies),
    }


def _member(member: MemberOutlook, *, nodes: bool) -> dict[str, Any]:
    said = member.pod.gang
    state = "bound" if member.has_node else "would fit" if member.node else "waits"
    return {
        "pod": member.pod.key,
        "group": said.group if said else "",
        "rank": said.rank if said else None,
        "state": state,
        "node": member.node if nodes else "",
    }


def gang_lines(gang: dict[str, Any]) -> Iterator[str]:
    """The answer as text."""
    yield (
        f"gang {gang['name']} ({gang['dialect']}): minimum {gang['minimum']}, "
        f"{gang['withNode']} with a node, {gang['finished']} finished, {gang['pending']} pending"
    )
    rows = [("MEMBER", "GROUP", "STATE", "NODE")]
    rows += [(each["pod"], each["group"] or "-", each["state"], each["node"] or "-")
             for each in gang["members"]]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows if gang["members"] else ():
        yield "  ".join(f"{text:{width}}" for text, width in zip(row, (*widths, 0), strict=True))
    if gang["membersLeftOut"]:
        yield f"and {gang['membersLeftOut']} other members"
    yield from (f"what would help: {remedy}" for remedy in gang["remedies"])
