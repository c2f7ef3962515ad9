"""The goal FetchTime counts seconds: what a node lacks, divided by its bandwidth."""

from dataclasses import replace
from pathlib import Path

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config import config as configs
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.apps.explain.goals import goal_lines, goals_answer
from fairlead.engine.engine import Engine
from fairlead.engine.events import DataSeen, FiguresSeen, NodeGone, NodeSeen
from fairlead.engine.instructions import AnnounceFailure, Bind
from fairlead.engine.reasons import WAITING_FOR_BETTER_PLACE
from fairlead.model.data_sets import DATA, MODEL, DataSet, NodeData, read_data
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.nodes import Image, Node
from fairlead.model.pods import Pod
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.placement.profile import Profile
from fairlead.plugins.fetch_time import FetchTime
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.registry import Registry

GB = 10**9
LABEL = "fluid.io/s-default-imagenet"
IMAGENET = DataSet("dataset/default/imagenet", 150 * GB, 150 * GB, LABEL)


def an_engine(*nodes: Node, at_most: float | None = None, **options: object) -> Engine:
    goal = FetchTime(**options)  # type: ignore[arg-type]
    level = GoalLevel(((goal, 1.0),), at_most=at_most, patience_s=60.0 if at_most else 0.0)
    engine = Engine({SCHEDULER: aiming(built_in("spread"), Goals((level,)))})
    for node in nodes:
        engine.handle(NodeSeen(node), now=0.0)
    return engine


def seconds(engine: Engine, pod: Pod) -> dict[str, float]:
    """What the goal counts on each node that fits."""
    placement = engine._parts.placements[SCHEDULER]
    assert placement.profile.goals is not None
    (goal,) = placement.profile.goals.all
    counts = goal.count(placement.request(pod), engine.cluster.nodes)
    rows = engine.cluster.row_of
    return {name: round(float(counts[row]), 6) for name, row in rows.items()}


def reading(text: str, **more: object) -> Pod:
    return a_pod("p", **{"gpus": 1, "annotations": {DATA: text}, **more})


def placed(engine: Engine, pod: Pod, now: float = 0.0) -> str:
    see(engine, pod)
    (bind,) = [each for each in decide(engine, now=now) if isinstance(each, Bind)]
    return bind.node


def test_images_that_a_node_lacks_count_at_the_rate_of_images() -> None:
    large = Image(("registry/torch:2",), 8 * GB)
    engine = an_engine(a_node("has", images=(large,)), a_node("lacks"), mb_per_s=1000.0)
    pod = a_pod("p", gpus=1, images=("registry/torch:2", "registry/unknown:1"))
    assert seconds(engine, pod) == {"has": 0.0, "lacks": 80.0}
    assert placed(engine, pod) == "has"
    engine = an_engine(a_node("has", images=(large,)), a_node("lacks"), image_mb_per_s=0.0)
    assert seconds(engine, pod) == {"has": 0.0, "lacks": 0.0}


def test_a_dataset_of_fluid_is_shared_by_the_nodes_with_its_label() -> None:
    workers = [a_node(name, labels={LABEL: "true"}) for name in ("w1", "w2", "w3")]
    engine = an_engine(a_node("far"), *workers, mb_per_s=1000.0)
    engine.handle(DataSeen(replace(IMAGENET, cached_bytes=120 * GB)), now=0.0)
    counted = {"far": 150.0, "w1": 110.0, "w2": 110.0, "w3": 110.0}
    assert seconds(engine, reading("dataset/imagenet")) == counted
    claim = PodVolumes(claims=(VolumeClaimUse("default/imagenet"),))
    assert seconds(engine, a_pod("p", gpus=1, volumes=claim)) == counted
    assert set(seconds(engine, reading("dataset/other")).values()) == {0.0}


def test_a_dataset_of_another_namespace_does_not_count() -> None:
    engine = an_engine(a_node("far"))
    engine.handle(DataSeen(replace(IMAGENET, key="dataset/team/imagenet")), now=0.0)
    assert seconds(engine, reading("dataset/imagenet")) == {"far": 0.0}
    assert seconds(engine, reading("dataset/team/imagenet")) == {"far": 0.0}


def test_models_of_kserve_are_on_the_nodes_that_list_them() -> None:
    engine = an_engine(a_node("a"), a_node("b"), mb_per_s=2000.0)
    engine.handle(DataSeen(DataSet("model/llama", 140 * GB)), now=0.0)
    engine.handle(DataSeen(NodeData("b", frozenset({"model/llama"}))), now=0.0)
    assert seconds(engine, reading("model/llama")) == {"a": 70.0, "b": 0.0}
    assert placed(engine, a_pod("p", gpus=1, labels={MODEL: "llama"})) == "b"
    engine.handle(DataSeen(NodeData("b")), now=0.0)
    assert seconds(engine, reading("model/llama")) == {"a": 70.0, "b": 70.0}
    engine.handle(DataSeen(DataSet("model/llama")), now=0.0)
    assert seconds(engine, reading("model/llama")) == {"a": 0.0, "b": 0.0}


def test_labels_of_caches_have_amounts_and_the_pod_or_the_largest_says_how_much_it_is() -> None:
    nodes = [
        a_node("all", labels={"cache.example.com/genomes": "true"}),
        a_node("part", labels={"cache.example.com/genomes": "1500G"}),
        a_node("odd", labels={"cache.example.com/genomes": "much"}),
        a_node("none"),
    ]
    engine = an_engine(*nodes, cache_prefix="cache.example.com/", mb_per_s=1000.0)
    counted = {"all": 0.0, "part": 500.0, "odd": 2000.0, "none": 2000.0}
    assert seconds(engine, reading("genomes=2T")) == counted
    assert seconds(engine, reading("genomes")) == counted | {
        "part": 0.0, "odd": 1500.0, "none": 1500.0
    }  # fmt: skip
    assert set(seconds(an_engine(*nodes), reading("genomes=2T")).values()) == {0.0}


def test_the_bandwidth_of_a_node_is_a_figure_of_the_administrator() -> None:
    engine = an_engine(a_node("fast"), a_node("slow"), a_node("unknown"), mb_per_s=1.0)
    engine.handle(DataSeen(DataSet("model/llama", 100 * GB)), now=0.0)
    rules = tuple(
        FigureRule(((NAME, name),), rate) for name, rate in (("fast", 5000.0), ("slow", 1000.0))
    )
    seen = SeenFigures(Figure.BANDWIDTH, (FigureList("table", rules),))
    engine.handle(FiguresSeen(seen), now=0.0)
    expected = {"fast": 20.0, "slow": 100.0, "unknown": round(100 / 3, 6)}
    assert seconds(engine, reading("model/llama")) == expected


def test_what_changes_on_nodes_is_counted_again() -> None:
    engine = an_engine(a_node("a"), a_node("b"), mb_per_s=1000.0)
    engine.handle(DataSeen(IMAGENET), now=0.0)
    pod = reading("dataset/imagenet")
    assert seconds(engine, pod) == {"a": 150.0, "b": 150.0}
    engine.handle(NodeSeen(a_node("b", labels={LABEL: "true"})), now=0.0)
    assert seconds(engine, pod) == {"a": 150.0, "b": 0.0}
    engine.handle(NodeSeen(a_node("c")), now=0.0)
    assert seconds(engine, pod) == {"a": 150.0, "b": 0.0, "c": 150.0}
    engine.handle(NodeGone("b"), now=0.0)
    engine.handle(NodeSeen(a_node("d")), now=0.0)
    assert seconds(engine, pod) == {"a": 150.0, "c": 150.0, "d": 150.0}


def test_a_pod_waits_for_a_node_that_has_its_data_and_takes_any_when_its_patience_ends() -> None:
    for arrives in (True, False):
        engine = an_engine(a_node("a", gpus=8), a_node("b", gpus=4), at_most=5.0)
        engine.handle(DataSeen(DataSet("model/llama", 140 * GB)), now=0.0)
        see(engine, reading("model/llama"))
        (failure,) = [each for each in decide(engine) if isinstance(each, AnnounceFailure)]
        assert failure.reason == WAITING_FOR_BETTER_PLACE
        assert "FetchTime of at most 5 s" in failure.message
        if arrives:
            engine.handle(DataSeen(NodeData("b", frozenset({"model/llama"}))), now=20.0)
        engine.tend(now=60.0)
        (bind,) = [each for each in decide(engine, now=30.0 if arrives else 75.0)
                   if isinstance(each, Bind)]  # fmt: skip
        assert bind.node == ("b" if arrives else "a")


def test_explain_says_what_is_missing_and_how_fast_it_comes() -> None:
    image = Image(("torch:2",), 8 * GB)
    engine = an_engine(a_node("a", images=(image,)), a_node("b"), mb_per_s=1000.0)
    engine.handle(DataSeen(DataSet("model/llama", 140 * GB)), now=0.0)
    pod = reading("model/llama", images=("torch:2",))
    told = goals_answer(engine._parts.placements[SCHEDULER], engine.cluster, pod)["goals"]
    assert list(goal_lines(told)) == [
        "goals: a counts FetchTime 140 s (0 GB of images and 140 GB of data at 1000 MB/s)",
        "  next: b would count FetchTime 220 s (8 GB of images and 140 GB of data at 1000 MB/s)",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=", "no valid size"),
        ("a=0", "no valid size"),
        ("a=-5Gi", "no valid size"),
        ("=5Gi", "no name"),
        ("model/", "no name"),
        ("a" * 300, "no name"),
        (",".join("abcdefghijklmnopq"), "names 17 sets"),
        ("a" * 5000, "longer than"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence_and_counts_nothing(
    text: str, why: str
) -> None:
    with pytest.raises(FairleadError, match=why):
        read_data(text, "default")
    engine = an_engine(a_node("a"))
    assert seconds(engine, reading(text)) == {"a": 0.0}


CONFIG = """
apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
goals:
  bandwidth:
    - {kind: table, rows: [{labels: {pool: a}, perNode: 2500}]}
profiles:
  - schedulerName: gpu-scheduler
    goals:
      rates: {hour: 36.0, run: 2h}
      order:
        - sum: [Cost, FetchTime]
"""


def a_profile(text: str) -> Profile:
    read = configs.parse(text)
    built = configs.build_profiles(read.profiles, Registry(), Path("config.yaml"))
    return built[SCHEDULER]


def test_seconds_are_money_at_the_rate_of_an_hour_spread_over_the_run() -> None:
    profile = a_profile(CONFIG)
    assert profile.goals is not None
    assert [rate for _, rate in profile.goals.levels[0].goals] == [1.0, pytest.approx(0.005)]
    with pytest.raises(ConfigError, match=r"FetchTime counts s .* set rates\.hour"):
        a_profile(CONFIG.replace("hour: 36.0, ", ""))
    with pytest.raises(ConfigError, match=r"rates\.run"):
        a_profile(CONFIG.replace("2h", "soon"))
