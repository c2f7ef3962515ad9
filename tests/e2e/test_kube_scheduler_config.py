"""The real kube-scheduler reads the same files: what it makes of them is what we make of them.

With --write-config-to it completes its configuration, lists the plugins of every extension point in
its log, writes the arguments with their defaults, and ends; it talks to no API server for that.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from examples import examples
from fairlead.apps.config import kube_scheduler, typed_yaml
from fairlead.apps.config.findings import Translation
from fairlead.apps.config.kube_scheduler import format as formats
from fairlead.apps.config.kube_scheduler.args import KINDS
from fairlead.apps.config.kube_scheduler.catalogue import Catalogue, catalogue_of
from fairlead.apps.config.kube_scheduler.merging import merge
from fairlead.model.behaviour import KNOWN, KUBERNETES_1_36, Behaviour, behaviour_of
from fairlead.plugins.registry import Registry
from fairleads import FAIRLEAD, PATIENCE_S, eventually, fairlead
from preloaded import run
from yaml_texts import yaml_of

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:9"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": ""}}],
    "current-context": "none",
}


@dataclass(frozen=True)
class Completed:
    """What kube-scheduler made of a file: its error, or plugins and arguments by profile."""

    error: str = ""
    points: tuple[Mapping[str, list[tuple[str, int]]], ...] = ()
    args: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class KubeScheduler:
    program: Path
    folder: Path
    behaviour: Behaviour

    @property
    def catalogue(self) -> Catalogue:
        """Our table of its plugins."""
        return catalogue_of(self.behaviour)

    def translate(self, config: Mapping[str, Any]) -> Translation:
        """What we make of the file where it would run."""
        text = json.dumps(self.whole(config))
        found = kube_scheduler.translate(text, Registry(), self.behaviour)
        assert found is not None
        return found

    def complete(self, config: Mapping[str, Any]) -> Completed:
        written, out = self.folder / "config.yaml", self.folder / "completed.yaml"
        written.write_text(json.dumps(self.whole(config)))
        out.unlink(missing_ok=True)
        command = [self.program, f"--config={written}", f"--write-config-to={out}", "--v=2",
                   "--logging-format=json", "--authentication-skip-lookup=true",
                   "--secure-port=0"]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        lines = [json.loads(line) for line in done.stderr.splitlines() if line[:1] == "{"]
        if done.returncode != 0:
            return Completed(error=next(line["err"] for line in lines if "err" in line))
        listed = [line["Plugins"] for line in lines if "starts to work with" in line["msg"]]
        profiles = yaml_of(out)["profiles"]
        return Completed("", tuple(map(_points, listed)), tuple(map(_args, profiles)))

    def whole(self, config: Mapping[str, Any]) -> dict[str, Any]:
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(KUBECONFIG))
        election = {"leaderElect": False, **config.get("leaderElection", {})}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **config,
            "leaderElection": election,
            "clientConnection": {
                "kubeconfig": str(kubeconfig), **config.get("clientConnection", {})
            },
        }  # fmt: skip


def _points(listed: Mapping[str, Any]) -> dict[str, list[tuple[str, int]]]:
    return {
        point[0].lower() + point[1:]: [
            (plugin["Name"], plugin["Weight"] if point == "Score" else 0)
            for plugin in found["Enabled"] or ()
        ]
        for point, found in listed.items()
        if point != "MultiPoint"
    }


def _args(profile: Mapping[str, Any]) -> dict[str, Any]:
    ignored = ("apiVersion", "kind")
    return {
        given["name"]: {k: v for k, v in given["args"].items() if k not in ignored}
        for given in profile["pluginConfig"]
        if given["name"] in KINDS
    }


@pytest.fixture(scope="module")
def oracle(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> KubeScheduler:
    program = assets / "kube-scheduler"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    major, minor = map(int, re.findall(r"\d+", told.stdout)[:2])
    return KubeScheduler(program, tmp_path_factory.mktemp("config"), behaviour_of(major, minor))


def ours(config: Mapping[str, Any], catalogue: Catalogue) -> Completed:
    """The same from our own reading."""
    read = typed_yaml.shaped(formats.without_nulls(config), formats.Configuration, str)
    points, arguments = [], []
    for profile in read.profiles or [formats.KubeSchedulerProfile()]:
        merged = merge(profile.plugins, "plugins", catalogue)
        weights = merged.weights
        points.append({
            point: [(name, weights[name] if point == "score" else 0) for name in names]
            for point, names in merged.points.items()
        })  # fmt: skip
        said = Translation({})
        found = kube_scheduler._Reader(Registry(), catalogue, said).arguments(profile, "profiles")
        assert not said.problems
        plain = {name: json.loads(msgspec.json.encode(a)) for name, a in found.items()}
        arguments.append({
            name: {k: v for k, v in a.items() if k not in ("apiVersion", "kind")}
            for name, a in plain.items()
        })  # fmt: skip
    return Completed("", tuple(points), tuple(arguments))


def plugins(**points: dict[str, Any]) -> dict[str, Any]:
    return {"profiles": [{"plugins": points}]}


def on(*names: str, **weights: int) -> list[dict[str, Any]]:
    return [{"name": n} for n in names] + [{"name": n, "weight": w} for n, w in weights.items()]


def args(plugin: str, **given: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": given}]}]}


ALL = on("*")
KEPT = on("PrioritySort", "DefaultBinder", "SchedulingGates")
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]

ACCEPTED: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "one profile without a name": {"profiles": [{}]},
    "a default again, without its weight": plugins(multiPoint={"enabled": on("NodeAffinity")}),
    "a default with another weight": plugins(multiPoint={"enabled": on(ImageLocality=9)}),
    "a weight for the score alone": plugins(score={"enabled": on(PodTopologySpread=7)}),
    "both weights at once": plugins(
        multiPoint={"enabled": on(NodeAffinity=5)}, score={"enabled": on(NodeAffinity=3)}
    ),
    "a weight of zero": plugins(score={"enabled": on(TaintToleration=0)}),
    "all scores but one": plugins(score={"disabled": ALL, "enabled": on(NodeResourcesFit=1)}),
    "one score less": plugins(score={"disabled": on("ImageLocality")}),
    "disabled and enabled again goes last": plugins(
        multiPoint={"disabled": on("NodeName"), "enabled": on("NodeName")}
    ),
    "disabled everywhere, enabled as a filter": plugins(
        multiPoint={"disabled": on("NodeAffinity")}, filter={"enabled": on("NodeAffinity")}
    ),
    "all off, some on": plugins(
        multiPoint={"disabled": ALL, "enabled": [*KEPT, *on("NodeResourcesFit", NodeAffinity=4)]}
    ),
    "a filter's place changes when its point names it": plugins(
        filter={"enabled": on("InterPodAffinity", "NodeName")}
    ),
    "star at one point only": plugins(filter={"disabled": ALL}, preFilter={"disabled": ALL}),
    "a disabled plugin that nobody knows": plugins(score={"disabled": on("Nobody")}),
    "pod groups": plugins(multiPoint={"enabled": on("GangScheduling")}),
    "two profiles": {
        "profiles": [
            {"schedulerName": "a", "plugins": {"multiPoint": {"disabled": on("ImageLocality")}}},
            {"schedulerName": "b", "plugins": {"score": {"disabled": ALL}}},
        ]
    },
    "nulls": {"parallelism": None, "profiles": [{"plugins": None, "pluginConfig": None}]},
    "all but the strategy by default": args(
        "NodeResourcesFit", scoringStrategy={"type": "MostAllocated"}
    ),
    "weights of zero are one": args(
        "NodeResourcesFit",
        scoringStrategy={
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "nvidia.com/gpu", "weight": 0}, {"name": "cpu"}],
            "requestedToCapacityRatio": {"shape": SHAPE},
        },
    ),
    "ignored resources": args(
        "NodeResourcesFit", ignoredResources=["x.com/y"], ignoredResourceGroups=["z.com"]
    ),
    "a list of constraints": args(
        "PodTopologySpread",
        defaultingType="List",
        defaultConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
    ),
    "a weight for required terms": args("InterPodAffinity", hardPodAffinityWeight=100),
    "balance of more than two": args(
        "NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "x.com/y"}]
    ),
    "candidates": args("DefaultPreemption", minCandidateNodesPercentage=0),
    "arguments with their kind": args(
        "VolumeBinding",
        apiVersion="kubescheduler.config.k8s.io/v1",
        kind="VolumeBindingArgs",
        bindTimeoutSeconds=60,
    ),
    "plugins without arguments have some": args("NodeName", colour="red"),
}


@pytest.mark.parametrize("config", ACCEPTED.values(), ids=ACCEPTED)
def test_plugins_weights_and_arguments_are_those_of_kube_scheduler(
    config: dict[str, Any], oracle: KubeScheduler
) -> None:
    theirs = oracle.complete(config)

    found = ours(oracle.whole(config), oracle.catalogue)
    assert theirs.error == ""
    assert found.points == theirs.points
    # It writes the arguments of plugins in use only.
    for mine, wanted in zip(found.args, theirs.args, strict=True):
        assert {plugin: mine[plugin] for plugin in wanted} == wanted


def expressions(*lines: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(lines)}]}
    return args(
        "NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": terms}
    )


def strategy(**given: Any) -> dict[str, Any]:
    return args("NodeResourcesFit", scoringStrategy={"type": "LeastAllocated", **given})


def shape(*points: tuple[int, int]) -> dict[str, Any]:
    made = [{"utilization": u, "score": s} for u, s in points]
    return strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": made})


def constraint(**changed: Any) -> dict[str, Any]:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **changed}
    return args("PodTopologySpread", defaultingType="List", defaultConstraints=[whole])


def extender(**given: Any) -> dict[str, Any]:
    return {"extenders": [{"urlPrefix": "http://127.0.0.1:9", **given}]}


#: What kube-scheduler refuses, and the last part of the key that we name.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no parallelism": ({"parallelism": 0}, "parallelism"),
    "more than all nodes": ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore"),
    "of one profile": (
        {"profiles": [{"percentageOfNodesToScore": -1}]},
        "profiles[0].percentageOfNodesToScore",
    ),
    "no first backoff": ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds"),
    "backoffs upside down": (
        {"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4},
        "podMaxBackoffSeconds",
    ),
    "a burst below zero": ({"clientConnection": {"burst": -1}}, "clientConnection.burst"),
    "a lease that is too short": (
        {"leaderElection": {"leaderElect": True, "leaseDuration": "5s"}},
        "leaderElection.leaseDuration",
    ),
    "an old lock": (
        {"leaderElection": {"leaderElect": True, "resourceLock": "endpoints"}},
        "leaderElection.resourceLock",
    ),
    "two profiles without names": ({"profiles": [{}, {}]}, "profiles[0].schedulerName"),
    "a name twice": (
        {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
        "profiles[1].schedulerName",
    ),
    "an empty name": ({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName"),
    "different queues": (
        {
            "profiles": [
                {"schedulerName": "a"},
                {
                    "schedulerName": "b",
                    "plugins": {"queueSort": {"enabled": on("PrioritySort")}},
                },
            ]
        },
        "profiles[1].plugins.queueSort",
    ),
    "no queue": (plugins(queueSort={"disabled": ALL}), "plugins.queueSort"),
    "no binder": (plugins(multiPoint={"disabled": on("DefaultBinder")}), "plugins.bind"),
    "out of tree": (
        plugins(multiPoint={"enabled": on("Coscheduling")}),
        "plugins.multiPoint.enabled[0]",
    ),
    "out of tree at a point": (plugins(score={"enabled": on("X")}), "plugins.score.enabled[0]"),
    "a plugin that is gone": (
        plugins(filter={"enabled": on("EBSLimits")}),
        "plugins.filter.enabled[0]",
    ),
    "a score as a filter": (
        plugins(filter={"enabled": on("ImageLocality")}),
        "plugins.filter.enabled[0]",
    ),
    "all enabled": (plugins(filter={"enabled": ALL}), "plugins.filter.enabled[0]"),
    "twice at a point": (
        plugins(filter={"enabled": on("NodeName", "NodeName")}),
        "plugins.filter.enabled",
    ),
    "twice at all points": (
        plugins(multiPoint={"enabled": on("NodeName", "NodeName")}),
        "plugins.multiPoint.enabled",
    ),
    "a weight below zero": (
        plugins(score={"enabled": on(NodeAffinity=-1)}),
        "plugins.score.enabled[0].weight",
    ),
    "configured twice": (
        {"profiles": [{"pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}]},
        "pluginConfig[1]",
    ),
    "another plugin's arguments": (args("NodeAffinity", kind="VolumeBindingArgs"), "args.kind"),
    "an argument nobody knows": (args("NodeAffinity", addedAfinity={}), "args"),
    "an argument of another type": (args("InterPodAffinity", hardPodAffinityWeight="1"), "args"),
    "too heavy": (args("InterPodAffinity", hardPodAffinityWeight=101), "hardPodAffinityWeight"),
    "more than all candidates": (
        args("DefaultPreemption", minCandidateNodesPercentage=101),
        "minCandidateNodesPercentage",
    ),
    "candidates below zero": (
        args("DefaultPreemption", minCandidateNodesAbsolute=-1),
        "minCandidateNodesAbsolute",
    ),
    "no candidates": (
        args("DefaultPreemption", minCandidateNodesAbsolute=0, minCandidateNodesPercentage=0),
        "minCandidateNodesPercentage",
    ),
    "no strategy": (args("NodeResourcesFit", scoringStrategy={}), "scoringStrategy.type"),
    "a strategy nobody knows": (strategy(type="Best"), "scoringStrategy.type"),
    "a heavy resource": (
        strategy(resources=[{"name": "cpu", "weight": 101}]),
        "scoringStrategy.resources[0].weight",
    ),
    "a light resource": (
        strategy(resources=[{"name": "cpu", "weight": -1}]),
        "scoringStrategy.resources[0].weight",
    ),
    "a shape for nothing": (
        strategy(requestedToCapacityRatio={"shape": SHAPE}),
        "requestedToCapacityRatio",
    ),
    "no ratio": (strategy(type="RequestedToCapacityRatio"), "requestedToCapacityRatio"),
    "no shape": (shape(), "requestedToCapacityRatio.shape"),
    "a shape that goes back": (shape((50, 1), (50, 2)), "shape[1].utilization"),
    "a shape beyond all": (shape((0, 0), (101, 1)), "shape[1].utilization"),
    "a shape too high": (shape((0, 11)), "shape[0].score"),
    "an ignored resource that is none": (
        args("NodeResourcesFit", ignoredResources=["a b"]),
        "ignoredResources[0]",
    ),
    "an ignored group with more": (
        args("NodeResourcesFit", ignoredResourceGroups=["a.com/b"]),
        "ignoredResourceGroups[0]",
    ),
    "a balance with weights": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]),
        "resources[0].weight",
    ),
    "a balance of one with itself": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "cpu"}]),
        "resources[1].name",
    ),
    "constraints beside the system's": (
        args(
            "PodTopologySpread",
            defaultConstraints=[
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            ],
        ),
        "defaultingType",
    ),
    "a defaulting nobody knows": (args("PodTopologySpread", defaultingType="X"), "defaultingType"),
    "no skew": (constraint(maxSkew=0), "defaultConstraints[0].maxSkew"),
    "no topology": (constraint(topologyKey=""), "defaultConstraints[0].topologyKey"),
    "no consequence": (
        constraint(whenUnsatisfiable=""),
        "defaultConstraints[0].whenUnsatisfiable",
    ),
    "a selector": (constraint(labelSelector={}), "defaultConstraints[0].labelSelector"),
    "a label that is none": (
        expressions({"key": "a b", "operator": "Exists"}),
        "matchExpressions[0].key",
    ),
    "an operator nobody knows": (
        expressions({"key": "a", "operator": "Is"}),
        "matchExpressions[0].operator",
    ),
    "in nothing": (expressions({"key": "a", "operator": "In"}), "matchExpressions[0].values"),
    "exists with values": (
        expressions({"key": "a", "operator": "Exists", "values": ["b"]}),
        "matchExpressions[0].values",
    ),
    "more than a word": (
        expressions({"key": "a", "operator": "Gt", "values": ["b"]}),
        "matchExpressions[0].values",
    ),
    "a value that is none": (
        expressions({"key": "a", "operator": "In", "values": ["b c"]}),
        "matchExpressions[0].values[0]",
    ),
    "a wait below zero": (args("VolumeBinding", bindTimeoutSeconds=-1), "bindTimeoutSeconds"),
    "no time to bind": (args("DynamicResources", bindingTimeout="0s"), "bindingTimeout"),
    "an extender without weight": (extender(prioritizeVerb="p"), "extenders[0].weight"),
    "an extender of cpu": (
        extender(managedResources=[{"name": "cpu"}]),
        "extenders[0].managedResources[0].name",
    ),
    "two extenders that bind": (
        {"extenders": [{"urlPrefix": "http://x", "bindVerb": "b"}] * 2},
        "extenders",
    ),
}


@pytest.mark.parametrize(("config", "key"), REFUSED.values(), ids=REFUSED)
def test_what_kube_scheduler_refuses_is_refused_here_by_its_key(
    config: dict[str, Any], key: str, oracle: KubeScheduler
) -> None:
    assert oracle.complete(config).error

    found = oracle.translate(config)

    assert key in [problem.key[-len(key) :] for problem in found.problems]


#: What kube-scheduler takes since 1.37, and the last part of the key that we name with 1.36.
SINCE_1_37: dict[str, tuple[dict[str, Any], str]] = {
    "a shape for storage": (args("VolumeBinding", shape=SHAPE), "args.shape"),
    "a shape that is the default": (args("VolumeBinding", shape=[]), "args.shape"),
    "nothing after a group": (
        plugins(podGroupPostFilter={"disabled": ALL}),
        "plugins.podGroupPostFilter",
    ),
    "a point that is empty": (plugins(podGroupPostFilter={}), "plugins.podGroupPostFilter"),
    "a plugin at a point": (
        plugins(permit={"enabled": on("DeferredPodScheduling")}),
        "plugins.permit.enabled[0]",
    ),
    "a plugin everywhere": (
        plugins(multiPoint={"enabled": on("DeferredPodScheduling")}),
        "plugins.multiPoint.enabled[0]",
    ),
}


@pytest.mark.parametrize(("config", "key"), SINCE_1_37.values(), ids=SINCE_1_37)
def test_what_one_version_refuses_and_another_takes(
    config: dict[str, Any], key: str, oracle: KubeScheduler
) -> None:
    refuses = oracle.behaviour is KUBERNETES_1_36

    theirs = oracle.complete(config)
    assert bool(theirs.error) == refuses
    named = [problem.key[-len(key) :] for problem in oracle.translate(config).problems]
    assert (key in named) == refuses
    if not refuses:
        found = ours(oracle.whole(config), oracle.catalogue)
        assert (found.points, found.args) == (theirs.points, theirs.args)


#: Those of all versions: what another one has is not known, either.
PLUGINS = list(
    dict.fromkeys(
        name
        for known in KNOWN
        for name, plugin in catalogue_of(known).plugins.items()
        if not plugin.beyond
    )
)
NAMES = st.sampled_from([*PLUGINS, "*", "Nobody"])
ENABLED = st.lists(
    st.builds(
        lambda name, weight: {"name": name, "weight": weight},
        st.sampled_from(PLUGINS),
        st.integers(0, 5),
    ),
    max_size=3,
)
SETS = st.fixed_dictionaries(
    {}, optional={"enabled": ENABLED, "disabled": st.lists(NAMES.map(lambda n: {"name": n}))}
)
POINTS = st.dictionaries(
    st.sampled_from(
        [
            "multiPoint",
            "filter",
            "score",
            "postFilter",
            "preScore",
            "preFilter",
            "permit",
            "podGroupPostFilter",
        ]
    ),
    SETS,
    max_size=3,
)


@given(points=POINTS)
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_is_merged_alike(points: dict[str, Any], oracle: KubeScheduler) -> None:
    config = plugins(**points)
    theirs = oracle.complete(config)
    whole = oracle.whole(config)
    read = typed_yaml.shaped(whole, formats.Configuration, str)
    found = merge(read.profiles[0].plugins, "profiles[0].plugins", oracle.catalogue)
    problems = found.problems

    assert bool(problems) == bool(theirs.error), (problems, theirs.error)
    assert theirs.error or ours(whole, oracle.catalogue).points == theirs.points
    assert set(problems) <= set(oracle.translate(config).problems)


EXAMPLE = Path(__file__).parents[2] / "examples" / "05-from-kube-scheduler" / "scheduler.yaml"


def test_run_tells_each_note_in_its_log(embedded_plane: Any) -> None:
    with fairlead(embedded_plane, "--config", str(EXAMPLE)) as program:
        eventually(lambda: program.get("/readyz")[0] == 200)
        noted = [r["key"] for r in program.records if r["event"] == "configuration note"]

    assert noted == ["parallelism"]


def test_run_does_not_start_with_what_it_cannot_honour(embedded_plane: Any, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(EXAMPLE.read_text() + "extenders: [{urlPrefix: 'http://x', bindVerb: b}]\n")

    done = run([FAIRLEAD, "run", "--config", file])

    assert done.returncode == 1
    assert done.stderr.startswith(f"fairlead: {file}: extenders[0].bindVerb: ")
    assert done.stderr.count("\n") == 1


def test_run_ends_where_the_server_is_older_than_the_file(
    embedded_plane: Any, tmp_path: Path, oracle: KubeScheduler
) -> None:
    """The embedded server is a 1.36."""
    file = tmp_path / "scheduler.yaml"
    file.write_text(json.dumps(oracle.whole(args("VolumeBinding", shape=SHAPE))))

    with fairlead(embedded_plane, "--config", str(file), ends_with=1) as program:
        program.process.wait(PATIENCE_S)

    *_, said = program.log.read_text().splitlines()
    assert said.startswith(f"fairlead: {file}: profiles[0].pluginConfig[0].args.shape: ")
    assert said.endswith("remove it (the API server is Kubernetes 1.36)")
