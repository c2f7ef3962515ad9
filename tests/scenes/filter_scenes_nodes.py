"""Scenes about nodes: their names, labels, taints, ports and room."""

from typing import Any

from filter_scenes import Scene
from tables import Body, container, lines, listens, node, on_nodes, pod, port, sidecar, tolerates

NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
CORDONED = "node(s) were unschedulable"
NO_PORT = "node(s) didn't have free ports for the requested pod ports"
GPU = "nvidia.com/gpu"
LIFECYCLE = "node.kubernetes.io/"


def wants(*alternatives: list[Body], **more: Any) -> Body:
    return pod(affinity=on_nodes(*alternatives, **more))


TWO_DISKS = {"a": node("disk=ssd rank=3"), "b": node("disk=hdd rank=10"), "c": node()}
AFFINITY = {
    "a selector": Scene(TWO_DISKS, pod(nodeSelector={"disk": "ssd"}), fits="a"),
    "a selector with two labels of which one differs": Scene(
        TWO_DISKS, pod(nodeSelector={"disk": "ssd", "rank": "10"}), refused=NO_MATCH
    ),
    "one of two values": Scene(TWO_DISKS, wants(lines("disk In ssd,hdd")), fits="a b"),
    "a value nobody has": Scene(TWO_DISKS, wants(lines("disk In tape")), refused=NO_MATCH),
    "not that value, or no such label": Scene(TWO_DISKS, wants(lines("disk NotIn ssd,hdd")), "c"),
    "none of the values there are": Scene(
        {"a": node("disk=ssd")}, wants(lines("disk NotIn ssd")), refused=NO_MATCH
    ),
    "a label with whatever value": Scene(TWO_DISKS, wants(lines("disk Exists")), fits="a b"),
    "a label that must be missing": Scene(TWO_DISKS, wants(lines("disk DoesNotExist")), fits="c"),
    "a label that must be missing, and is not": Scene(
        {"a": node("disk=ssd")}, wants(lines("disk DoesNotExist")), refused=NO_MATCH
    ),
    "more, as numbers and not as texts": Scene(TWO_DISKS, wants(lines("rank Gt 4")), fits="b"),
    "less, as numbers and not as texts": Scene(TWO_DISKS, wants(lines("rank Lt 4")), fits="a"),
    "not more than itself": Scene(TWO_DISKS, wants(lines("rank Gt 10")), refused=NO_MATCH),
    "more than what is no number": Scene(
        {"a": node("rank=best")}, wants(lines("rank Gt 4")), refused=NO_MATCH
    ),
    "all lines of one term": Scene(TWO_DISKS, wants(lines("disk Exists", "rank Gt 4")), fits="b"),
    "any of two terms": Scene(TWO_DISKS, wants(lines("disk=tape"), lines("rank Lt 4")), fits="a"),
    "a term without lines, beside one that fits": Scene(TWO_DISKS, wants([], lines("rank=3")), "a"),
    "only a term without lines": Scene(TWO_DISKS, wants([]), refused=NO_MATCH),
    "a selector and a term, which must both agree": Scene(
        TWO_DISKS,
        pod(nodeSelector={"disk": "ssd"}, affinity=on_nodes(lines("rank=10"))),
        refused=NO_MATCH,
    ),
    "a name": Scene(TWO_DISKS, wants([], fields=lines("metadata.name In @b")), fits="b"),
    "not that name": Scene(
        {"a": node(), "b": node()}, wants([], fields=lines("metadata.name NotIn @b")), fits="a"
    ),
    "a name and a label": Scene(
        TWO_DISKS, wants(lines("disk=ssd"), fields=lines("metadata.name In @a")), fits="a"
    ),
    "a name and a label of another node": Scene(
        TWO_DISKS, wants(lines("disk=ssd"), fields=lines("metadata.name In @b")), refused=NO_MATCH
    ),
    "a name in one term, a label in the other": Scene(
        TWO_DISKS,
        wants([], lines("disk=hdd"), fields=lines("metadata.name In @absent")),
        fits="b",
    ),
    "the name of no node": Scene(
        TWO_DISKS, wants([], fields=lines("metadata.name In @absent")), refused="0/3 nodes"
    ),
    "two names at once": Scene(
        TWO_DISKS,
        wants([], fields=lines("metadata.name In @a", "metadata.name In @b")),
        refused="pod affinity terms conflict",
    ),
}

RED = node(taints="colour=red:NoSchedule")
PAINTED = {"a": RED}
MIXED = {"a": node(taints="colour=red:NoSchedule size=big:NoExecute")}
TAINTS = {
    "a taint that is tolerated": Scene(
        PAINTED, pod(tolerations=[tolerates("colour=red:NoSchedule")]), fits="a"
    ),
    "a taint that is not": Scene(PAINTED, pod(), refused=TAINTED),
    "a node without the taint": Scene({"a": RED, "b": node()}, pod(), fits="b"),
    "another value": Scene(
        PAINTED, pod(tolerations=[tolerates("colour=blue:NoSchedule")]), refused=TAINTED
    ),
    "another effect": Scene(
        PAINTED, pod(tolerations=[tolerates("colour=red:NoExecute")]), refused=TAINTED
    ),
    "any effect": Scene(PAINTED, pod(tolerations=[tolerates("colour=red:")]), fits="a"),
    "any value": Scene(
        PAINTED, pod(tolerations=[tolerates("colour:NoSchedule", "Exists")]), fits="a"
    ),
    "whatever there is": Scene(MIXED, pod(tolerations=[tolerates(":", "Exists")]), fits="a"),
    "one of two taints": Scene(
        MIXED, pod(tolerations=[tolerates("colour=red:NoSchedule")]), refused=TAINTED
    ),
    "both taints": Scene(
        MIXED,
        pod(tolerations=[tolerates("colour=red:NoSchedule"), tolerates("size=big:NoExecute")]),
        fits="a",
    ),
    "more tolerations than taints": Scene(
        PAINTED,
        pod(tolerations=[tolerates("size=big:NoExecute"), tolerates("colour=red:NoSchedule")]),
        fits="a",
    ),
    "a toleration for nothing": Scene(
        {"a": node()}, pod(tolerations=[tolerates("colour=red:NoSchedule")]), fits="a"
    ),
    "a taint that only prefers": Scene(
        {"a": node(taints="colour=red:PreferNoSchedule")}, pod(), fits="a"
    ),
    "an effect that evicts keeps away, too": Scene(
        {"a": node(taints="colour=red:NoExecute")}, pod(), refused=TAINTED
    ),
    "a cordon": Scene({"a": node(cordoned=True)}, pod(), refused=CORDONED),
    "a cordon beside an open node": Scene({"a": node(cordoned=True), "b": node()}, pod(), "b"),
    "a cordon that is tolerated": Scene(
        {"a": node(cordoned=True)},
        pod(tolerations=[tolerates(f"{LIFECYCLE}unschedulable:NoSchedule", "Exists")]),
        fits="a",
    ),
    # The API server lets every pod tolerate these two for five minutes, where they evict.
    **{
        f"{what}, as an eviction with grace": Scene(
            {"a": node(taints=f"{LIFECYCLE}{what}:NoExecute")}, pod(), fits="a"
        )
        for what in ("not-ready", "unreachable")
    },
    **{
        f"{what}": Scene(
            {"a": node(taints=f"{LIFECYCLE}{what}:NoSchedule")}, pod(), refused=TAINTED
        )
        for what in (
            "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure",
            "network-unavailable", "unschedulable",
        )
    },
    **{
        f"{what}, tolerated": Scene(
            {"a": node(taints=f"{LIFECYCLE}{what}:NoSchedule")},
            pod(tolerations=[tolerates(f"{LIFECYCLE}{what}:NoSchedule", "Exists")]),
            fits="a",
        )
        for what in (
            "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure",
            "network-unavailable", "unschedulable",
        )
    },
    "not ready and without network, of which one is tolerated": Scene(
        {
            "a": node(
                taints=f"{LIFECYCLE}not-ready:NoSchedule {LIFECYCLE}network-unavailable:NoSchedule"
            )
        },
        pod(tolerations=[tolerates(f"{LIFECYCLE}not-ready:NoSchedule", "Exists")]),
        refused=TAINTED,
    ),
}  # fmt: skip

ONE = {"a": node()}
WEB = pod(on="a", **listens(port(80)))
LOCAL = pod(on="a", **listens(port(80, "127.0.0.1")))
PORTS = {
    "a port in use": Scene(ONE, pod(**listens(port(80))), refused=NO_PORT, there=(WEB,)),
    "another port": Scene(ONE, pod(**listens(port(81))), fits="a", there=(WEB,)),
    "the port on another node": Scene(
        {"a": node(), "b": node()}, pod(**listens(port(80))), fits="b", there=(WEB,)
    ),
    "one of two ports in use": Scene(
        ONE, pod(**listens(port(81), port(80))), refused=NO_PORT, there=(WEB,)
    ),
    "the port of another protocol": Scene(
        ONE, pod(**listens(port(80, protocol="UDP"))), fits="a", there=(WEB,)
    ),
    "the port of another address": Scene(
        ONE, pod(**listens(port(80, "127.0.0.2"))), fits="a", there=(LOCAL,)
    ),
    "the port of the same address": Scene(
        ONE, pod(**listens(port(80, "127.0.0.1"))), refused=NO_PORT, there=(LOCAL,)
    ),
    "the port of every address, and one has it": Scene(
        ONE, pod(**listens(port(80, "0.0.0.0"))), refused=NO_PORT, there=(LOCAL,)
    ),
    "the port of one address, and every one has it": Scene(
        ONE, pod(**listens(port(80, "127.0.0.1"))), refused=NO_PORT, there=(WEB,)
    ),
    "a port inside the pod only": Scene(
        ONE, pod(container={"ports": [{"containerPort": 80}]}), fits="a", there=(WEB,)
    ),
    "the port of a sidecar": Scene(
        ONE, pod(initContainers=[sidecar("s", ports=[port(80)])]), refused=NO_PORT, there=(WEB,)
    ),
    "a sidecar that has the port": Scene(
        ONE,
        pod(**listens(port(80))),
        refused=NO_PORT,
        there=(pod(on="a", initContainers=[sidecar("s", ports=[port(80)])]),),
    ),
    "the port of an init container, which is gone when the pod runs": Scene(
        ONE,
        pod(initContainers=[container("i", ports=[port(80)])]),
        fits="a",
        there=(WEB,),
    ),
}

SMALL = {"a": node(room=f"cpu=2 memory=2Gi ephemeral-storage=2Gi {GPU}=2")}


def both_levels(cpu: str, takes: str) -> Body:
    return pod("", takes, resources={"requests": {"cpu": cpu}, "limits": {"cpu": cpu}})


ROOM = {
    "exactly what there is": Scene(SMALL, pod("", f"cpu=2 memory=2Gi {GPU}=2"), fits="a"),
    "more processors than there are": Scene(
        SMALL, pod("", "cpu=2001m"), refused="1 Insufficient cpu"
    ),
    "more than is left": Scene(
        SMALL, pod("", "cpu=1500m"), refused="1 Insufficient cpu", there=(pod("", "cpu=1", on="a"),)
    ),
    "what is left": Scene(SMALL, pod("", "cpu=1"), fits="a", there=(pod("", "cpu=1", on="a"),)),
    "the larger of two nodes": Scene({**SMALL, "b": node()}, pod("", "memory=3Gi"), fits="b"),
    "a finished pod takes nothing": Scene(
        SMALL, pod("", "cpu=2"), fits="a", there=(pod("", "cpu=2", on="a", phase="Succeeded"),)
    ),
    "memory": Scene(SMALL, pod("", "memory=3Gi"), refused="1 Insufficient memory"),
    "room on the disk": Scene(
        SMALL, pod("", "ephemeral-storage=3Gi"), refused="1 Insufficient ephemeral-storage"
    ),
    "a GPU too many": Scene(
        SMALL, pod("", f"{GPU}=2"), refused=f"1 Insufficient {GPU}",
        there=(pod("", f"{GPU}=1", on="a"),),
    ),
    "a resource that no node has": Scene(
        SMALL, pod("", "example.com/dongle=1"), refused="1 Insufficient example.com/dongle"
    ),
    "all that is short is named": Scene(
        SMALL, pod("", "cpu=3 memory=3Gi"), refused="1 Insufficient cpu, 1 Insufficient memory"
    ),
    "nothing at all, where nothing is left": Scene(
        SMALL, pod(), fits="a", there=(pod("", "cpu=2 memory=2Gi", on="a"),)
    ),
    "no place for one more pod": Scene(
        {"a": node(room="pods=1")}, pod(), refused="1 Too many pods", there=(pod(on="a"),)
    ),
    "the last place": Scene({"a": node(room="pods=2")}, pod(), fits="a", there=(pod(on="a"),)),
    "an init container that needs more than the rest": Scene(
        SMALL,
        pod("", "cpu=1", initContainers=[container("i", "cpu=3")]),
        refused="1 Insufficient cpu",
    ),
    "init containers take turns": Scene(
        SMALL,
        pod("", "cpu=1", initContainers=[container("i", "cpu=2"), container("j", "cpu=2")]),
        fits="a",
    ),
    "a sidecar stays": Scene(
        SMALL, pod("", "cpu=1", initContainers=[sidecar("s", "cpu=1500m")]), refused="cpu"
    ),
    "a sidecar is there while a later init container runs": Scene(
        SMALL,
        pod(initContainers=[sidecar("s", "cpu=1"), container("i", "cpu=1500m")]),
        refused="1 Insufficient cpu",
    ),
    "a sidecar is not there yet while an earlier one runs": Scene(
        SMALL, pod(initContainers=[container("i", "cpu=1500m"), sidecar("s", "cpu=1")]), fits="a"
    ),
    "containers add up": Scene(
        SMALL,
        pod(containers=[container("x", "cpu=1"), container("y", "cpu=1500m")]),
        refused="1 Insufficient cpu",
    ),
    "overhead is added": Scene(
        SMALL, pod("", "cpu=1500m", runtimeClassName="@heavy"), refused="1 Insufficient cpu"
    ),
    "overhead of a pod that is there": Scene(
        SMALL, pod("", "cpu=1"), refused="1 Insufficient cpu",
        there=(pod("", "cpu=500m", on="a", runtimeClassName="@heavy"),),
    ),
    "the pod's own request, above its containers'": Scene(
        SMALL, both_levels("3", "cpu=1"), refused="1 Insufficient cpu"
    ),
    "the pod's own request, which fits": Scene(SMALL, both_levels("2", "cpu=1"), fits="a"),
    "the own request of a pod that is there": Scene(
        SMALL, pod("", "cpu=1"), refused="1 Insufficient cpu",
        there=(pod("", "cpu=500m", on="a", resources={"requests": {"cpu": "1500m"}}),),
    ),
}  # fmt: skip

SCENES = {
    f"{rule}: {name}": scene
    for rule, scenes in {
        "affinity": AFFINITY, "taints": TAINTS, "ports": PORTS, "room": ROOM,
    }.items()
    for name, scene in scenes.items()
}  # fmt: skip
