"""Rules that pods have about nodes and about each other, drawn by lot."""

from collections.abc import Collection, Sequence

from oracle.case import NAMESPACES, Object
from oracle.draws import NAMESPACE_WORDS, POD_WORDS, RACK, REGION, TOPOLOGIES, ZONE, Draw, selector
from oracle.some_nodes import CALM, EFFECTS, TAINT_KEYS, TAINT_VALUES, UNSCHEDULABLE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TOPOLOGY_WEIGHTS = dict(zip(TOPOLOGIES, (4, 4, 2, 1), strict=True))


def is_soft(draw: Draw, features: Collection[str]) -> bool:
    """Is a rule rather a wish? In a calm cluster most are."""
    return "scores" in features and draw.chance(0.85 if CALM in features else 0.4)


# -- nodes ---------------------------------------------------------------------------------------


def tolerations(draw: Draw) -> list[Object]:
    if draw.chance(0.15):
        return [{"operator": "Exists"}]
    found = [_toleration(draw) for _ in range(draw.randint(1, 3))]
    if draw.chance(0.2):
        found.append({"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"})
    return found


def _toleration(draw: Draw) -> Object:
    found: Object = {"key": draw.one(TAINT_KEYS)}
    if draw.chance(0.5):
        found["operator"] = "Exists"
    else:
        found["value"] = draw.one(TAINT_VALUES)
    if draw.chance(0.6):
        found["effect"] = draw.one(EFFECTS)
    return found


def node_selector(draw: Draw) -> dict[str, str]:
    pairs = (("disk", "ssd"), ("disk", "hdd"), (RACK, "a"), (ZONE, "z1"), ("disk", "tape"))
    return dict([draw.one(pairs)])


def required_node_affinity(draw: Draw, names: Sequence[str], features: Collection[str]) -> Object:
    terms = [_node_term(draw, names) for _ in range(draw.randint(1, 2))]
    if "names" not in features and all(_names_nodes(term) for term in terms):
        terms[0] = {"matchExpressions": [_node_line(draw)]}
    return {"nodeSelectorTerms": terms}


def _names_nodes(term: Object) -> bool:
    return any(line["operator"] == "In" for line in term.get("matchFields", ()))


def preferred_node_affinity(draw: Draw, names: Sequence[str]) -> list[Object]:
    return [
        {"weight": draw.randint(1, 100), "preference": _node_term(draw, names)}
        for _ in range(draw.randint(1, 3))
    ]


def _node_term(draw: Draw, names: Sequence[str]) -> Object:
    if draw.chance(0.06):
        return {}
    term: Object = {}
    if draw.chance(0.75):
        term["matchExpressions"] = [_node_line(draw) for _ in range(draw.randint(1, 2))]
    if draw.chance(0.2) or not term:
        named = draw.one((*names, "n0", "nowhere"))
        operator = draw.one(("In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [named]}]
    return term


def _node_line(draw: Draw) -> Object:
    key = draw.one(("disk", RACK, ZONE, REGION, "rank", "rank", "rank", "colour"))
    values = {
        "disk": ("ssd", "hdd"),
        RACK: ("a", "b"),
        ZONE: ("z1", "z2", "z3"),
        REGION: ("r1", "r2"),
        "rank": ("1", "3", "7"),
        "colour": ("red",),
    }[key]
    operators = (
        "In",
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        *(("Gt", "Gt", "Lt", "Lt") * (key == "rank")),
    )
    operator = draw.one(operators)
    line: Object = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        line["values"] = draw.some(values, 1, 2)
    elif operator in ("Gt", "Lt"):
        line["values"] = [draw.one(("0", "2", "3", "07"))]
    return line


# -- other pods ----------------------------------------------------------------------------------


def pod_affinity(draw: Draw, features: Collection[str], *, anti: bool) -> Object:
    """Of one direction: required terms, preferred ones where scores are compared, or both."""
    soft = is_soft(draw, features)
    found: Object = {}
    if not soft or draw.chance(0.3):
        found[REQUIRED] = [_pod_term(draw, anti=anti) for _ in range(draw.weighted({1: 4, 2: 1}))]
    if soft:
        found[PREFERRED] = preferred_pod_terms(draw)
    return found


def preferred_pod_terms(draw: Draw) -> list[Object]:
    return [
        {"weight": draw.randint(1, 100), "podAffinityTerm": _pod_term(draw, anti=False)}
        for _ in range(draw.randint(1, 2))
    ]


def _pod_term(draw: Draw, *, anti: bool) -> Object:
    term: Object = {"topologyKey": draw.weighted(_TOPOLOGY_WEIGHTS)}
    if draw.chance(0.95):
        term["labelSelector"] = selector(draw, POD_WORDS, exact=0.75 if anti else 0.6)
    if draw.chance(0.15):
        term["namespaces"] = draw.some(NAMESPACES, 1, 2)
    if draw.chance(0.35):
        term["namespaceSelector"] = (
            {} if draw.chance(0.15) else selector(draw, NAMESPACE_WORDS, exact=0.3)
        )
    if draw.chance(0.12):
        term["labelSelector"] = {"matchLabels": {"app": draw.one(POD_WORDS["app"])}}
        term[draw.one(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    return term


def spread(draw: Draw, features: Collection[str]) -> list[Object]:
    keys = draw.some(TOPOLOGIES, 1, draw.weighted({1: 3, 2: 1}))
    return [_spread(draw, key, features) for key in keys]


def _spread(draw: Draw, key: str, features: Collection[str]) -> Object:
    soft = is_soft(draw, features)
    rule: Object = {
        "topologyKey": key,
        "maxSkew": draw.weighted({1: 5, 2: 3, 3: 1}),
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
    }
    if draw.chance(0.95):
        rule["labelSelector"] = selector(draw, POD_WORDS, exact=0.75)
    if not soft and draw.chance(0.3):
        rule["minDomains"] = draw.randint(1, 4)
    if draw.chance(0.25):
        rule["nodeAffinityPolicy"] = draw.one(("Honor", "Ignore"))
    if draw.chance(0.35):
        rule["nodeTaintsPolicy"] = draw.one(("Honor", "Honor", "Ignore"))
    if draw.chance(0.12):
        rule["labelSelector"] = {"matchLabels": {"app": draw.one(POD_WORDS["app"])}}
        rule["matchLabelKeys"] = ["version"]
    return rule
