"""However storage and pods came to be as they are, the count of volumes is a fresh count's."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from builders import a_node, a_pod
from examples import examples
from fairlead.cluster.cluster import Cluster
from fairlead.model.storage import Attachment, CsiNode, StorageClass, Volume, VolumeClaim
from fairlead.model.volumes import CsiVolume, PodVolumes, VolumeClaimUse

NODES = ["n0", "n1", "n2"]
CLAIMS = ["c0", "c1", "c2"]
nodes, claims = st.sampled_from(NODES), st.sampled_from(CLAIMS)
volumes = st.sampled_from(["v0", "v1"])
handles = st.sampled_from(["h0", "h1", "h2"])


class Limits(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.storage: dict[str, object] = {}
        self.pods: dict[str, object] = {}
        self.there: dict[str, object] = {}
        self.class_changes("csi")
        for number, name in enumerate(NODES):
            self.node_comes(name)
            self.limit_changes(name, number)
            self.claim_changes(CLAIMS[number], ["v0", "v1", ""][number], made=True)
            self.pod_comes(number, name, [CLAIMS[number]])
        self.volume_changes("v0", "h0", in_tree=False)

    @rule(name=nodes)
    def node_comes(self, name: str) -> None:
        self.there[name] = a_node(name)
        self.cluster.put_node(self.there[name])

    @rule(name=nodes)
    def node_goes(self, name: str) -> None:
        if self.there.pop(name, None):
            self.cluster.remove_node(name)

    @rule(number=st.integers(0, 4), node=nodes, used=st.lists(claims, min_size=1, max_size=2))
    def pod_comes(self, number: int, node: str, used: list[str]) -> None:
        self.pod_goes(number)
        held = PodVolumes(tuple(VolumeClaimUse(f"default/{name}") for name in used))
        self.pods[f"p{number}"] = pod = a_pod(uid=f"p{number}", node=node, volumes=held)
        self.cluster.confirm(pod)

    @rule(number=st.integers(0, 4))
    def pod_goes(self, number: int) -> None:
        if self.pods.pop(f"p{number}", None):
            self.cluster.remove(f"p{number}")

    @rule(name=claims, volume=st.sampled_from(["", "v0", "v1"]), made=st.booleans())
    def claim_changes(self, name: str, volume: str, made: bool) -> None:
        self._put(
            VolumeClaim("default", name, volume=volume, storage_class="class" if made else "")
        )

    @rule(name=volumes, handle=handles, in_tree=st.booleans())
    def volume_changes(self, name: str, handle: str, in_tree: bool) -> None:
        self._put(Volume(name, csi=CsiVolume("csi", handle, "in-tree" if in_tree else "")))

    @rule(name=nodes, limit=st.integers(0, 3))
    def limit_changes(self, name: str, limit: int) -> None:
        self._put(CsiNode(name, drivers=("csi",), limits=(("csi", limit),)))

    @rule(name=st.sampled_from(["a0", "a1"]), node=nodes, volume=volumes)
    def volume_is_attached(self, name: str, node: str, volume: str) -> None:
        self._put(Attachment(name, driver="csi", node=node, volume=volume))

    @rule(provisioner=st.sampled_from(["csi", "other", "kubernetes.io/aws-ebs"]))
    def class_changes(self, provisioner: str) -> None:
        self._put(StorageClass("class", provisioner=provisioner))

    @rule(pick=st.integers(0, 99))
    def something_vanishes(self, pick: int) -> None:
        if self.storage:
            gone = self.storage.pop(sorted(self.storage)[pick % len(self.storage)])
            self.cluster.remove_storage(gone)

    def _put(self, told) -> None:
        self.storage[f"{type(told).__name__} {told.key}"] = told
        self.cluster.put_storage(told)

    @invariant()
    def counts_are_those_of_a_fresh_cluster(self) -> None:
        fresh = Cluster()
        for told in self.storage.values():
            fresh.put_storage(told)
        for node in self.there.values():
            fresh.put_node(node)
        for pod in self.pods.values():
            fresh.confirm(pod)
        for wanted in CLAIMS:
            asked = PodVolumes((VolumeClaimUse(f"default/{wanted}"),))
            assert _over(self.cluster, asked) == _over(fresh, asked) == self._by_hand(asked)

    def _by_hand(self, asked: PodVolumes) -> dict[str, bool]:
        return {name: self._is_over(name, asked) for name in self.there}

    def _is_over(self, node: str, asked: PodVolumes) -> bool:
        told = self.storage.get(f"CsiNode {node}")
        if told is None:
            return False
        used = {
            found
            for pod in self.pods.values()
            if pod.node == node
            for found in self._resolved(pod.request.volumes)
        }
        attached = set()
        for each in self.storage.values():
            if isinstance(each, Attachment) and each.node == node:
                volume = self.storage.get(f"Volume {each.volume}")
                if volume is not None and not volume.csi.plugin:
                    attached.add((each.driver, volume.csi.handle))
        for driver, limit in told.limits:
            new = [found for found in self._resolved(asked) - used if found[0] == driver]
            held = [found for found in used | attached if found[0] == driver]
            if new and len(held) + len(new) > limit:
                return True
        return False

    def _resolved(self, held: PodVolumes) -> set[tuple[str, str]]:
        found = set()
        for use in held.claims:
            claim = self.storage.get(f"VolumeClaim {use.key}")
            if claim is None:
                continue
            volume = self.storage.get(f"Volume {claim.volume}")
            made_by = self.storage.get(f"StorageClass {claim.storage_class}")
            if volume is not None:
                found.add((volume.csi.driver, volume.csi.handle))
            elif made_by is not None:
                names = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
                found.add((names.get(made_by.provisioner, made_by.provisioner), claim.key))
        return found


def _over(cluster: Cluster, asked: PodVolumes) -> dict[str, bool]:
    over = cluster.nodes.over_volume_limit(asked)
    return {name: bool(over[row]) for name, row in cluster.row_of.items()}


TestLimits = Limits.TestCase
TestLimits.settings = examples(60, steps=30)
