"""Rows of the preemption table: who has to go, so that a more important pod can run where."""

from dataclasses import dataclass, field
from typing import Any

from tables import Body, apart, lines, listens, node, on_nodes, pod, port, spread, term

GPU = "nvidia.com/gpu"
#: What the priority classes of the table are worth; `gentle` never evicts anybody.
PRIORITIES = {"low": 1, "middle": 5, "high": 10, "higher": 20, "gentle": 10}


@dataclass(frozen=True)
class Scene:
    """Pods there by name, budgets (disruptions allowed, by app), and the pod that asks.

    `victims` go and the pod runs on one of the nodes of `on`; without `on`, it is refused and
    everybody stays.
    """

    nodes: dict[str, Body]
    there: dict[str, Body]
    asks: Body
    victims: str = ""
    on: str = ""
    budgets: dict[str, int] = field(default_factory=dict)
    objects: tuple[tuple[str, Body], ...] = ()


def gpus(count: int, labels: str = "") -> Body:
    return node(labels, f"{GPU}={count}")


def has(count: int, on: str = "a", priority: str = "low", labels: str = "", **more: Any) -> Body:
    return pod(labels, f"{GPU}={count}", on=on, priorityClassName=priority, **more)


def wants(count: int, priority: str = "high", labels: str = "", **more: Any) -> Body:
    return pod(labels, f"{GPU}={count}", priorityClassName=priority, **more)


FOUR = {"a": gpus(4)}
EACH_FOUR = {"a": gpus(4, "zone=z1 host=a"), "b": gpus(4, "zone=z1 host=b")}
WEB80 = listens(port(80))
SPREAD_OUT = {
    "a": node("zone=z1 host=a"), "b": node("zone=z1 host=b"),
    "c": node("zone=z2 host=c"), "d": node("zone=z2 host=d"),
}  # fmt: skip
BOTH_EVEN = [spread("zone", "app=web"), spread("host", "app=web")]

SCENES = {
    "the only one there": Scene(FOUR, {"x": has(4)}, wants(4), "x", "a"),
    "the least important of two": Scene(
        FOUR, {"x": has(2, priority="middle"), "y": has(2)}, wants(2), "y", "a"
    ),
    "no more than are needed": Scene(
        FOUR, {"x": has(1, priority="middle"), "y": has(1), "z": has(2)}, wants(2), "z", "a"
    ),
    "all of them": Scene(FOUR, {"x": has(1), "y": has(3)}, wants(4), "x y", "a"),
    "a free node needs no victims": Scene(EACH_FOUR, {"x": has(4)}, wants(4), "", "b"),
    "nobody of the same importance": Scene(FOUR, {"x": has(4, priority="high")}, wants(4)),
    "nobody, since too little would be free": Scene(
        FOUR, {"x": has(1), "y": has(3, priority="high")}, wants(4)
    ),
    "nobody, for more than there is": Scene(FOUR, {"x": has(4)}, wants(5)),
    "nobody, for a gentle pod": Scene(FOUR, {"x": has(4)}, wants(4, "gentle")),
    "nobody, where a taint keeps it away": Scene(
        {"a": node(room=f"{GPU}=4", taints="x:NoSchedule")},
        {"x": has(4, tolerations=[{"operator": "Exists"}])},
        wants(4),
    ),
    "nobody, where the label is wrong": Scene(
        FOUR, {"x": has(4)}, wants(4, nodeSelector={"disk": "ssd"})
    ),
    "nobody, on a cordoned node": Scene(
        {"a": node(room=f"{GPU}=4", cordoned=True)}, {"x": has(4)}, wants(4)
    ),
    "somebody of no class at all": Scene(
        FOUR, {"x": pod("", f"{GPU}=4", on="a")}, wants(4, "low"), "x", "a"
    ),
    "for what the system cannot do without": Scene(
        FOUR,
        {"x": has(4, priority="higher")},
        wants(4, "system-node-critical", namespace="kube-system"),
        "x",
        "a",
    ),
    "where the most important victim is least important": Scene(
        EACH_FOUR,
        {"x": has(4, priority="middle"), "y": has(2, on="b"), "z": has(2, on="b")},
        wants(4),
        "y z",
        "b",
    ),
    "where fewer have to go": Scene(
        EACH_FOUR, {"x": has(4), "y": has(2, on="b"), "z": has(2, on="b")}, wants(4), "x", "a"
    ),
    "the place of a pod, where places are short": Scene(
        {"a": node(room="pods=2")},
        {"x": has(0, priority="middle"), "y": has(0)},
        wants(0),
        "y",
        "a",
    ),
    "who has the port, and not who has the GPUs": Scene(
        FOUR, {"x": has(1, **WEB80), "y": has(3)}, wants(0, **WEB80), "x", "a"
    ),
    "whom it minds": Scene(
        EACH_FOUR,
        {"x": has(0, labels="app=web"), "y": has(0)},
        wants(0, affinity=apart(term("zone", "app=web")) | on_nodes(lines("host=a"))),
        "x",
        "a",
    ),
    "who minds it": Scene(
        FOUR,
        {"x": has(0, affinity=apart(term("kubernetes.io/hostname", "app=me"))), "y": has(0)},
        wants(0, labels="app=me"),
        "x",
        "a",
    ),
    "nobody, as one whom it minds would stay near": Scene(
        EACH_FOUR,
        {"x": has(0, labels="app=web"), "y": has(0, on="b", labels="app=web")},
        wants(0, affinity=apart(term("zone", "app=web"))),
    ),
    "nobody, as the one whom it minds is important": Scene(
        EACH_FOUR,
        {"x": has(0, labels="app=web", priority="high"), "y": has(4, on="b")},
        wants(0, affinity=apart(term("zone", "app=web"))),
    ),
    "one of its kind, so that all are spread evenly": Scene(
        SPREAD_OUT,
        {
            name: pod("app=web", on=host)
            for name, host in {"v": "b", "w": "b", "x": "c", "y": "c", "z": "d"}.items()
        },
        pod(
            "app=web",
            priorityClassName="high",
            topologySpreadConstraints=BOTH_EVEN,
            affinity=on_nodes(lines("host NotIn a")),
        ),
        "?",
        "b c d",
    ),
    "rather a more important one than to break a budget": Scene(
        FOUR,
        {
            "x": has(1, labels="app=db"),
            "y": has(1, labels="app=db"),
            "z": has(2, priority="middle"),
        },
        wants(2),
        "z",
        "a",
        budgets={"db": 0},
    ),
    "where no budget is broken": Scene(
        EACH_FOUR,
        {"x": has(4, labels="app=db"), "y": has(4, on="b", priority="middle")},
        wants(4),
        "y",
        "b",
        budgets={"db": 0},
    ),
    "where fewer budgets are broken": Scene(
        EACH_FOUR,
        {
            "v": has(2, labels="app=db"),
            "w": has(2, labels="app=db"),
            "x": has(2, on="b", labels="app=db"),
            "y": has(2, on="b", priority="middle"),
        },
        wants(4),
        "x y",
        "b",
        budgets={"db": 0},
    ),
    "as many as the budget allows": Scene(
        EACH_FOUR,
        {"x": has(4, labels="app=db"), "y": has(4, on="b", priority="middle")},
        wants(4),
        "x",
        "a",
        budgets={"db": 1},
    ),
    "a budget is no guarantee": Scene(
        FOUR, {"x": has(4, labels="app=db")}, wants(4), "x", "a", budgets={"db": 0}
    ),
}
