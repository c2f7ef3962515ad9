"""Two answers about one pod: do they agree, up to ties?"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from fairlead.placement.explain import Explanation
from oracle.answers import Answer
from oracle.case import Case, Object, nominated
from oracle.eviction import burden
from oracle.judge import best_nodes, feasible_nodes, message


@dataclass(frozen=True)
class Difference:
    """`kind` is what differs, in a word; the minimiser keeps to one kind."""

    kind: str
    text: str
    probe: Object
    theirs: Answer
    ours: Answer


def difference(
    case: Case,
    probe: Object,
    theirs: Answer,
    ours: Answer,
    judged: Explanation,
    failures: Collection[str] = (),
) -> Difference | None:
    """What is not as kube-scheduler has it; None where the two agree.

    `failures` are what a filter says of each node on which it fails: each side tells one of them.
    """
    if theirs.message in failures and ours.message in failures:
        ours = replace(ours, condition=theirs.condition, event=theirs.event)
    found = (
        _differs(theirs, ours, judged, nominated(probe))
        or _other_devices(theirs, ours)
        or _other_victims(case, theirs, ours)
    )
    return found and Difference(*found, probe, theirs, ours)


def _other_devices(theirs: Answer, ours: Answer) -> tuple[str, str] | None:
    if theirs.claims == ours.claims:
        return None
    told = ["".join(f"\n        {each}" for each in side.claims) for side in (theirs, ours)]
    return "devices", f"kube-scheduler on {theirs.node}: {told[0]}\n      Fairlead: {told[1]}"


def _differs(
    theirs: Answer, ours: Answer, judged: Explanation, nomination: str
) -> tuple[str, str] | None:
    if theirs.verdict != ours.verdict:
        return "verdict", f"kube-scheduler: {_told(theirs)}\n      Fairlead: {_told(ours)}"
    if theirs.verdict == "placed":
        sides = ((theirs.node, "kube-scheduler"), (ours.node, "Fairlead"))
        found = (_wrong_node(node, side, judged, nomination) for node, side in sides)
        return next(filter(None, found), None)
    for kind in ("condition", "event"):
        told, we_told = getattr(theirs, kind), getattr(ours, kind)
        for field in told:
            if told[field] != we_told.get(field):
                return (
                    f"{kind} {field}",
                    f"kube-scheduler: {told[field]}\n      Fairlead: {we_told.get(field)}",
                )
    return None


def _wrong_node(
    node: str, side: str, judged: Explanation, nomination: str
) -> tuple[str, str] | None:
    if node not in feasible_nodes(judged):
        why = next((f"{a.rule} {a.reasons}" for a in judged.nodes if a.node == node), "")
        why = why or message(judged)  # no node was looked at
        return "feasible", f"{side} chose {node}, which Fairlead refuses: {why}"
    if node not in best_nodes(judged, nomination):
        scores = {a.node: a.score for a in judged.nodes if a.score is not None}
        return "score", f"{side} chose {node}, and Fairlead's scores are {scores}"
    return None


def _other_victims(case: Case, theirs: Answer, ours: Answer) -> tuple[str, str] | None:
    if theirs.nominated == ours.nominated:
        same = theirs.victims == ours.victims and theirs.cleared == ours.cleared
    else:
        same = burden(case, theirs.victims) == burden(case, ours.victims)
    if same:
        return None
    told = [_harm(answer) for answer in (theirs, ours)]
    return "victims", f"kube-scheduler evicts {told[0]}\n      Fairlead evicts {told[1]}"


def _harm(answer: Answer) -> str:
    victims, cleared = (", ".join(map("/".join, keys)) for keys in (answer.victims, answer.cleared))
    return f"on {answer.nominated}: {victims}; clears nominations of: {cleared}"


def _told(answer: Answer) -> str:
    return f"{answer.verdict} {answer.node or answer.message}"
