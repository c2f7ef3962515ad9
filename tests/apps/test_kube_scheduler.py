"""Files that people have for kube-scheduler, and what becomes of them here."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from fairlead.apps.config import kube_scheduler
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.config.extender_terms import ExtenderFiles
from fairlead.apps.config.findings import Translation
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.cluster.aspects import Aspect
from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.leadership.election import Terms
from fairlead.model.behaviour import KUBERNETES_1_36, Behaviour
from fairlead.model.errors import ConfigError
from fairlead.placement.gpus import GpuPolicy
from fairlead.plugins.registry import FILTERS, SCORES, Registry
from yaml_texts import yaml_of

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

#: Filters of Fairlead that every profile has.
ALWAYS = ("NodeEnding", "NodeCapacityType", "NodeTrusted")

#: On today's plugins alone: explicit filters, and one score.
RULES = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
         "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity")  # fmt: skip
BUILT_IN = ("SchedulingGates", "PrioritySort", "DefaultBinder")
PACKING = """
  - schedulerName: packer
    plugins:
      multiPoint:
        disabled: [{name: "*"}]
        enabled: [%s]
      score:
        disabled: [{name: "*"}]
        enabled: [{name: NodeResourcesFit, weight: 5}]
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: MostAllocated
            resources: [{name: nvidia.com/gpu, weight: 10}, {name: cpu}]
""" % ", ".join(f"{{name: {name}}}" for name in (*BUILT_IN, *RULES))  # noqa: UP031
LEAVE = "or use kube-scheduler for the pods that need it"
NOT_YET = f"is not supported yet; disable it {{}} if you do not need it, {LEAVE}"


def stand_in(name: str, **options: Any) -> type:
    """A plugin as it is agreed to become: filter and score in one, with these options."""
    made = make_dataclass(
        name, [(n, object, field(default=value)) for n, value in options.items()], frozen=True
    )
    made.name, made.reads, made.refusal, made.resolvable = name, Aspect.LABELS, "no", False
    made.allows = lambda self, request, nodes: nodes.all()
    made.rate = lambda self, request, nodes: nodes.all() * 0.0
    return made


def all_plugins(without: Sequence[str] = ()) -> Registry:
    """Every plugin that kube-scheduler's default profile needs."""
    kinds = {kind.name: kind for kind in (*FILTERS, *SCORES)}
    agreed = [
        stand_in("TaintToleration"),
        stand_in("NodeAffinity", added_affinity=None),
        stand_in("NodeResourcesFit", ignored_resources=(), ignored_resource_groups=()),
        stand_in("PodTopologySpread", default_constraints=(), defaulting="List"),
        stand_in(
            "InterPodAffinity",
            hard_pod_affinity_weight=1,
            ignore_preferred_terms_of_existing_pods=False,
        ),
        stand_in("RequestedToCapacityRatio", resources=(), shape=()),
        stand_in("NodeResourcesBalancedAllocation", resources=()),
        stand_in("VolumeBinding", shape=()),
        *map(stand_in, ("ImageLocality", "VolumeRestrictions", "NodeVolumeLimits",
                        "VolumeZone", "NodeDeclaredFeatures")),
    ]  # fmt: skip
    every = {**kinds, **{kind.name: kind for kind in agreed}}
    return Registry(kind for name, kind in every.items() if name not in without)


def read(
    text: str, registry: Registry | None = None, behaviour: Behaviour = KUBERNETES_1_36
) -> Translation:
    whole = yaml.safe_dump(HEAD) + text
    found = kube_scheduler.translate(whole, registry or all_plugins(), behaviour)
    assert found is not None
    return found


def told(findings: list[Any]) -> list[str]:
    return [str(finding) for finding in findings]


def problems(
    text: str, registry: Registry | None = None, behaviour: Behaviour = KUBERNETES_1_36
) -> list[str]:
    return told(read(text, registry, behaviour).problems)


# -- what becomes of profiles --------------------------------------------------------------------


def test_todays_plugins_serve_a_file_that_packs_gpus() -> None:
    found = read("profiles:" + PACKING, Registry())

    (profile,) = found.profiles.values()
    assert told(found.problems) == []
    assert [rule.name for rule in profile.filters] == [*RULES, *ALWAYS]
    ((score, weight),) = profile.scores
    assert (score.name, score.resources, weight) == (
        "MostAllocated", {"nvidia.com/gpu": 10, "cpu": 1}, 5.0,
    )  # fmt: skip


def test_an_empty_file_is_the_default_profile() -> None:
    found = read("")

    (profile,) = found.profiles.values()
    assert problems("") == []
    assert {score.name: weight for score, weight in profile.scores} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "LeastAllocated": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert [rule.name for rule in profile.filters] == [
        "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
        "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
        "PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures",
        *ALWAYS,
    ]  # fmt: skip


def configured(plugin: str, arguments: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {arguments}}}]}}]"


TERM = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
ADDED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
CONSTRAINT = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
OUR_TERM = {"labels": TERM["matchExpressions"], "fields": []}
OUR_CONSTRAINT = {
    "topology_key": "rack", "max_skew": 2, "when_unsatisfiable": "ScheduleAnyway"
}  # fmt: skip


@pytest.mark.parametrize(
    ("plugin", "arguments", "name", "options"),
    [
        (
            "NodeAffinity",
            {"addedAffinity": ADDED},
            "NodeAffinity",
            {"added_affinity": {"required": [OUR_TERM], "preferred": []}},
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [CONSTRAINT]},
            "PodTopologySpread",
            {"default_constraints": [OUR_CONSTRAINT], "defaulting": "List"},
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 7, "ignorePreferredTermsOfExistingPods": True},
            "InterPodAffinity",
            {"hard_pod_affinity_weight": 7, "ignore_preferred_terms_of_existing_pods": True},
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "nvidia.com/gpu"}]},
            "NodeResourcesBalancedAllocation",
            {"resources": {"cpu": 1, "nvidia.com/gpu": 1}},
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "memory"}]}},
            "LeastAllocated",
            {"resources": {"memory": 1}},
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "resources": [{"name": "nvidia.com/gpu", "weight": 3}],
                    "requestedToCapacityRatio": {
                        "shape": [
                            {"utilization": 0, "score": 0},
                            {"utilization": 100, "score": 10},
                        ]
                    },
                }
            },
            "RequestedToCapacityRatio",
            {
                "resources": {"nvidia.com/gpu": 3},
                "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
            },
        ),
    ],
)
def test_arguments_become_options(
    plugin: str, arguments: Mapping[str, Any], name: str, options: Mapping[str, Any]
) -> None:
    text = configured(plugin, yaml.safe_dump(arguments, default_flow_style=True, width=999))

    (profile,) = read(text).profiles.values()

    assert problems(text) == []
    (score,) = [score for score, _ in profile.scores if score.name == name]
    assert {n: getattr(score, n) for n in options} == options


def test_what_an_extender_counts_is_not_asked_of_nodes() -> None:
    managed = "[{name: example.com/a, ignoredByScheduler: true}, {name: example.com/b}]"
    extender = f"[{{urlPrefix: 'http://x', ignorable: true, managedResources: {managed}}}]"
    fit = configured("NodeResourcesFit", "{ignoredResources: [example.com/c]}")

    (profile,) = read(f"extenders: {extender}\n{fit}").profiles.values()

    (rule,) = [rule for rule in profile.filters if rule.name == "NodeResourcesFit"]
    assert set(rule.ignored_resources) == {"example.com/a", "example.com/c"}


def test_extenders_are_asked_in_the_order_of_kube_scheduler() -> None:
    text = """
extenders:
  - {urlPrefix: http://last, filterVerb: f, ignorable: true, httpTimeout: 2s}
  - {urlPrefix: https://first, prioritizeVerb: p, weight: 3, nodeCacheCapable: true,
     enableHTTPS: true, tlsConfig: {caFile: /ca, certFile: /c, keyFile: /k, serverName: s},
     managedResources: [{name: example.com/a}]}
  - {urlPrefix: http://silent}
"""
    first, last = read(text).extenders
    assert (first.terms.name, first.prioritize_verb, first.weight) == ("https://first", "p", 3)
    assert (first.timeout_s, first.by_name, first.https) == (5.0, True, True)
    assert first.terms.managed == {"example.com/a"}
    assert first.tls == ExtenderFiles(False, "/ca", "/c", "/k", "s")
    assert (last.terms.name, last.timeout_s, last.terms.ignorable) == ("http://last", 2.0, True)


def test_the_plugins_that_there_are_take_every_argument() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 2}],
        "requestedToCapacityRatio": {"shape": shape},
    }
    wish = {"weight": 5, "preference": deepcopy(TERM)}  # or YAML would write an alias
    added = {**ADDED, "preferredDuringSchedulingIgnoredDuringExecution": [wish]}
    arguments = {
        "NodeAffinity": {"addedAffinity": added},
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [CONSTRAINT]},
        "InterPodAffinity": {"hardPodAffinityWeight": 7},
        "NodeResourcesFit": {"ignoredResources": ["a.com/b"], "scoringStrategy": strategy},
    }
    given = [{"name": name, "args": args} for name, args in arguments.items()]
    text = yaml.safe_dump({"profiles": [{"pluginConfig": given}]})

    found = read(text, Registry())

    assert told(found.problems) == []
    (profile,) = found.profiles.values()
    rules = {rule.name: rule for rule in profile.filters}
    scores = {score.name: score for score, _ in profile.scores}
    (term,) = rules["NodeAffinity"].added_affinity.required
    assert [(line.key, line.values) for line in term.labels] == [("pool", ("gpu",))]
    assert scores["NodeAffinity"].added_affinity.preferred[0].weight == 5
    assert scores["PodTopologySpread"].default_constraints[0].topology_key == "rack"
    assert scores["InterPodAffinity"].hard_pod_affinity_weight == 7
    assert scores["RequestedToCapacityRatio"].shape[1].score == 10


def test_default_constraints_with_more_than_we_have_are_named() -> None:
    constraint = {**CONSTRAINT, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    arguments = yaml.safe_dump(
        {"defaultingType": "List", "defaultConstraints": [constraint]},
        default_flow_style=True, width=999,
    )  # fmt: skip

    told_of = problems(configured("PodTopologySpread", arguments), Registry())

    assert any("min_domains" in problem for problem in told_of)


def test_the_filter_gets_its_options_too() -> None:
    text = configured("NodeResourcesFit", "{ignoredResources: [a.com/b]}")

    (profile,) = read(text).profiles.values()

    (rule,) = [rule for rule in profile.filters if rule.name == "NodeResourcesFit"]
    assert rule.ignored_resources == ["a.com/b"]


def test_what_a_plugin_cannot_be_told_yet_is_a_problem() -> None:
    registry = all_plugins(without=["NodeResourcesFit"])
    registry.add(stand_in("NodeResourcesFit"))

    (problem,) = problems(configured("NodeResourcesFit", "{ignoredResources: [a/b]}"), registry)

    key = "profiles[0].pluginConfig.NodeResourcesFit.args.ignoredResources"
    assert problem == f"{key}: is not supported yet; remove it, {LEAVE}"


def test_preemption_is_taken_over() -> None:
    (evicts,) = read("").profiles.values()
    (patient,) = read(disabled("postFilter", "DefaultPreemption")).profiles.values()

    assert (evicts.preempts, patient.preempts) == (True, False)


def test_what_the_registry_lacks_is_not_honoured_yet() -> None:
    missing = all_plugins(without=["VolumeZone", "ImageLocality"])

    assert problems("", missing) == [
        f"profiles[0].plugins.filter: VolumeZone {NOT_YET.format('at multiPoint')}",
        f"profiles[0].plugins.score: ImageLocality {NOT_YET.format('here')}",
    ]


def test_a_filter_that_is_no_score_is_missing_as_a_score() -> None:
    @dataclass(frozen=True)
    class OnlyFilters:
        name: ClassVar[str] = "TaintToleration"
        reads: ClassVar[Aspect] = Aspect.TAINTS
        refusal: ClassVar[str] = "no"
        resolvable: ClassVar[bool] = False

        def allows(self, request: Any, nodes: Any) -> Any:
            return nodes.all()

    registry = all_plugins(without=["TaintToleration"])
    registry.add(OnlyFilters)

    assert problems("", registry) == [
        f"profiles[0].plugins.score: TaintToleration {NOT_YET.format('here')}"
    ]


# -- what cannot be honoured ---------------------------------------------------------------------


def disabled(point: str, *names: str) -> str:
    listed = ", ".join(f'{{name: "{name}"}}' for name in names)
    return f"profiles: [{{plugins: {{{point}: {{disabled: [{listed}]}}}}}}]"


def enabled(point: str, name: str) -> str:
    return f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: {name}}}]}}}}}}]"


BOTH = "enable both or disable both"
MEANT = "unknown plugin 'NodeResourceFit'; did you mean 'NodeResourcesFit'?"
WRITE_ONE = f"write it as a Fairlead plugin (docs/plugins.md), {LEAVE}"
PLUGINS, ARGS = "profiles[0].plugins", "profiles[0].pluginConfig[0]"


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        (enabled("score", "NodeResourceFit"), f"{PLUGINS}.score.enabled[0]", MEANT),
        (configured("NodeResourceFit", "{}"), f"{ARGS}.name", MEANT),
        (
            enabled("multiPoint", "Trimaran"),
            f"{PLUGINS}.multiPoint.enabled[0]",
            f"'Trimaran' is a plugin of neither kube-scheduler nor Fairlead; {WRITE_ONE}",
        ),
        (
            enabled("filter", "ImageLocality"),
            f"{PLUGINS}.filter.enabled[0]",
            "ImageLocality does not work at this extension point; it works at score",
        ),
        (
            configured("NodeResourcesFit", "{scoringStrategi: {}}"),
            f"{ARGS}.args",
            "unknown key 'scoringStrategi'; did you mean 'scoringStrategy'?",
        ),
        (
            configured("NodeResourcesFit", "{scoringStrategy: {typ: LeastAllocated}}"),
            f"{ARGS}.args",
            f"unknown key 'typ' at {ARGS}.args.scoringStrategy; did you mean 'type'?",
        ),
        (
            disabled("preEnqueue", "SchedulingGates"),
            f"{PLUGINS}.preEnqueue",
            "SchedulingGates is built into Fairlead and cannot be disabled; leave it enabled",
        ),
        (
            disabled("multiPoint", "NodeResourcesFit"),
            f"{PLUGINS}.filter",
            "NodeResourcesFit is required: without it nodes are overcommitted; enable it",
        ),
        (
            disabled("preFilter", "NodePorts"),
            f"{PLUGINS}.preFilter",
            f"NodePorts is on at filter and off at preFilter; {BOTH}",
        ),
        (
            disabled("filter", "VolumeBinding"),
            f"{PLUGINS}.preFilter",
            f"VolumeBinding is off at filter and on at preFilter; {BOTH}",
        ),
        (
            disabled("preBind", "VolumeBinding"),
            f"{PLUGINS}.preBind",
            f"VolumeBinding is on at filter and off at preBind; {BOTH}",
        ),
        (
            disabled("preScore", "InterPodAffinity"),
            f"{PLUGINS}.preScore",
            f"InterPodAffinity is on at score and off at preScore; {BOTH}",
        ),
        (
            enabled("multiPoint", "GangScheduling"),
            f"{PLUGINS}.permit",
            f"GangScheduling is not supported: Fairlead has no pod groups; disable it, {LEAVE}",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', filterVerb: f, bindVerb: b}]",
            "extenders[0].bindVerb",
            f"Fairlead writes Bindings itself, and no extender can; remove bindVerb, {LEAVE}",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', filterVerb: f, preemptVerb: p}]",
            "extenders[0].preemptVerb",
            f"Fairlead chooses the pods to evict without extenders; remove preemptVerb, {LEAVE}",
        ),
        (
            "extenders: [{urlPrefix: 'gpus.local', filterVerb: f}]",
            "extenders[0].urlPrefix",
            "'gpus.local' is not a valid URL; use http://… or https://…",
        ),
        (
            "extenders: [{urlPrefix: 'http://me:secret@x', filterVerb: f}]",
            "extenders[0].urlPrefix",
            "it has a user, a query or a fragment, which users would see; remove it",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', filterVerb: f, httpTimeout: 1h}]",
            "extenders[0].httpTimeout",
            "'1h' is not usable; use a value such as 5s, at most 60s",
        ),
        (
            "extenders: [{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {caData: eA==}}]",
            "extenders[0].tlsConfig",
            "write the path of a file: Fairlead reads certFile, keyFile and caFile",
        ),
        (
            configured("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
            f"{ARGS}.args.hardPodAffinityWeight",
            "101 is too large; use 0 to 100",
        ),
        (
            "percentageOfNodesToScore: -1",
            "percentageOfNodesToScore",
            "-1 is too small; use 0 to 100",
        ),
    ],
)
def test_what_cannot_be_honoured_names_the_key_and_what_to_do(
    text: str, key: str, says: str
) -> None:
    assert problems(text) == [f"{key}: {says}"]


@pytest.mark.parametrize(
    "text",
    [
        disabled("filter", "NodePorts"),
        disabled("score", "*"),
        disabled("score", "TaintToleration"),
        disabled("multiPoint", "VolumeZone", "VolumeBinding", "ImageLocality"),
        disabled("multiPoint", "DynamicResources"),
        enabled("score", "ImageLocality"),
        "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {}, pluginConfig: []}]",
    ],
)
def test_these_are_honoured(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("apiVersion: kubescheduler.config.k8s.io/v1beta1", "apiVersion must be kubescheduler"),
        ("apiVersion: kubescheduler.config.k8s.io/v1beta3", "io/v1, then replace SelectorSpread"),
        ("apiVersion: kubescheduler.config.k8s.io/v1beta2", "and set the weights of "),
        ("kind: SchedulerConfiguration", "kind must be KubeSchedulerConfiguration"),
        ("paralelism: 3", "unknown key 'paralelism'; did you mean 'parallelism'?"),
        ("profiles: [{plugins: {skore: {}}}]", ("unknown key 'skore' at $.profiles[0].plugins; "
         "did you mean 'score'?")),
        ("profiles: [{plugins: {score: {enable: []}}}]", "did you mean 'enabled'?"),
        ("profiles: [{plugins: {score: {enabled: [{nam: X}]}}}]", "did you mean 'name'?"),
        ("parallelism: many", "Expected `int`, got `str` - at `$.parallelism`"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused_as_a_whole(text: str, says: str) -> None:
    whole = yaml.safe_dump({**HEAD, **yaml_of(text)})
    with pytest.raises(ConfigError) as caught:
        kube_scheduler.translate(whole, all_plugins(), KUBERNETES_1_36)
    assert says in str(caught.value)


# -- plugins that are not kube-scheduler's own ---------------------------------------------------


ALNAIR = """
profiles:
  - schedulerName: alnair-cost-saving
    plugins:
      preFilter: {enabled: [{name: alnaircostsaving}]}
      filter: {enabled: [{name: alnaircostsaving}]}
      score:
        disabled: [{name: "*"}]
        enabled: [{name: alnaircostsaving, weight: 5}]
      reserve: {enabled: [{name: alnaircostsaving}]}
    pluginConfig: [{name: alnaircostsaving, args: {any: 1}}]
"""


def test_a_plugin_of_an_older_gpu_scheduler_becomes_ours() -> None:
    found = read(ALNAIR, Registry())
    profile = found.profiles["alnair-cost-saving"]
    assert found.problems == []
    assert profile.grants_gpus
    assert [(score.name, weight) for score, weight in profile.scores] == [("GpuPacking", 5.0)]
    assert "profiles[0].plugins: alnaircostsaving becomes GpuFit and GpuPacking of Fairlead" in (
        list(map(str, found.notes))
    )
    (fit,) = [rule for rule in profile.filters if rule.name == "NodeResourcesFit"]
    assert fit.ignores("nvidia.com/gpumem")


@pytest.mark.parametrize(
    ("name", "score"), [("utilsched", "UtilSched"), ("GpuBestFit", "GpuBestFit")]
)
def test_scores_of_ours_may_be_named(name: str, score: str) -> None:
    text = enabled("score", name)
    assert problems(text) == []
    (profile,) = read(text).profiles.values()
    assert (score, 1.0) in [(each.name, weight) for each, weight in profile.scores]


def test_high_performance_spreads_shares() -> None:
    (profile,) = read(enabled("multiPoint", "alnairhighperformance")).profiles.values()
    assert profile.gpus is GpuPolicy.SPREAD
    assert profile.grants_gpus


# -- what does no harm ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("parallelism: 32", "parallelism: ignored: Fairlead evaluates all nodes at once"),
        (
            "percentageOfNodesToScore: 50",
            "percentageOfNodesToScore: ignored: Fairlead evaluates all",
        ),
        ("podMaxBackoffSeconds: 60", "podMaxBackoffSeconds: ignored: the backoff of Fairlead"),
        ("clientConnection: {qps: 5}", "clientConnection.qps: ignored: the API server sets"),
        ("enableProfiling: false", "enableProfiling: ignored"),
        (disabled("score", "NodeAfinity"), "disabled[0]: unknown plugin 'NodeAfinity'; did"),
        (
            configured("DefaultPreemption", "{minCandidateNodesPercentage: 50}"),
            "profiles[0].pluginConfig[0].args: ignored: Fairlead searches all nodes for pods",
        ),
        (configured("NodeName", "{a: 1}"), "args: ignored: NodeName takes no arguments"),
        ("", "profiles[0].schedulerName: pods of 'default-scheduler' are served"),
        (
            configured("DynamicResources", "{filterTimeout: 5s}"),
            "profiles[0].pluginConfig[0].args: ignored: Fairlead limits searches by their",
        ),
    ],
)
def test_what_does_no_harm_is_a_note(text: str, says: str) -> None:
    found = told(read(text).notes)
    assert any(says in note for note in found), found
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    ["parallelism: 16", "leaderElection: {leaderElect: true}", "podInitialBackoffSeconds: 1"],
)
def test_a_default_is_not_worth_a_note(text: str) -> None:
    assert told(read(text).notes) == told(read("").notes)


# -- running it ----------------------------------------------------------------------------------


def planned(tmp_path: Path, text: str, **options: Any) -> Any:
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(HEAD) + text)
    return plan(RunOptions(config=file, **options))


def test_leader_election_is_taken_over(tmp_path: Path) -> None:
    text = "leaderElection: {leaderElect: true, leaseDuration: 30s, resourceName: mine}"
    told_by_option = ElectionOptions(retry_period="3s")
    found = planned(tmp_path, text, electing=told_by_option).electing
    terms = found.terms(Access("http://x", None, Static({})))
    assert terms == Terms("mine", "kube-system", lease_s=30, renew_s=10, retry_s=3)


def test_run_serves_the_names_of_the_file(tmp_path: Path) -> None:
    text = "profiles:" + PACKING + PACKING.replace("packer", "other")

    assert set(planned(tmp_path, text).profiles) == {"packer", "other"}
    assert set(planned(tmp_path, text, scheduler_name="other").profiles) == {"other"}
    assert planned(tmp_path, text, port=0).port == 0
    assert told(planned(tmp_path, "parallelism: 3\n" + text).notes) != []


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("profiles:" + PACKING, {"scheduler_name": "c"}, "serves packer, but not 'c'"),
        (
            "profiles:" + PACKING,
            {"profile": "spread", "scheduler_name": "packer"},
            "defines its own profiles; remove --profile",
        ),
        ("parallelism: 0\nprofiles:" + PACKING, {}, "scheduler.yaml: parallelism: 0 is too small"),
        ("parallelism: 0\nprofiles: [{}, {}]", {}, r"more: `fairlead check-config .*yaml`\)"),
    ],
)
def test_run_refuses_what_cannot_be_honoured_in_one_line(
    tmp_path: Path, text: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        planned(tmp_path, text, **options)
    assert "\n" not in str(caught.value)
