"""Scenes about other pods: who must be near, who must not, and how evenly they are spread."""

from typing import Any

from filter_scenes import Scene
from tables import Body, apart, lines, near, node, on_nodes, pod, selector, spread, term

NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
MINDED = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"

# One region, one zone, two hosts; and a third host elsewhere.
PLACES = {
    "a": node("region=r zone=z1 host=a"),
    "b": node("region=r zone=z1 host=b"),
    "c": node("region=q zone=z2 host=c"),
}
TWINS = {name: PLACES[name] for name in "ab"}
WEB = pod("app=web tier=front", on="a")


AFFINITY = {
    "near a pod, by value": Scene(
        PLACES, pod(affinity=near(term("zone", "app=web"))), fits="a b", there=(WEB,)
    ),
    "near a pod, on the very host": Scene(
        PLACES, pod(affinity=near(term("host", "app=web"))), fits="a", there=(WEB,)
    ),
    "near a pod that has not this value": Scene(
        PLACES, pod(affinity=near(term("zone", "app NotIn db"))), fits="a b", there=(WEB,)
    ),
    "near nobody who is there": Scene(
        PLACES, pod(affinity=near(term("zone", "app=db"))), refused=NOT_NEAR, there=(WEB,)
    ),
    "near a pod, where nodes lack the key": Scene(
        PLACES, pod(affinity=near(term("rack", "app=web"))), refused=NOT_NEAR, there=(WEB,)
    ),
    "near a pod of another namespace, which is not named": Scene(
        PLACES, pod(affinity=near(term("zone", "app=web"))), refused=NOT_NEAR,
        there=(pod("app=web", on="a", namespace="@other"),), namespaces={"other": ""},
    ),
    "near a pod of another namespace, which is named": Scene(
        PLACES, pod(affinity=near(term("zone", "app=web", namespaces=["@other"]))), fits="a b",
        there=(pod("app=web", on="a", namespace="@other"),), namespaces={"other": ""},
    ),
    "several lines mean the pod only together": Scene(
        PLACES, pod(affinity=near(term("zone", "app=web", "tier=back"))), refused=NOT_NEAR,
        there=(WEB,),
    ),
    "several terms about one pod": Scene(
        PLACES,
        pod(affinity=near(
            term("region", "app Exists", "old DoesNotExist"),
            term("host", "app=web", "app NotIn db"),
        )),
        fits="a", there=(WEB,),
    ),
    "several terms that no single pod meets": Scene(
        PLACES, pod(affinity=near(term("zone", "app=web"), term("zone", "app=db"))),
        refused=NOT_NEAR, there=(WEB, pod("app=db", on="b")),
    ),
    "the first of its kind": Scene(
        PLACES, pod("app=web", affinity=near(term("zone", "app=web"))), fits="a b c"
    ),
    "the second of its kind": Scene(
        PLACES, pod("app=web", affinity=near(term("host", "app=web"))), fits="a", there=(WEB,)
    ),
    "the first of its kind still needs the key": Scene(
        PLACES, pod("app=web", affinity=near(term("rack", "app=web"))), refused=NOT_NEAR
    ),
    "the first of its kind in this namespace": Scene(
        PLACES, pod("app=web", affinity=near(term("host", "app=web"))), fits="a b c",
        there=(pod("app=web", on="a", namespace="@other"),), namespaces={"other": ""},
    ),
    "near and apart at once": Scene(
        PLACES,
        pod(affinity=near(term("zone", "app=web")) | apart(term("host", "app=web"))),
        fits="b", there=(WEB,),
    ),
    "near one, apart from another who is everywhere near": Scene(
        PLACES, pod(affinity=near(term("zone", "app=web")) | apart(term("zone", "app=db"))),
        refused=TOO_NEAR, there=(WEB, pod("app=db", on="b")),
    ),
    "near, apart, and minded by nobody": Scene(
        PLACES,
        pod("app=me", affinity=near(term("zone", "app=web")) | apart(term("zone", "app=db"))),
        fits="a b",
        there=(pod("app=web", on="a", affinity=apart(term("host", "app=db"))),),
    ),
    "near and apart, but minded": Scene(
        TWINS,
        pod("app=me", affinity=near(term("zone", "app=web")) | apart(term("zone", "app=db"))),
        refused=MINDED,
        there=(pod("app=web", on="a", affinity=apart(term("zone", "app=me"))),),
    ),
    "apart from nobody": Scene(
        TWINS, pod(affinity=apart(term("zone", "app=db"))), fits="a b", there=(WEB,)
    ),
    "apart, where both hosts are one zone": Scene(
        TWINS, pod(affinity=apart(term("zone", "app=web"))), refused=TOO_NEAR, there=(WEB,)
    ),
    "apart, and the other zone is free": Scene(
        PLACES, pod(affinity=apart(term("zone", "app=web"))), fits="c", there=(WEB,)
    ),
    "apart by either of two terms": Scene(
        PLACES, pod(affinity=apart(term("host", "app=web"), term("zone", "app=db"))), fits="b",
        there=(WEB, pod("app=db", on="c")),
    ),
    "apart by a key that no node has": Scene(
        TWINS, pod(affinity=apart(term("rack", "app=web"))), fits="a b", there=(WEB,)
    ),
    "minded by a pod that is there": Scene(
        TWINS, pod("app=me"), refused=MINDED,
        there=(pod(on="a", affinity=apart(term("zone", "app=me"))),),
    ),
    "minded on one host only": Scene(
        TWINS, pod("app=me"), fits="b",
        there=(pod(on="a", affinity=apart(term("host", "app=me"))),),
    ),
    "minded, had it that label": Scene(
        TWINS, pod("app=me"), fits="a b",
        there=(pod(on="a", affinity=apart(term("zone", "app=you"))),),
    ),
    "minded in the other's namespace only": Scene(
        TWINS, pod("app=me"), fits="a b", namespaces={"other": ""},
        there=(pod(on="a", namespace="@other", affinity=apart(term("zone", "app=me"))),),
    ),
    "minded by name of the namespace": Scene(
        TWINS, pod("app=me"), refused=MINDED, namespaces={"other": ""},
        there=(
            pod(on="a", namespace="@other",
                affinity=apart(term("zone", "app=me", namespaces=["@home"]))),
        ),
    ),
    "a pod that is being deleted is still minded": Scene(
        TWINS, pod(affinity=apart(term("zone", "app=web"))), refused=TOO_NEAR,
        there=(pod("app=web", on="a", metadata={"finalizers": ["x.dev/hold"], "gone": True}),),
    ),
}  # fmt: skip

ODD = (pod("app=web team=one", on="a"), pod("app=web team=two", on="a"))
KEYS = {
    "apart from those of the same team": Scene(
        TWINS, pod("app=web team=me", affinity=apart(
            term("zone", "app Exists", matchLabelKeys=["team"]))),
        fits="a b", there=ODD,
    ),
    "apart from those of my team": Scene(
        TWINS, pod("app=web team=one", affinity=apart(
            term("zone", "app Exists", matchLabelKeys=["team"]))),
        refused=TOO_NEAR, there=ODD,
    ),
    "apart from other teams": Scene(
        TWINS, pod("app=web team=one", affinity=apart(
            term("zone", "app Exists", mismatchLabelKeys=["team"]))),
        fits="a b", there=ODD[:1],
    ),
    "apart from other teams, and there is one": Scene(
        TWINS, pod("app=web team=one", affinity=apart(
            term("zone", "app Exists", mismatchLabelKeys=["team"]))),
        refused=TOO_NEAR, there=ODD,
    ),
    "near those of the same team": Scene(
        PLACES, pod("app=web team=two", affinity=near(
            term("host", "app Exists", matchLabelKeys=["team"]))),
        fits="c", there=(ODD[0], pod("app=web team=two", on="c")),
    ),
    "near those of other teams": Scene(
        PLACES, pod("app=web team=two", affinity=near(
            term("host", "app Exists", mismatchLabelKeys=["team"]))),
        fits="a", there=(ODD[0], pod("app=web team=two", on="c")),
    ),
}  # fmt: skip

TEAMS = {"red": "team=red", "green": "team=green"}
RED_POD = pod("app=web", on="a", namespace="@red")


def of_team(team: str, key: str = "zone") -> Body:
    return term(key, "app=web", namespaceSelector=selector(f"team={team}"))


NAMESPACES = {
    "near a pod of a namespace with a label": Scene(
        PLACES, pod(affinity=near(of_team("red"))), fits="a b", there=(RED_POD,), namespaces=TEAMS
    ),
    "near a pod, but its namespace has another label": Scene(
        PLACES, pod(affinity=near(of_team("green"))), refused=NOT_NEAR, there=(RED_POD,),
        namespaces=TEAMS,
    ),
    "apart from the pods of a namespace with a label": Scene(
        PLACES, pod(affinity=apart(of_team("red"))), fits="c", there=(RED_POD,), namespaces=TEAMS
    ),
    "apart from the pods of other namespaces": Scene(
        PLACES, pod(affinity=apart(of_team("green"))), fits="a b c", there=(RED_POD,),
        namespaces=TEAMS,
    ),
    "near a pod of whatever namespace": Scene(
        PLACES, pod(affinity=near(term("host", "app=web", namespaceSelector={}))), fits="a",
        there=(RED_POD,), namespaces=TEAMS,
    ),
    "named namespaces and those with a label": Scene(
        PLACES,
        pod(affinity=near(
            term("host", "app=web", namespaces=["@green"], namespaceSelector=selector("team=red"))
        )),
        fits="a", there=(RED_POD,), namespaces=TEAMS,
    ),
    "minded from a namespace, by the label of mine": Scene(
        TWINS, pod("app=web", namespace="@red"), refused=MINDED, namespaces=TEAMS,
        there=(pod(on="a", affinity=apart(of_team("red"))),),
    ),
    "minded from a namespace, by the label of another": Scene(
        TWINS, pod("app=web", namespace="@green"), fits="a b", namespaces=TEAMS,
        there=(pod(on="a", affinity=apart(of_team("red"))),),
    ),
}  # fmt: skip

# Four hosts, two in each zone.
FOUR = {
    "a": node("zone=z1 host=a"), "b": node("zone=z1 host=b"),
    "c": node("zone=z2 host=c"), "d": node("zone=z2 host=d"),
}  # fmt: skip
THREE_OF_FOUR = on_nodes(lines("host NotIn a"))
# As four, but `c` is no place for the pod, by label or by taint.
PICKY = {**{name: node(f"zone=z{1 + (name > 'b')} host={name} ok") for name in "abd"},
         "c": node("zone=z2 host=c")}  # fmt: skip
CLOSED = {**FOUR, "c": node("zone=z2 host=c", taints="closed:NoSchedule")}
BOTH = {**PICKY, "b": node("zone=z1 host=b ok", taints="closed:NoSchedule")}
IGNORE, HONOR = {"nodeAffinityPolicy": "Ignore"}, {"nodeTaintsPolicy": "Honor"}


def webs(hosts: str, labels: str = "app=web") -> tuple[Body, ...]:
    return tuple(pod(labels, on=host) for host in hosts)


def even(*rules: Body, labels: str = "app=web", **more: Any) -> Body:
    return pod(labels, topologySpreadConstraints=list(rules), **more)


SPREAD = {
    "one host is behind": Scene(FOUR, even(spread("host", "app=web")), "c", there=webs("abd")),
    "one host is two ahead": Scene(
        FOUR, even(spread("host", "app=web", skew=2)), fits="b c d", there=webs("aad")
    ),
    "only where it may go": Scene(
        FOUR, even(spread("host", "app=web"), affinity=on_nodes(lines("zone=z1"))), fits="b",
        there=webs("ad"),
    ),
    "zones and hosts at once": Scene(
        FOUR, even(spread("zone", "app=web"), spread("host", "app=web")), fits="c",
        there=webs("abdd"),
    ),
    "zones against hosts": Scene(
        FOUR,
        even(spread("zone", "app=web"), spread("host", "app=web"), affinity=THREE_OF_FOUR),
        refused=UNEVEN, there=webs("bbccd"),
    ),
    "too few hosts for minDomains": Scene(
        FOUR, even(spread("host", "app=web", skew=2, minDomains=4), affinity=THREE_OF_FOUR),
        fits="d", there=webs("bbccd"),
    ),
    "enough hosts for minDomains": Scene(
        FOUR, even(spread("host", "app=web", skew=2, minDomains=2), affinity=THREE_OF_FOUR),
        fits="b c d", there=webs("bbccd"),
    ),
    "too few zones for minDomains": Scene(
        FOUR, even(spread("zone", "app=web", skew=2, minDomains=3)), fits="c d",
        there=webs("abc"),
    ),
    "enough zones for minDomains": Scene(
        FOUR, even(spread("zone", "app=web", skew=2, minDomains=1)), fits="a b c d",
        there=webs("bcd"),
    ),
    "no domain is empty enough for minDomains": Scene(
        FOUR, even(spread("zone", "app=web", minDomains=3)), refused=UNEVEN, there=webs("ac")
    ),
    "nodes it cannot go to do not count, as a rule": Scene(
        PICKY, even(spread("zone", "app=web"), nodeSelector={"ok": ""}), fits="d",
        there=webs("abcd"),
    ),
    "nodes it cannot go to count, if told so": Scene(
        PICKY, even(spread("zone", "app=web", **IGNORE), nodeSelector={"ok": ""}), fits="a b",
        there=webs("acd"),
    ),
    "tainted nodes count, as a rule": Scene(
        CLOSED, even(spread("zone", "app=web")), fits="a b d", there=webs("abcd")
    ),
    "tainted nodes do not count, if told so": Scene(
        CLOSED, even(spread("zone", "app=web", **HONOR)), fits="d", there=webs("abcd")
    ),
    "two rules, and both look at where it may go": Scene(
        BOTH,
        even(spread("zone", "app=web"), spread("host", "app=web"), nodeSelector={"ok": ""}),
        fits="d", there=webs("abcd"),
    ),
    "two rules, of which one looks at nothing, and one at both": Scene(
        BOTH,
        even(
            spread("zone", "app=web", **IGNORE), spread("host", "app=web", **HONOR),
            nodeSelector={"ok": ""},
        ),
        fits="a d", there=webs("abcd"),
    ),
    "those of the same version": Scene(
        FOUR,
        even(spread("zone", "app Exists", matchLabelKeys=["version"]), labels="app=web version=2"),
        fits="a b", there=(*webs("ab"), *webs("c", "app=web version=2")),
    ),
    "those of the same version, without another selector": Scene(
        FOUR, even(spread("zone", matchLabelKeys=["app"])), fits="c d", there=webs("abc")
    ),
    "a version that the pod itself has not": Scene(
        FOUR, even(spread("zone", "app Exists", matchLabelKeys=["version"])), fits="c d",
        there=webs("abc"),
    ),
    "pods of another namespace do not count": Scene(
        FOUR, even(spread("zone", "app=web")), fits="a b c d", namespaces={"other": ""},
        there=(pod("app=web", on="a", namespace="@other"), *webs("c"), *webs("b")),
    ),
    "a pod that is not counted itself": Scene(
        FOUR, even(spread("zone", "app=web"), labels="app=db"), fits="a b c d", there=webs("a")
    ),
    "a node without the key": Scene(
        {"a": node()}, even(spread("zone", "app=web")), refused=f"{UNEVEN} (missing required label)"
    ),
    "a node without one of two keys": Scene(
        {"a": node("zone=z1"), "b": node("zone=z2 host=b")},
        even(spread("zone", "app=web"), spread("host", "app=web")), fits="b",
    ),
    "pods on their way out do not count": Scene(
        FOUR, even(spread("zone", "app=web")), fits="a b c d",
        there=(pod("app=web", on="a", metadata={"finalizers": ["x.dev/hold"], "gone": True}),),
    ),
    "a soft rule refuses nobody": Scene(
        {"a": node("zone=z1"), "b": node("zone=z2", room="cpu=0")},
        pod("app=web", "cpu=1", topologySpreadConstraints=[
            spread("zone", "app=web", whenUnsatisfiable="ScheduleAnyway"),
        ]),
        fits="a", there=webs("aa"),
    ),
}  # fmt: skip

SCENES = {
    f"{rule}: {name}": scene
    for rule, scenes in {
        "other pods": AFFINITY, "label keys": KEYS, "namespaces": NAMESPACES, "spread": SPREAD,
    }.items()
    for name, scene in scenes.items()
}  # fmt: skip
