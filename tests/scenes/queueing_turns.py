"""Rows of the queueing table: a pod is refused, something happens, and it tries again or not."""

from dataclasses import dataclass, field
from typing import Any

import happenings as then
from filter_scenes_nodes import CORDONED, GPU, NO_MATCH, NO_PORT, TAINTED
from filter_scenes_pods import MINDED, NOT_NEAR, TOO_NEAR, UNEVEN
from happenings import Happening
from tables import (
    Body,
    apart,
    lines,
    listens,
    near,
    node,
    on_nodes,
    pod,
    port,
    selector,
    spread,
    term,
    tolerates,
)  # fmt: skip

#: What follows: the pod is bound; or it tries and is refused again; or nothing at all.
BOUND, TRIES, QUIET = "bound", "tries", "quiet"


@dataclass(frozen=True)
class Turn:
    """A pod that is refused in words that contain `because`, what happens, and what follows.

    `kube` is what follows with kube-scheduler where that differs: Fairlead is lazier when it can
    see that an attempt would be in vain, and keener where kube-scheduler would let a pod wait for
    five minutes though it could run. `kube_1_36` is what follows where only that version differs.
    """

    nodes: dict[str, Body]
    asks: Body
    because: str
    happens: Happening
    follows: str = BOUND
    kube: str = ""
    kube_1_36: str = ""
    there: tuple[Body, ...] = ()
    namespaces: dict[str, str] = field(default_factory=dict)
    objects: tuple[tuple[str, Body], ...] = ()


RED = {"a": node(taints="colour=red:NoSchedule")}
LIKES_RED = [tolerates("colour=red:NoSchedule")]
LIKES_CORDONS = [tolerates("node.kubernetes.io/unschedulable:NoSchedule", "Exists")]

SHORT = "Insufficient cpu"
SMALL = {"a": node(room="cpu=2 memory=2Gi")}
TWO_SMALL = {"a": node(room="cpu=2"), "b": node(room="cpu=2")}
FULL = (pod("", "cpu=2", on="a"),)
BIG = pod("", "cpu=2")
HUGE = pod("", "cpu=4")
FIT = {
    "a pod goes": Turn(SMALL, BIG, SHORT, then.goes("there-0"), there=FULL),
    "a pod ends": Turn(SMALL, BIG, SHORT, then.ends("there-0"), there=FULL),
    "a pod goes, and too little with it": Turn(
        SMALL, BIG, SHORT, then.goes("there-1"), QUIET, kube=TRIES,  # lazier
        there=(pod("", "cpu=1500m", on="a"), pod("", "cpu=500m", on="a")),
    ),
    "a pod goes that took nothing": Turn(
        SMALL, BIG, SHORT, then.goes("there-1"), QUIET, kube=TRIES,  # lazier
        there=(*FULL, pod(on="a")),
    ),
    "a pod shrinks": Turn(
        SMALL, pod("", "cpu=1"), SHORT, then.resized("there-0", "cpu=1"), there=FULL
    ),
    "a pod shrinks in what nobody asks for": Turn(
        SMALL, pod("", "cpu=1"), SHORT, then.resized("there-0", "cpu=2 memory=1Mi"), QUIET,
        there=(pod("", "cpu=2 memory=1Gi", on="a"),),
    ),
    "the pod itself shrinks": Turn(SMALL, HUGE, SHORT, then.resized("asks", "cpu=1")),
    "a large node comes": Turn(SMALL, HUGE, SHORT, then.node_comes("b", node())),
    "a small node comes": Turn(SMALL, HUGE, SHORT, then.node_comes("b", node(room="cpu=2")), QUIET),
    "a large node comes that is not for it": Turn(
        SMALL, HUGE, SHORT, then.node_comes("b", node(taints="x:NoSchedule")), QUIET,
        kube=TRIES,  # lazier
    ),
    "that node loses its taint": Turn(
        {**SMALL, "b": node(taints="x:NoSchedule")}, HUGE, SHORT, then.tainted("b")
    ),
    "a taint goes that it tolerates": Turn(
        {"a": node(room="cpu=2", taints="colour=red:NoSchedule")},
        pod("", "cpu=4", tolerations=LIKES_RED), SHORT, then.tainted("a"), QUIET, kube_1_36=TRIES,
    ),
    "a cordon is lifted that it tolerates": Turn(
        {"a": node(room="cpu=2", cordoned=True)}, pod("", "cpu=4", tolerations=LIKES_CORDONS),
        SHORT, then.cordoned("a", now=False), QUIET, kube_1_36=TRIES,
    ),
    "a node grows": Turn(SMALL, HUGE, SHORT, then.room_changed("a", "cpu=4")),
    "a node grows, but not enough": Turn(
        SMALL, HUGE, SHORT, then.room_changed("a", "cpu=3"), QUIET
    ),
    "a node grows in what nobody asks for": Turn(
        SMALL, HUGE, SHORT, then.room_changed("a", "memory=4Gi"), QUIET
    ),
    "a node takes more pods": Turn(
        {"a": node(room="pods=1")}, pod(), "Too many pods", then.room_changed("a", "pods=2"),
        there=(pod(on="a"),),
    ),
    "a node takes more pods, but has no more GPUs": Turn(
        {"a": node(room=f"pods=5 {GPU}=1")}, pod("", f"{GPU}=2"), GPU,
        then.room_changed("a", "pods=9"), QUIET,
    ),
    "GPUs are found": Turn(
        {"a": node()}, pod("", f"{GPU}=2"), GPU, then.room_changed("a", f"{GPU}=4")
    ),
    "a label changes": Turn(SMALL, HUGE, SHORT, then.node_labelled("a", "disk=ssd"), QUIET),
    "a heartbeat": Turn(SMALL, HUGE, SHORT, then.heartbeat("a"), QUIET),
    "a pod comes": Turn(
        TWO_SMALL, HUGE, SHORT, then.pod_comes("more", pod("", "cpu=1", on="b")), QUIET
    ),
    "a node goes": Turn(TWO_SMALL, HUGE, SHORT, then.node_goes("b"), QUIET),
}  # fmt: skip

SSD = {"disk": "ssd"}
ON_SSD = pod(nodeSelector=SSD)
HDD = {"a": node("disk=hdd")}
NODE_AFFINITY = {
    "the label comes": Turn(HDD, ON_SSD, NO_MATCH, then.node_labelled("a", "disk=ssd")),
    "the label goes that must not be": Turn(
        HDD, pod(affinity=on_nodes(lines("disk DoesNotExist"))), NO_MATCH,
        then.node_labelled("a", "disk="),
    ),
    "the label takes yet another value": Turn(
        HDD, ON_SSD, NO_MATCH, then.node_labelled("a", "disk=tape"), QUIET
    ),
    "another label comes": Turn(HDD, ON_SSD, NO_MATCH, then.node_labelled("a", "rank=3"), QUIET),
    "a label comes to a node that matched before, but is too small": Turn(
        {"a": node("disk=ssd", room="cpu=2"), "b": node("disk=hdd")},
        pod("", "cpu=4", nodeSelector=SSD), NO_MATCH, then.node_labelled("a", "rank=3"), QUIET,
    ),
    "the label comes to a node that is too small": Turn(
        {"a": node("disk=hdd", room="cpu=2")}, pod("", "cpu=4", nodeSelector=SSD), NO_MATCH,
        then.node_labelled("a", "disk=ssd"), QUIET, kube=TRIES,  # lazier
    ),
    "a taint goes that it tolerates": Turn(
        {"a": node("disk=hdd", taints="colour=red:NoSchedule")},
        pod(nodeSelector=SSD, tolerations=LIKES_RED), NO_MATCH, then.tainted("a"), QUIET,
        kube_1_36=TRIES,
    ),
    "a node with the label comes": Turn(
        HDD, ON_SSD, NO_MATCH, then.node_comes("b", node("disk=ssd"))
    ),
    "a node with another label comes": Turn(
        HDD, ON_SSD, NO_MATCH, then.node_comes("b", node("disk=tape")), QUIET
    ),
    "the node of that name comes": Turn(
        HDD, pod(affinity=on_nodes([], fields=lines("metadata.name In @b"))), "0/1 nodes",
        then.node_comes("b", node()),
    ),
    "the node of that name grows": Turn(
        {"a": node(room="cpu=2"), "b": node()},
        pod("", "cpu=4", affinity=on_nodes([], fields=lines("metadata.name In @a"))), SHORT,
        then.room_changed("a", "cpu=8"),
    ),
}  # fmt: skip

TAINTS = {
    "the taint goes": Turn(RED, pod(), TAINTED, then.tainted("a")),
    "the taint becomes one that is tolerated": Turn(
        {"a": node(taints="colour=blue:NoSchedule")}, pod(tolerations=LIKES_RED), TAINTED,
        then.tainted("a", "colour=red:NoSchedule"),
    ),
    "the taint becomes another": Turn(
        RED, pod(), TAINTED, then.tainted("a", "colour=blue:NoSchedule"), QUIET
    ),
    "the taint goes from a node that is too small": Turn(
        {"a": node(room="cpu=2", taints="colour=red:NoSchedule")}, HUGE, TAINTED,
        then.tainted("a"), QUIET, kube=TRIES,  # lazier
    ),
    "the pod itself tolerates it now": Turn(
        RED, pod(), TAINTED, then.own({"spec": {"tolerations": LIKES_RED}})
    ),
    "the pod itself tolerates something else": Turn(
        RED, pod(), TAINTED,
        then.own({"spec": {"tolerations": [tolerates("size=big:NoSchedule")]}}), TRIES,
    ),
    "the pod itself gets a label": Turn(
        RED, pod(), TAINTED, then.own({"metadata": {"labels": {"x": "y"}}}), TRIES, kube=QUIET
    ),  # keener: a user's plugin may read labels
    "a node without it comes": Turn(RED, pod(), TAINTED, then.node_comes("b", node())),
    "a node with it comes": Turn(RED, pod(), TAINTED, then.node_comes("b", RED["a"]), QUIET),
    "the node grows": Turn(RED, pod(), TAINTED, then.room_changed("a", "cpu=128"), QUIET),
    "a node is no longer not ready": Turn(
        {"a": node(taints="node.kubernetes.io/not-ready:NoSchedule")}, pod(), TAINTED,
        then.tainted("a"),
    ),
    "a node comes, and is ready later": Turn(
        RED, pod(), TAINTED,
        then.one_after_the_other(
            then.node_comes("b", node(taints="node.kubernetes.io/not-ready:NoSchedule")),
            then.tainted("b"),
        ),
    ),
}  # fmt: skip

SHUT = {"a": node(cordoned=True)}
CORDON = {
    "the cordon is lifted": Turn(SHUT, pod(), CORDONED, then.cordoned("a", now=False)),
    "an open node comes": Turn(SHUT, pod(), CORDONED, then.node_comes("b", node())),
    "another cordoned node comes": Turn(
        SHUT, pod(), CORDONED, then.node_comes("b", SHUT["a"]), QUIET
    ),
    "the pod itself tolerates it now": Turn(
        SHUT, pod(), CORDONED,
        then.own({"spec": {"tolerations": LIKES_CORDONS}}),
    ),
    "a pod goes": Turn(SHUT, pod(), CORDONED, then.goes("there-0"), QUIET, there=(pod(on="a"),)),
}  # fmt: skip

WEB80 = pod(on="a", **listens(port(80)))
ONE = {"a": node()}
PORTS = {
    "who has it goes": Turn(
        ONE, pod(**listens(port(80))), NO_PORT, then.goes("there-0"), there=(WEB80,)
    ),
    "who has it ends": Turn(
        ONE, pod(**listens(port(80))), NO_PORT, then.ends("there-0"), there=(WEB80,)
    ),
    "who has another one goes": Turn(
        ONE, pod(**listens(port(80))), NO_PORT, then.goes("there-1"), QUIET,
        there=(WEB80, pod(on="a", **listens(port(81)))),
    ),
    "who has none goes": Turn(
        ONE, pod(**listens(port(80))), NO_PORT, then.goes("there-1"), QUIET,
        there=(WEB80, pod(on="a")),
    ),
    "one of two who have it goes": Turn(
        ONE, pod(**listens(port(80))), NO_PORT, then.goes("there-1"), QUIET, kube=TRIES,  # lazier
        there=(
            pod(on="a", **listens(port(80, "127.0.0.1"))),
            pod(on="a", **listens(port(80, "127.0.0.2"))),
        ),
    ),
    "a taint goes that it tolerates": Turn(
        RED, pod(tolerations=LIKES_RED, **listens(port(80))), NO_PORT, then.tainted("a"), QUIET,
        kube_1_36=TRIES, there=(WEB80,),
    ),
    "a node comes": Turn(
        ONE, pod(**listens(port(80))), NO_PORT, then.node_comes("b", node()), there=(WEB80,)
    ),
}  # fmt: skip

NEAR_WEB = pod(affinity=near(term("zone", "app=web")))
NO_WEB = pod(affinity=apart(term("zone", "app=web")))
MINDS_WEB = (pod(on="a", affinity=apart(term("zone", "app=web"))),)
Z1 = {"a": node("zone=z1")}
THE_WEB = (pod("app=web", on="a"),)
AFFINITY = {
    "whom it wants near comes": Turn(
        Z1, NEAR_WEB, NOT_NEAR, then.pod_comes("web", pod("app=web", on="a"))
    ),
    "whom it wants near is named so": Turn(
        Z1, NEAR_WEB, NOT_NEAR, then.pod_labelled("there-0", "app=web"), there=(pod(on="a"),)
    ),
    "somebody else comes": Turn(
        Z1, NEAR_WEB, NOT_NEAR, then.pod_comes("db", pod("app=db", on="a")), QUIET
    ),
    "somebody else is named anew": Turn(
        Z1, NEAR_WEB, NOT_NEAR, then.pod_labelled("there-0", "app=db"), QUIET, there=(pod(on="a"),)
    ),
    "whom it wants near comes in another namespace": Turn(
        Z1, NEAR_WEB, NOT_NEAR, then.pod_comes("web", pod("app=web", on="a", namespace="@other")),
        QUIET, namespaces={"other": ""},
    ),
    "whom one of two terms means comes": Turn(
        Z1, pod(affinity=near(term("zone", "app=web"), term("zone", "tier=front"))), NOT_NEAR,
        then.pod_comes("web", pod("app=web", on="a")), QUIET,
    ),
    "whom it wants near comes to where it cannot be": Turn(
        {**Z1, "b": node("zone=z2", cordoned=True)}, NEAR_WEB, NOT_NEAR,
        then.pod_comes("web", pod("app=web", on="b")), QUIET, kube=TRIES,  # lazier
    ),
    "a node comes into the zone": Turn(
        {"a": node("zone=z1", room="cpu=2")},
        pod("", "cpu=4", affinity=near(term("zone", "app=web"))), SHORT,
        then.node_comes("b", node("zone=z1")), there=THE_WEB,
    ),
    "the node gets the key": Turn(
        {"a": node()}, NEAR_WEB, NOT_NEAR, then.node_labelled("a", "zone=z1"), there=THE_WEB
    ),
    "the node gets another key": Turn(
        {"a": node()}, NEAR_WEB, NOT_NEAR, then.node_labelled("a", "rack=r1"), QUIET, there=THE_WEB
    ),
    "the pod itself becomes the first of its kind": Turn(
        Z1, NEAR_WEB, NOT_NEAR, then.own({"metadata": {"labels": {"app": "web"}}})
    ),
    "the namespace is labelled": Turn(
        Z1, pod(affinity=near(term("zone", "app=web", namespaceSelector=selector("team=red")))),
        NOT_NEAR, then.namespace_labelled("other", "team=red"),
        kube=QUIET,  # keener: kube-scheduler does not listen to namespaces
        there=(pod("app=web", on="a", namespace="@other"),), namespaces={"other": ""},
    ),
    "in a namespace with the label, whom it wants near comes": Turn(
        Z1, pod(affinity=near(term("zone", "app=web", namespaceSelector=selector("team=red")))),
        NOT_NEAR, then.pod_comes("web", pod("app=web", on="a", namespace="@other")),
        kube=QUIET,  # keener: its hint does not look at the labels of namespaces
        namespaces={"other": "team=red"},
    ),
}  # fmt: skip

ANTI_AFFINITY = {
    "whom it minds goes": Turn(Z1, NO_WEB, TOO_NEAR, then.goes("there-0"), there=THE_WEB),
    "whom it minds is named anew": Turn(
        Z1, NO_WEB, TOO_NEAR, then.pod_labelled("there-0", "app=db"), there=THE_WEB
    ),
    "whom it minds is no longer named": Turn(
        Z1, NO_WEB, TOO_NEAR, then.pod_labelled("there-0", "app="), there=THE_WEB
    ),
    "one of two whom it minds goes": Turn(
        Z1, NO_WEB, TOO_NEAR, then.goes("there-0"), QUIET, kube=TRIES,  # lazier
        there=(*THE_WEB, *THE_WEB),
    ),
    "whom it minds by one of two terms goes": Turn(
        Z1, pod(affinity=apart(term("zone", "app=web"), term("zone", "tier=front"))), TOO_NEAR,
        then.goes("there-0"), kube_1_36=QUIET, there=THE_WEB,
    ),
    "who minds it by one of two terms goes": Turn(
        Z1, pod("app=web"), MINDED, then.goes("there-0"), kube_1_36=QUIET,
        there=(pod(on="a", affinity=apart(term("zone", "app=web"), term("zone", "tier=front"))),),
    ),
    "somebody else goes": Turn(
        Z1, NO_WEB, TOO_NEAR, then.goes("there-1"), QUIET, there=(*THE_WEB, pod("app=db", on="a"))
    ),
    "somebody else is named anew": Turn(
        Z1, NO_WEB, TOO_NEAR, then.pod_labelled("there-1", "app=cache"), QUIET,
        there=(*THE_WEB, pod("app=db", on="a")),
    ),
    "who minds it goes": Turn(
        Z1, pod("app=web"), MINDED, then.goes("there-0"), there=MINDS_WEB
    ),
    "the pod itself is named anew": Turn(
        Z1, pod("app=web"), MINDED, then.own({"metadata": {"labels": {"app": "db"}}}),
        there=MINDS_WEB,
    ),
    "a node in another zone comes": Turn(
        Z1, NO_WEB, TOO_NEAR, then.node_comes("b", node("zone=z2")), there=THE_WEB
    ),
    "a node in the same zone comes": Turn(
        Z1, NO_WEB, TOO_NEAR, then.node_comes("b", node("zone=z1")), QUIET, kube=TRIES,  # lazier
        there=THE_WEB,
    ),
    "the node moves to another zone": Turn(
        {**Z1, "b": node("zone=z1")}, NO_WEB, TOO_NEAR, then.node_labelled("b", "zone=z2"),
        there=THE_WEB,
    ),
    "the namespace loses its label": Turn(
        Z1, pod(affinity=apart(term("zone", "app=web", namespaceSelector=selector("team=red")))),
        TOO_NEAR, then.namespace_labelled("other", "team="),
        kube=QUIET,  # keener: kube-scheduler does not listen to namespaces
        there=(pod("app=web", on="a", namespace="@other"),), namespaces={"other": "team=red"},
    ),
}  # fmt: skip


def even(rule: Body, **more: Any) -> Body:
    return pod("app=web", topologySpreadConstraints=[rule], **more)


# One in the first zone, nobody in the second, which takes nobody.
LEANING = {"a": node("zone=z1"), "b": node("zone=z2", cordoned=True)}
EVEN = even(spread("zone", "app=web"))
EVEN_IN_TWO = even(spread("zone", "app=web", minDomains=2))
SPREAD = {
    "one of its kind comes where they are few": Turn(
        LEANING, EVEN, UNEVEN, then.pod_comes("web", pod("app=web", on="b")), there=THE_WEB
    ),
    "somebody where they are few becomes one of its kind": Turn(
        LEANING, EVEN, UNEVEN, then.pod_labelled("there-1", "app=web"),
        there=(*THE_WEB, pod(on="b")),
    ),
    "one where they are many is no longer one of its kind": Turn(
        LEANING, EVEN, UNEVEN, then.pod_labelled("there-0", "app=db"), there=THE_WEB
    ),
    "one goes where they are many": Turn(
        LEANING, EVEN, UNEVEN, then.goes("there-0"), there=THE_WEB
    ),
    "somebody else goes": Turn(
        LEANING, EVEN, UNEVEN, then.goes("there-1"), QUIET, there=(*THE_WEB, pod(on="a"))
    ),
    "one of its kind goes in another namespace": Turn(
        LEANING, EVEN, UNEVEN, then.goes("there-1", "@other"), QUIET,
        there=(*THE_WEB, pod("app=web", on="a", namespace="@other")), namespaces={"other": ""},
    ),
    "one goes where they are still too many": Turn(
        LEANING, EVEN, UNEVEN, then.goes("there-0"), QUIET, kube=TRIES,  # lazier
        there=(*THE_WEB, *THE_WEB),
    ),
    "a node of a new zone comes": Turn(
        LEANING, EVEN, UNEVEN, then.node_comes("c", node("zone=z3")), there=THE_WEB
    ),
    "a node without the key comes": Turn(
        LEANING, EVEN, UNEVEN, then.node_comes("c", node()), QUIET, kube=TRIES,  # lazier
        there=THE_WEB,
    ),
    "a node gets the key": Turn(
        {"a": node("zone=z1"), "b": node()}, EVEN_IN_TWO, UNEVEN,
        then.node_labelled("b", "zone=z2"), there=THE_WEB,
    ),
    "a node gets another key": Turn(
        {"a": node("zone=z1"), "b": node()}, EVEN_IN_TWO, UNEVEN, then.node_labelled("b", "rack=r"),
        QUIET, there=THE_WEB,
    ),
    "a node moves to another zone": Turn(
        {"a": node("zone=z1"), "b": node("zone=z1")}, EVEN_IN_TWO, UNEVEN,
        then.node_labelled("b", "zone=z2"), there=THE_WEB,
    ),
    "the empty zone goes, with its only node": Turn(
        LEANING, EVEN, UNEVEN, then.node_goes("b"), there=THE_WEB
    ),
    "a node without the key goes": Turn(
        {**LEANING, "c": node()}, EVEN, UNEVEN, then.node_goes("c"), QUIET, there=THE_WEB
    ),
    "the empty zone is tainted, and taints are honoured": Turn(
        {"a": node("zone=z1"), "b": node("zone=z2", room="cpu=0")},
        even(spread("zone", "app=web", nodeTaintsPolicy="Honor"), container={
            "resources": {"requests": {"cpu": "1"}}}),
        UNEVEN, then.tainted("b", "closed:NoSchedule"), there=THE_WEB,
    ),
    "the pod itself tolerates the taint of the empty zone": Turn(
        {"a": node("zone=z1"), "b": node("zone=z2", taints="closed:NoSchedule")},
        even(spread("zone", "app=web", minDomains=2, nodeTaintsPolicy="Honor")), UNEVEN,
        then.own({"spec": {"tolerations": [tolerates("closed:NoSchedule", "Exists")]}}),
        there=THE_WEB,
    ),
}  # fmt: skip

GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]
GATED = {
    "all gates are lifted": Turn(
        ONE, pod(schedulingGates=GATES), "gates", then.own({"spec": {"schedulingGates": []}})
    ),
    "one of two gates is lifted": Turn(
        ONE, pod(schedulingGates=GATES), "gates",
        then.own({"spec": {"schedulingGates": GATES[:1]}}), QUIET,
    ),
    "a node comes": Turn(
        ONE, pod(schedulingGates=GATES), "gates", then.node_comes("b", node()), QUIET
    ),
}  # fmt: skip

TURNS = {
    f"{rule}: {name}": turn
    for rule, turns in {
        "NodeResourcesFit": FIT, "NodeAffinity": NODE_AFFINITY, "TaintToleration": TAINTS,
        "NodeUnschedulable": CORDON, "NodePorts": PORTS, "InterPodAffinity": AFFINITY,
        "InterPodAffinity apart": ANTI_AFFINITY, "PodTopologySpread": SPREAD,
        "SchedulingGates": GATED,
    }.items()
    for name, turn in turns.items()
}  # fmt: skip
