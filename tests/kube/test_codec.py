import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest

from fairlead.kube.codec import decode_node, decode_pod
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.errors import QuantityError
from fairlead.model.nodes import GPU, Image
from fairlead.model.pods import HostPort, NodeTerm, Pod, PreferredTerm, Taint, Toleration
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule


def pod(spec: dict[str, Any] | None = None, **more: Any) -> Pod:
    container = {"name": "main", "resources": {"requests": {GPU: "1"}}}
    wire = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "spec": {"containers": [container], **(spec or {})},
        "status": {"phase": "Pending"},
        **more,
    }
    return decode_pod(json.dumps(wire).encode())


def test_the_least_there_can_be() -> None:
    found = decode_pod(b'{"metadata":{"name":"p"},"spec":{}}')
    assert (found.key, found.node, found.finished, found.problem) == ("/p", "", False, "")


def test_equal_pods_share_one_request() -> None:
    assert pod().request is pod().request
    assert pod().request is not pod({"nodeSelector": {"a": "b"}}).request


def test_large_pods_are_not_remembered() -> None:
    large = {"nodeSelector": {"a": "v" * 40_000}}
    assert pod(large).request == pod(large).request
    assert pod(large).request is not pod(large).request


def test_what_decides_about_placing_is_read() -> None:
    found = pod({
        "schedulerName": "gpu-scheduler",
        "priority": 5,
        "schedulingGates": [{"name": "g"}],
        "nodeSelector": {"b": "2", "a": "1"},
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        "affinity": {
            "podAffinity": {"ignored": True},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]},
                        {},
                    ]
                }
            },
        },
        "containers": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "500m", GPU: "2"}},
                "ports": [
                    {"hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"},
                    {"containerPort": 81},
                ],
            }
        ],
    })  # fmt: skip
    request = found.request
    assert (found.scheduler, found.priority, found.gates) == ("gpu-scheduler", 5, ("g",))
    assert dict(request.resources) == {"cpu": 500, GPU: 2}
    assert request.node_selector == (("a", "1"), ("b", "2"))
    assert request.tolerations == (Toleration("k", "Exists"),)
    assert request.node_terms == (NodeTerm((Requirement("z", "In", ("a",)),)), NodeTerm())
    assert request.host_ports == (HostPort(8080, "UDP", "10.0.0.1"),)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminal_pods_are_finished(phase: str) -> None:
    assert pod(status={"phase": phase}).finished


def test_the_condition_is_remembered_while_it_is_false() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "R", "message": "m"}
    assert pod(status={"conditions": [condition]}).condition == ("R", "m")
    assert pod(status={"conditions": [{**condition, "status": "True"}]}).condition == ("", "")


@pytest.mark.parametrize(
    ("quantity", "says"),
    [
        ("-1", "it requests -1 nvidia.com/gpu; request zero or more"),
        ("many", "'many' is not a quantity"),
        ("", "'' is not a quantity"),
        ("٣", "is not a quantity"),
    ],
)
def test_nonsense_is_a_problem_of_the_pod_and_no_exception(quantity: str, says: str) -> None:
    found = pod({"containers": [{"resources": {"requests": {GPU: quantity}}}]})
    assert says in found.problem
    assert found.problem.startswith("the pod is invalid: ")


TERM = {"topologyKey": "zone", "labelSelector": {}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_the_claims_of_a_pod_are_those_of_spec_and_status() -> None:
    entries = [
        {"name": "direct", "resourceClaimName": "mine"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "unneeded", "resourceClaimTemplateName": "t"},
        {"name": "later", "resourceClaimTemplateName": "t"},
    ]
    made = [{"name": "made", "resourceClaimName": "p-made-x7k2p"}, {"name": "unneeded"}]
    found = pod({"resourceClaims": entries}, status={"resourceClaimStatuses": made})
    owner = (found.key, found.uid)

    assert found.problem == ""
    assert found.request.claims == (
        ClaimUse("direct", f"{found.namespace}/mine"),
        ClaimUse("made", f"{found.namespace}/p-made-x7k2p", *owner, "t"),
        ClaimUse("later", "", *owner, "t"),
    )
    assert pod({"resourceClaims": None}).request.claims == ()


def test_claims_of_a_pod_of_a_group_may_be_claims_of_the_group() -> None:
    entries = [{"name": "direct", "resourceClaimName": "mine"}]
    group = {"podGroupName": "g"}
    found = pod({"resourceClaims": entries, "schedulingGroup": group})
    assert found.request.claims == (ClaimUse("direct", "ns/mine", group="ns/g"),)


@pytest.mark.parametrize("entries", [[{"name": "gpu"}], [{}], {"name": "gpu"}])
def test_claims_that_make_no_sense_are_a_problem_of_the_pod(entries) -> None:
    assert pod({"resourceClaims": entries}).problem.startswith("the pod is invalid: ")


def test_what_a_pod_wants_of_other_pods_is_read() -> None:
    terms = [TERM, {**TERM, "namespaces": ["b"], "labelSelector": {"matchLabels": {"a": "b"}}}]
    selector = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    found = pod({
        "affinity": {
            "podAffinity": {REQUIRED: terms},
            "podAntiAffinity": {REQUIRED: [{**TERM, "namespaceSelector": {}}]},
        },
        "topologySpreadConstraints": [
            {**SPREAD, "labelSelector": selector, "minDomains": 3, "nodeTaintsPolicy": "Honor"}
        ],
    }).request  # fmt: skip
    everything, a_is_b = LabelSelector(), LabelSelector((Requirement("a", "In", ("b",)),))
    assert found.required_affinity == (
        PodTerm("zone", everything, ("ns",)),
        PodTerm("zone", a_is_b, ("b",)),
    )
    assert found.anti_affinity == (PodTerm("zone", everything, (), everything),)
    has_a = LabelSelector((Requirement("a", "Exists"),))
    assert found.spread == (SpreadRule("zone", 1, has_a, min_domains=3, honours_taints=True),)


def test_soft_rules_that_are_not_known_do_not_keep_a_pod_waiting() -> None:
    soft = {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}
    prefers = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    spec = {"topologySpreadConstraints": [soft], "affinity": {"podAntiAffinity": prefers}}
    assert pod(spec).problem == ""


def test_nulls_are_absences() -> None:
    found = pod({
        "nodeSelector": None, "tolerations": None, "affinity": None, "overhead": None,
        "initContainers": None, "schedulingGates": None, "priority": None,
        "containers": [{"name": "c", "resources": {"requests": None}, "ports": None}],
    })  # fmt: skip
    assert (found.request.resources, found.problem) == ((), "")


class TestUsage:
    """What a bound pod takes, after kubelets resized it or could not: in 1.36, and in 1.37."""

    CONTAINERS: ClassVar = [
        {"name": "a", "resources": {"requests": {"cpu": "1"}}},
        {"name": "b", "resources": {"requests": {"cpu": "2"}}},
    ]
    INIT: ClassVar = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
    ]
    INFEASIBLE: ClassVar = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]

    def usage(self, status: dict[str, Any], **spec: Any) -> list[int | None]:
        """Of cpu, in cores as both versions count it; half ones are not used here."""
        wire = {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"containers": self.CONTAINERS, "nodeName": "n", **spec},
            "status": status,
        }
        raw = json.dumps(wire).encode()
        found = [decode_pod(raw, known) for known in (KUBERNETES_1_36, KUBERNETES_1_37)]
        assert [one.problem for one in found] == ["", ""]
        return [dict(one.usage).get("cpu", 0) // 1000 for one in found]

    def told(self, name: str, cpu: str = "", allocated: str = "") -> dict[str, Any]:
        actual = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
        more = {"allocatedResources": {"cpu": allocated}} if allocated else {}
        return {"name": name, **actual, **more}

    def test_without_a_word_from_the_kubelet_the_spec_counts(self) -> None:
        assert self.usage({}) == [3, 3]

    def test_the_largest_counts_container_by_container_or_in_total(self) -> None:
        statuses = [self.told("b", "1", "1"), self.told("a", "2", "2")]
        assert self.usage({"containerStatuses": statuses}) == [4, 3]

    def test_allocated_and_actual_may_both_be_the_largest(self) -> None:
        statuses = [self.told("b", "1"), self.told("a", "4", "3")]
        assert self.usage({"containerStatuses": statuses}) == [6, 5]
        statuses = [self.told("b", "2", "2"), self.told("a", "1", "7")]
        assert self.usage({"containerStatuses": statuses}) == [9, 9]

    def test_an_allocation_alone_counts_since_1_37(self) -> None:
        assert self.usage({"containerStatuses": [self.told("a", allocated="5")]}) == [3, 7]

    def test_a_resize_that_cannot_be_granted_does_not_count(self) -> None:
        asked = [{"name": "a", "resources": {"requests": {"cpu": "9"}}}, self.CONTAINERS[1]]
        status = {
            "containerStatuses": [self.told("a", "1"), self.told("b", "2")],
            "conditions": self.INFEASIBLE,
        }
        assert self.usage(status, containers=asked) == [3, 3]

    def test_nor_does_anything_unreported_beside_it_since_1_37(self) -> None:
        status = {"containerStatuses": [self.told("a", "1")], "conditions": self.INFEASIBLE}
        assert self.usage(status) == [3, 1]
        assert self.usage({"conditions": self.INFEASIBLE}) == [3, 0]

    def test_sidecars_are_resized_too_and_plain_init_containers_since_1_37(self) -> None:
        status = {"initContainerStatuses": [self.told("s", "2"), self.told("i", "50")]}
        assert self.usage(status, initContainers=self.INIT) == [5, 52]

    def test_the_sums_of_the_pod_replace_those_of_its_containers_since_1_37(self) -> None:
        status = {
            "containerStatuses": [self.told("a", "9", "9")],
            "resources": {"requests": {"cpu": "4"}},
            "allocatedResources": {"cpu": "5"},
        }
        assert self.usage(status) == [11, 5]

    def test_one_of_the_two_sums_is_not_enough(self) -> None:
        statuses = [self.told("a", "9", "9")]
        allocated = {"containerStatuses": statuses, "allocatedResources": {"cpu": "5"}}
        actual = {"containerStatuses": statuses, "resources": {"requests": {"cpu": "5"}}}
        assert self.usage(allocated) == self.usage(actual) == [11, 11]

    def test_a_resize_of_the_pod_as_a_whole_counts_with_its_largest(self) -> None:
        of_pod = {"requests": {"cpu": "4"}}
        status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "7"}}
        assert self.usage({}, resources=of_pod) == [4, 4]
        assert self.usage(status, resources=of_pod) == [7, 7]
        infeasible = {
            "resources": {"requests": {"cpu": "2"}},
            "allocatedResources": {"cpu": "2"},
            "conditions": self.INFEASIBLE,
        }
        assert self.usage(infeasible, resources=of_pod) == [2, 2]

    def test_what_only_the_status_has_replaces_the_sum_since_1_37(self) -> None:
        status = {"resources": {"requests": {"memory": "1Gi", "cpu": "6"}}}
        assert self.usage(status, resources={"requests": {"memory": "1Gi"}}) == [3, 6]

    def test_overhead_comes_on_top(self) -> None:
        statuses = [self.told("b", "1", "1"), self.told("a", "2", "2")]
        assert self.usage({"containerStatuses": statuses}, overhead={"cpu": "1"}) == [5, 4]


def test_nodes() -> None:
    wire = {
        "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]},
        "status": {"allocatable": {"cpu": "8", GPU: "4", "memory": "1Ki"}},
    }
    node = decode_node(json.dumps(wire).encode())
    assert dict(node.allocatable) == {"cpu": 8000, GPU: 4, "memory": 1024}
    assert (node.labels, node.annotations) == ({"a": "b"}, {"c": "d"})
    assert (node.taints, node.unschedulable) == ((Taint("k", "", "NoExecute"),), True)


def test_a_node_without_status_has_nothing_to_give() -> None:
    assert decode_node(b'{"metadata":{"name":"n"}}').allocatable == ()


def test_a_node_that_cannot_be_understood_is_an_error_that_says_where() -> None:
    wire = b'{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"lots"}}}'
    with pytest.raises(QuantityError, match=r"status\.allocatable: 'lots' is not a quantity"):
        decode_node(wire)


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_wishes_are_read() -> None:
    about = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    found = pod(
        {
            "affinity": {
                "nodeAffinity": {
                    PREFERRED: [
                        {
                            "weight": 7,
                            "preference": {
                                "matchExpressions": [{"key": "disk", "operator": "Exists"}]
                            },
                        }
                    ]
                },
                "podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": about}]},
                "podAntiAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": about}]},
            },
            "topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
            ],
        }
    ).request
    term = PodTerm("zone", LabelSelector((Requirement("app", "In", ("web",)),)), ("ns",))
    assert found.preferred == (PreferredTerm(7, NodeTerm((Requirement("disk", "Exists"),))),)
    assert found.preferred_affinity == ((term, 5), (term, -3))
    assert found.soft_spread == (SpreadRule("zone", 2, None),)
    assert found.spread == (SpreadRule("rack", 1, None),)


def test_what_images_may_score_grows_with_image_volumes_since_1_37() -> None:
    volumes = [{"name": "v", "image": {"reference": "vol"}}, {"name": "w", "emptyDir": {}}]
    spec = {"containers": [{"name": "c", "image": "a"}], "volumes": volumes}
    raw = json.dumps({"metadata": {"name": "p"}, "spec": spec}).encode()
    found = [decode_pod(raw, known) for known in (KUBERNETES_1_36, KUBERNETES_1_37)]
    assert [one.containers for one in found] == [1, 2]
    assert found[0].images == found[1].images == ("a:latest", "vol:latest")


def test_images_get_the_tag_that_nodes_know_them_by() -> None:
    images = ["a", "b:1", "host:5000/c", "host:5000/d:2", "e@sha256:0"]
    found = pod(
        {
            "initContainers": [{"name": "i", "image": "init"}],
            "containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)],
            "volumes": [
                {"name": "v", "image": {"reference": "vol"}},
                {"name": "w", "emptyDir": {}},
            ],
        }
    )
    assert found.containers == 6
    assert found.images == (
        "init:latest", "a:latest", "b:1", "host:5000/c:latest", "host:5000/d:2", "e@sha256:0",
        "vol:latest",
    )  # fmt: skip
    assert found.request.images == ()


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({}, ()),
        ({"hostNetwork": True}, ()),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        (
            {"initContainers": [
                {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
            ]},
            ("RestartAllContainersOnContainerExits",),
        ),
    ],
)  # fmt: skip
def test_what_a_pod_needs_of_the_kubelet(spec, features) -> None:
    assert pod(spec).request.features == features


def test_pod_level_requests_are_scored_once_the_pod_is_there() -> None:
    mib = 1 << 20
    found = pod(
        {
            "resources": {"requests": {"cpu": "2"}},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}],
        }
    )
    assert dict(found.request.resources) == {"cpu": 2000}
    assert found.request.scored == (1100, 400 * mib)
    assert found.held_scored == (2000, 400 * mib)
    plain = pod({"containers": [{"name": "a"}]})
    assert plain.request.scored == plain.held_scored == (100, 200 * mib)


MANY = range(10_001)
NODE_RULE = "requiredDuringSchedulingIgnoredDuringExecution"


def _spread(many: Iterable[int]) -> dict[str, Any]:
    rule = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return {"topologySpreadConstraints": [{**rule, "topologyKey": f"key-{n}"} for n in many]}


def _on_nodes(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    found = [{"matchExpressions": lines} for lines in terms]
    return {"affinity": {"nodeAffinity": {NODE_RULE: {"nodeSelectorTerms": found}}}}


def _apart(**term: Any) -> dict[str, Any]:
    found = {"topologyKey": "zone", "labelSelector": {}, **term}
    return {"affinity": {"podAntiAffinity": {NODE_RULE: [found]}}}


def _named(many: Iterable[int]) -> dict[str, Any]:
    return {"key": "k", "operator": "NotIn", "values": [f"v{n}" for n in many]}


@pytest.mark.parametrize(
    "spec",
    [
        _spread(MANY),
        _on_nodes([{"key": f"k{n}", "operator": "Exists"} for n in MANY]),
        _on_nodes(*([{"key": f"k{n}", "operator": "Exists"}] for n in MANY)),
        {"nodeSelector": {f"k{n}": "v" for n in MANY}},
    ],
    ids=["spread", "lines about nodes", "terms about nodes", "node selector"],
)
def test_thousands_of_rules_are_refused_for_a_pod_that_waits(spec: dict[str, Any]) -> None:
    assert pod(spec).problem == "the pod has 10001 placement rules; the limit is 128"
    # its node stays trusted
    assert pod({**spec, "nodeName": "n"}).problem == ""


def test_hundreds_of_kinds_of_resources_are_refused_for_a_pod_that_waits() -> None:
    asked = {f"example.com/r{n}": "1" for n in range(65)}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]}
    message = "the pod requests 65 kinds of resources; the limit is 64"
    assert pod(spec).problem == message
    assert pod({**spec, "nodeName": "n"}).problem == ""
    assert len(pod({**spec, "nodeName": "n"}).usage) == 65


@pytest.mark.parametrize(
    "rule",
    [
        lambda many: _on_nodes([_named(many)]),
        lambda many: _apart(labelSelector={"matchExpressions": [_named(many)]}),
        lambda many: _apart(namespaces=[f"n{n}" for n in many]),
    ],
    ids=["nodes", "pods", "namespaces"],
)
def test_thousands_of_values_are_refused_for_a_pod_that_waits(
    rule: Callable[[Iterable[int]], dict[str, Any]],
) -> None:
    problem = pod(rule(MANY)).problem
    assert problem.startswith("the placement rules of the pod name 1000")
    assert problem.endswith(" values and namespaces; the limit is 10000")
    assert pod({**rule(MANY), "nodeName": "n"}).problem == ""
    assert pod(rule(range(9_999))).problem == ""


def test_who_has_thousands_of_rules_has_no_say_in_who_joins_it() -> None:
    reasonable, unreasonable = _apart(), _apart(namespaces=[f"n{n}" for n in MANY])
    assert pod({**reasonable, "nodeName": "n"}).request.anti_affinity
    assert not pod({**unreasonable, "nodeName": "n"}).request.anti_affinity


def test_what_a_node_has_and_can_do() -> None:
    wire = {
        "metadata": {"name": "n"},
        "status": {
            "images": [{"names": ["x@sha256:0", "x:1"], "sizeBytes": 5}, {"sizeBytes": 7}],
            "declaredFeatures": ["F"],
        },
    }
    raw = json.dumps(wire).encode()
    found = decode_node(raw)
    assert found.images == (Image(("x@sha256:0", "x:1"), 5), Image((), 7))
    assert found.features == ("F",)
    assert decode_node(raw).images[0] is found.images[0], "equal images are kept once"


def test_nodes_share_the_text_of_their_labels() -> None:
    first, second = (
        decode_node(json.dumps({"metadata": {"name": name, "labels": {"a/b": "yes"}}}).encode())
        for name in ("n1", "n2")
    )
    assert [*map(id, (*first.labels, *first.labels.values()))] == [
        *map(id, (*second.labels, *second.labels.values()))
    ]
