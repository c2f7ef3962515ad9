"""Plays cases of PodGroups on an API server: one scheduler, a namespace and nodes of its own."""

from collections.abc import Callable
from typing import Any, Self

from bind_denials import BindDenials
from fairlead.sim.controlplane.nodes import node_body
from fairleads import eventually
from gang_planes import GangPlane
from podgroup_script import GroupWords, Line, NodeWords, PodWords, Script

MERGE = "application/merge-patch+json"
Json = dict[str, Any]


class Stage:
    def __init__(self, gangs: GangPlane, denials: BindDenials, scheduler: str, name: str) -> None:
        self.gangs, self.scheduler, self.name = gangs, scheduler, name
        self._denials, self._denied = denials, ""
        self._priority: int | None = None
        self._made = 0
        self._undo: list[str] = []

    def __enter__(self) -> Self:
        self._create("/api/v1/namespaces", {"metadata": {"name": self.name}}, undo=False)
        return self

    def __exit__(self, *_: object) -> None:
        for path in reversed(self._undo):
            self._api("DELETE", f"{path}?gracePeriodSeconds=0")

    def play(self, script: Script) -> None:
        for line in script.lines:
            if line.concerns(self.scheduler):
                self._perform(line)

    def _perform(self, line: Line) -> None:
        getattr(self, f"_do_{line.verb}")(line.words)

    # -- what is set up ----------------------------------------------------------------------

    def _do_priority(self, words: tuple[str, ...]) -> None:
        self._priority = int(words[0])

    def _do_nodes(self, words: tuple[str, ...]) -> None:
        for node in map(NodeWords.of, words):
            taints = [{"key": node.taint, "effect": "NoSchedule"}] if node.taint else []
            labels = {"stage": self.name, **node.labels}
            body = node_body(self._node(node.name), {"cpu": str(node.cpus)}, labels, {}, taints)
            self._create("/api/v1/nodes", body)
        if not any(path.startswith(self._pods) for path in self._undo):
            self._wait_known(NodeWords.of(words[-1]).name)

    def _wait_known(self, node: str) -> None:
        """The scheduler has seen this node and those before it: pods come by another watch."""
        words = PodWords.of(("-:", "known", "on", node, "=0", "@0", "tolerates"))
        self._create(self._pods, self._pod("known", words))
        self._eventually(lambda: self._place_of("known"), f"node {node} is known")
        self._do_delete(("known",))
        self._undo.pop()

    def _do_group(self, words: tuple[str, ...]) -> None:
        group = GroupWords.of(words)
        policy = {"basic": {}} if group.minimum is None else {"gang": {"minCount": group.minimum}}
        self._create(self.gangs.path(self.name), self._group_body(group, policy), undo=False)

    def _do_composite(self, words: tuple[str, ...]) -> None:
        group = GroupWords.of(words)
        gang = {"gang": {"minGroupCount": group.minimum}}
        body = self._group_body(group, {"basic": {}} if group.minimum is None else gang)
        self._create(self.gangs.composites(self.name), body, undo=False)

    def _group_body(self, group: GroupWords, policy: Json) -> Json:
        spec: Json = {"schedulingPolicy": policy, **self._class(group.priority)}
        if group.topology:
            spec["schedulingConstraints"] = {"topology": [{"key": group.topology}]}
        spec["workloadRef"] = {"workloadName": "w", "templateName": "t"}
        if group.part_of:
            spec["parentCompositePodGroupName"] = group.part_of
        return {"metadata": {"name": group.name}, "spec": spec}

    def _do_volume(self, words: tuple[str, ...]) -> None:
        """A volume and its claim, bound to each other, for one pod at a time."""
        claim, volume = words[0], f"{self.name}-{words[0]}"
        common = {"accessModes": ["ReadWriteOncePod"], "storageClassName": ""}
        reference = {"namespace": self.name, "name": claim}
        self._create("/api/v1/persistentvolumes", {
            "metadata": {"name": volume},
            "spec": {**common, "capacity": {"storage": "1Mi"}, "hostPath": {"path": "/mnt"},
                     "claimRef": reference},
        })  # fmt: skip
        self._create(f"/api/v1/namespaces/{self.name}/persistentvolumeclaims", {
            "metadata": {"name": claim, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {**common, "resources": {"requests": {"storage": "1Mi"}},
                     "volumeName": volume},
        })  # fmt: skip

    def _do_pods(self, words: tuple[str, ...]) -> None:
        pods = PodWords.of(words)
        for name in pods.names:
            self._create(self._pods, self._pod(name, pods))

    def _do_bound(self, words: tuple[str, ...]) -> None:
        pods = PodWords.of(words)
        for name in pods.names:
            body = self._pod(name, pods)
            body["spec"]["nodeName"] = self._node(pods.node)
            self._create(self._pods, body)

    def _pod(self, name: str, words: PodWords) -> Json:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": f"{words.cpu}"}}}
        selector = {"stage": self.name}
        spec: Json = {
            "schedulerName": self.scheduler, "containers": [container],
            "terminationGracePeriodSeconds": 0, "nodeSelector": selector,
            **self._class(words.priority),
        }  # fmt: skip
        if words.node:
            selector["kubernetes.io/hostname"] = self._node(words.node)
        if words.group:
            spec["schedulingGroup"] = {"podGroupName": words.group}
        if "gated" in words.flags:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        if "tolerates" in words.flags:
            spec["tolerations"] = [{"operator": "Exists"}]
        if "keeps" in words.flags:
            spec["priorityClassName"] += "-never"
        if claim := words.values.get("uses"):
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        affinity = self._affinity(words)
        labels = {"app": "x"} if "label" in words.flags else {}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        return {**body, "spec": {**spec, "affinity": affinity}} if affinity else body

    def _affinity(self, words: PodWords) -> Json:
        if "apart" in words.flags:
            term = {"topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "x"}}}  # fmt: skip
            return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if node := words.values.get("prefers"):
            field = {"key": "metadata.name", "operator": "In", "values": [self._node(node)]}
            term = {"weight": 100, "preference": {"matchFields": [field]}}
            return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {}

    def _class(self, priority: int | None) -> Json:
        value = self._priority if priority is None else priority
        return {"priorityClassName": f"p-{value}"} if value is not None else {}

    # -- what happens ------------------------------------------------------------------------

    def _do_minimum(self, words: tuple[str, ...]) -> None:
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": int(words[1])}}}}
        self._patch(self.gangs.path(self.name, words[0]), patch)

    def _do_ungroup(self, words: tuple[str, ...]) -> None:
        path = self.gangs.path(self.name, words[0])
        self._patch(path, {"metadata": {"finalizers": None}})
        assert self._api("DELETE", path)[0] == 200

    def _do_delete(self, words: tuple[str, ...]) -> None:
        for name in words:
            assert self._api("DELETE", f"{self._pods}/{name}?gracePeriodSeconds=0")[0] == 200

    def _do_ungate(self, words: tuple[str, ...]) -> None:
        for name in words:
            self._patch(f"{self._pods}/{name}", {"spec": {"schedulingGates": None}})

    def _do_deny(self, words: tuple[str, ...]) -> None:
        self._denied = words[0]
        self._denials.deny(self.name, self._denied)

    def _do_allow(self, _: tuple[str, ...]) -> None:
        self._denials.allow(self.name, self._denied)

    # -- what is expected --------------------------------------------------------------------

    def _do_placed(self, words: tuple[str, ...]) -> None:
        names, _, nodes = " ".join(words).partition(" on ")
        wanted = {self._node(node) for node in nodes.split()}
        for name in names.split():
            self._eventually(lambda name=name: self._place_of(name), f"{name} is placed")
            assert not wanted or self._place_of(name) in wanted, (name, self._place_of(name))

    def _do_refused(self, words: tuple[str, ...]) -> None:
        self._expect(words, "Unschedulable")

    def _do_error(self, words: tuple[str, ...]) -> None:
        self._expect(words, "SchedulerError")

    def _expect(self, names: tuple[str, ...], reason: str) -> None:
        for name in names:
            self._eventually(lambda name=name: self._reason(name) == reason, f"{name}: {reason}")
        assert not any(map(self._place_of, names)), names

    def _do_waiting(self, words: tuple[str, ...]) -> None:
        self._made += 1
        later = f"later-{self._made}"
        self._create(self._pods, self._pod(later, PodWords.of(("-:", later, "=0", "@0"))))
        self._eventually(lambda: self._place_of(later), f"{later} is placed")
        assert not any(map(self._place_of, words)), words

    def _do_count(self, words: tuple[str, ...]) -> None:
        wanted = int(words[0]), int(words[1])

        def counts() -> bool:
            placed = sum(bool(self._place_of(name)) for name in words[3:])
            return wanted == (placed, [*map(self._reason, words[3:])].count("Unschedulable"))

        self._eventually(counts, f"{wanted[0]} placed, {wanted[1]} refused of {words[3:]}")

    def _do_together(self, words: tuple[str, ...]) -> None:
        nodes = {self._place_of(name) for name in words[1:]}
        found = {self._api("GET", f"/api/v1/nodes/{node}")[1]["metadata"]["labels"][words[0]]
                 for node in nodes}  # fmt: skip
        assert len(found) == 1, (words, nodes)

    def _do_gone(self, words: tuple[str, ...]) -> None:
        for name in words:
            self._eventually(lambda name=name: self._is_gone(name), f"{name} is gone")

    def _do_some(self, words: tuple[str, ...]) -> None:
        """`some gone p q`: at least one of them."""
        self._eventually(lambda: any(map(self._is_gone, words[1:])), f"one of {words} is gone")

    def _do_condition(self, words: tuple[str, ...]) -> None:
        group, *wanted = words

        def says() -> bool:
            found = self.gangs.conditions(self.name, group).get(self.gangs.condition)
            return found is not None and [found["status"], found["reason"]] == wanted

        self._eventually(says, f"{group} says {wanted}")

    # -- the API server ----------------------------------------------------------------------

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def _node(self, name: str) -> str:
        return f"{self.name}-{name}"

    def _place_of(self, name: str) -> str:
        status, pod = self._api("GET", f"{self._pods}/{name}")
        return str(pod["spec"].get("nodeName", "")) if status == 200 else ""

    def _reason(self, name: str) -> str:
        status, pod = self._api("GET", f"{self._pods}/{name}")
        conditions = pod["status"].get("conditions", ()) if status == 200 else ()
        found = (each for each in conditions if each["type"] == "PodScheduled")
        return next((str(each.get("reason", "")) for each in found), "")

    def _is_gone(self, name: str) -> bool:
        return self._api("GET", f"{self._pods}/{name}")[0] == 404

    def _api(self, verb: str, path: str, body: Json | None = None, **more: str) -> tuple[int, Json]:
        return self.gangs.plane.api(verb, path, body, **more)

    def _patch(self, path: str, patch: Json) -> None:
        status, answer = self._api("PATCH", path, patch, content_type=MERGE)
        assert status == 200, answer

    def _create(self, folder: str, body: Json, *, undo: bool = True) -> None:
        status, answer = self._api("POST", folder, body)
        assert status == 201, answer
        if undo:
            self._undo.append(f"{folder}/{body['metadata']['name']}")

    def _eventually(self, what: Callable[[], object], words: str) -> None:
        eventually(lambda: bool(what()), what=words)
