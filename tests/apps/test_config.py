from pathlib import Path

import pytest

from fairlead.apps.config import config, plugin_files
from fairlead.apps.config.profiles import built_in
from fairlead.apps.config.run_plan import DEFAULT_ADDRESS, RunOptions, plan
from fairlead.apps.config.telemetry_config import endpoint_plan
from fairlead.kube.queues.api import QueueMeta, QueueWire
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.model.errors import ConfigError
from fairlead.plugins.dynamic_resources import DynamicResources
from fairlead.plugins.registry import Registry
from fairlead.telemetry.sources import SourcePlan


def profiles(text: str, base: Path = Path()):
    return config.build_profiles(config.parse(text).profiles, Registry(), base / "c.yaml")


def test_an_empty_document_does_no_harm() -> None:
    assert config.parse("---\nport: 1\n---\n").port == 1


def test_a_profile_says_how_shares_are_isolated() -> None:
    found = profiles("""
        profiles:
          - {schedulerName: hard, isolation: mps, overcommit: {limit: 2}}
          - {schedulerName: soft}
          - {schedulerName: counted, profile: default-scheduler}
    """)
    assert {name: one.isolation for name, one in found.items()} == {
        "hard": "mps", "soft": None, "counted": None,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="isolation needs the filter GpuFit"):
        profiles("profiles: [{schedulerName: x, profile: default-scheduler, isolation: mig}]")
    with pytest.raises(ConfigError, match=r"'MPS' at .*isolation is not known; use one of"):
        config.parse("profiles: [{schedulerName: x, isolation: MPS}]")


def test_a_profile_says_how_claims_are_treated() -> None:
    found = profiles("""
        profiles:
          - {schedulerName: ours, claims: {preempts: true, choice: policies}}
          - {schedulerName: gentle, preempts: false, claims: {preempts: true}}
          - {schedulerName: whole, claims: {alternatives: gangs}}
          - {schedulerName: kube}
    """)
    rules = {
        name: next(rule for rule in one.filters if isinstance(rule, DynamicResources))
        for name, one in found.items()
    }
    assert rules == {
        "ours": DynamicResources(preempts=True, chooses=True),
        "gentle": DynamicResources(),
        "whole": DynamicResources(tries_later=True),
        "kube": DynamicResources(),
    }
    filters = "{disabled: [DynamicResources]}"
    with pytest.raises(ConfigError, match="claims needs the filter DynamicResources"):
        profiles(f"profiles: [{{schedulerName: x, filters: {filters}, claims: {{}}}}]")


def test_an_empty_file_is_a_configuration() -> None:
    assert config.parse("").profiles == []


def test_profiles_start_from_a_built_in_and_change_what_is_named() -> None:
    found = profiles("""
        profiles:
          - schedulerName: mine
            profile: spread
            scores:
              - GpuBestFit
              - {plugin: LeastAllocated, weight: 0.5, options: {resources: {cpu: 2}}}
          - schedulerName: other
            filters: [NodeResourcesFit, NodeTrusted]
    """)
    mine, other = found["mine"], found["other"]
    assert [(score.name, weight) for score, weight in mine.scores] == [
        ("GpuBestFit", 1.0),
        ("LeastAllocated", 0.5),
    ]
    assert mine.scores[1][0].resources == {"cpu": 2}
    assert len(mine.filters) > 5
    assert [rule.name for rule in other.filters] == ["NodeResourcesFit", "NodeTrusted"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("profils: []", "unknown key 'profils'; did you mean 'profiles'?"),
        ("profiles: [{schedulername: x}]", "did you mean 'schedulerName'?"),
        ("profiles: [{schedulerName: x, scores: [{plugin: GpuBestFit, wieght: 2}]}]", "'weight'"),
        ("zzz: 1", "known keys are"),
        ("profiles: 3", "Expected `array`, got `int`"),
        ("port: 99999", "Expected `int` <= 65535"),
        ("port: '80'", "Expected `int | null`, got `str`"),
        ("apiVersion: v2", "this is not a scheduler configuration: apiVersion and kind must be"),
        (
            "leaderElection: {resourceLock: x}",
            "'x' at $.leaderElection.resourceLock is not known; use leases",
        ),
        ("profile: binpack", "unknown key 'profile'; it belongs under profiles"),
        (
            "telemetry: {sources: [{kind: dcmg}]}",
            "did you mean 'dcgm'? use one of agent, dcgm, prometheus, alnair",
        ),
        ("profiles: [{schedulerName: x, gpus: pakc}]", "did you mean 'pack'? use one of pack, "),
        ("profiles: [{schedulerName: x, filters: {enable: []}}]", "did you mean 'enabled'?"),
        ("a: [", "this is not valid YAML"),
        (r'profiles: [{schedulerName: "\ud83d\udca5"}]', "is half a character"),
        ("a: &x [1]\nb: *x", "aliases are not supported: write the value in full"),
        ("port: 1\nport: 2", "the key 'port' is a duplicate: remove one"),
        ("profiles: [{schedulerName: a, schedulerName: b}]", "'schedulerName' is a duplicate"),
        ("port: 1\n---\nport: 2", "the file has 2 documents; keep only one"),
        ("[" * 100_000, "this cannot be read as YAML: maximum recursion depth"),
        (f"port: {'9' * 5000}", "this cannot be read as YAML: Exceeds the limit (4300 digits)"),
        ("port: 2026-99-99", "this cannot be read as YAML: month must be in 1..12"),
        ("{apiVersion: v1, kind: ConfigMap}", "for a ConfigMap, pass the file that it contains"),
        ("a: !!python/object/apply:os.system ['true']", "this is not valid YAML"),
        ("- 1", "Expected `object`, got `array`"),
        ("profiles: [{schedulerName: x}, {schedulerName: x}]", "'x' has two profiles; remove one"),
        ("profiles: [{schedulerName: ''}]", "length >= 1"),
        (
            "{profiles: [{schedulerName: volcano}], additionalSchedulerNames: [volcano]}",
            "'volcano' has two profiles; remove one",
        ),
        ("gangs: {disable: [native]}", "did you mean 'disabled'?"),
        ("topology: {level: [zone]}", "did you mean 'levels'?"),
        ("topology: {levels: [{label: zone}]}", "'label'"),
    ],
)
def test_what_cannot_be_honoured_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_filters_and_scores_are_added_and_removed() -> None:
    found = profiles("""
        profiles:
          - schedulerName: mine
            profile: default-scheduler
            filters: {enabled: [GpuFit], disabled: [InterPodAffinity]}
            scores:
              disabled: [ImageLocality]
              enabled: [{plugin: TaintToleration, weight: 9}, Spread]
    """)["mine"]
    base = built_in("default-scheduler")
    kept = [rule.name for rule in base.filters if rule.name != "InterPodAffinity"]
    assert [rule.name for rule in found.filters] == [*kept, "GpuFit"]
    weights = [(score.name, weight) for score, weight in found.scores]
    assert weights[0] == ("TaintToleration", 9.0)
    assert weights[-1] == ("Spread", 1.0)
    assert len(weights) == len(base.scores)


def test_nothing_is_probably_not_meant_in_a_profile_that_keeps_its_filters() -> None:
    text = "profiles: [{schedulerName: a, filters: {disabled: [NodePorts]}}, {schedulerName: b}]"
    found = config.parse(text).profiles
    assert list(config.warnings(found, profiles(text))) == []


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (
            "filters: {disabled: [NodePort]}",
            "'NodePort' cannot be disabled: it is not in the profile; did you mean 'NodePorts'?",
        ),
        ("filters: {disabled: [NodeTrusted]}", "filters must include NodeTrusted"),
        ("scores: {enabled: [Spread, Spread]}", "Spread is enabled twice; remove one"),
        ("profile: nope", "unknown profile 'nope'; choose one of gpu-scheduler"),
        ("scores: [GpuBestFti]", "did you mean 'GpuBestFit'?"),
        ("scores: [NodeName]", "'NodeName' is not a score; list it under filters or picker"),
        ("filters: [Spread]", "'Spread' is not a filter"),
        ("picker: Spread", "'Spread' is not a picker"),
        (
            "scores: [{plugin: Spread, options: {colour: red}}]",
            "no option 'colour'; it has resource",
        ),
        ("scores: [{plugin: Spread, options: {resource: 3}}]", "does not accept these options"),
        (
            "filters: []",
            "filters must include NodeResourcesFit: without it nodes are overcommitted",
        ),
        ("picker: ./absent.py:P", "the plugin file"),
    ],
)
def test_profiles_that_cannot_be_built_name_the_profile(profile: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        profiles("profiles:\n  - schedulerName: mine\n    " + profile)
    assert "profile of 'mine': " in str(caught.value)
    assert says in str(caught.value)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    bomb = "a: &a [x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    )
    with pytest.raises(ConfigError, match="aliases"):
        config.parse(bomb)
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        config.parse("#" * (2 << 20))


PICKER = """
class First:
    name = "First"
    def pick(self, request, nodes, scores):
        return 0
class NotOne:
    name = "NotOne"
"""


def test_a_plugin_in_a_file_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PICKER)
    text = "profiles: [{schedulerName: mine, picker: './mine.py:First'}]"
    assert profiles(text, tmp_path)["mine"].picker.name == "First"


@pytest.mark.parametrize(
    ("source", "reference", "says"),
    [
        (PICKER, "mine.py:Absent", "does not define 'Absent'"),
        (PICKER, "mine.py:NotOne", "is not a plugin; give it a name and either"),
        ("1/0", "mine.py:First", "cannot be loaded: ZeroDivisionError"),
        ("def f(:", "mine.py:First", "cannot be loaded: SyntaxError"),
    ],
)
def test_files_that_do_not_hold_a_plugin_say_so(tmp_path: Path, source, reference, says) -> None:
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(ConfigError, match=says):
        plugin_files.make(Registry(), reference, {}, tmp_path)


def test_two_files_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(PICKER.replace('"First"', f'"{folder}"'))
    made = [plugin_files.make(Registry(), f"{f}/mine.py:First", {}, tmp_path) for f in "ab"]
    assert [plugin.name for plugin in made] == ["a", "b"]


class TestWhatIsServed:
    def served(self, tmp_path: Path, text: str = "", **options) -> dict[str, str]:
        file = tmp_path / "c.yaml"
        file.write_text(text)
        found = plan(RunOptions(config=file, **options)).profiles
        return {name: profile.name for name, profile in found.items()}

    def test_by_default_the_names_that_users_have(self, tmp_path: Path) -> None:
        served = {"gpu-scheduler": "gpu-scheduler", "toyscheduler": "toyscheduler"}
        assert self.served(tmp_path) == served

    def test_a_name_is_served_alone_by_the_profile_so_called(self, tmp_path: Path) -> None:
        assert self.served(tmp_path, scheduler_name="spread") == {"spread": "spread"}
        assert self.served(tmp_path, scheduler_name="mine") == {"mine": "gpu-scheduler"}

    def test_any_profile_serves_any_name(self, tmp_path: Path) -> None:
        served = self.served(tmp_path, scheduler_name="mine", profile="binpack")
        assert served == {"mine": "binpack"}

    def test_the_file_is_asked_for_a_name_too(self, tmp_path: Path) -> None:
        text = "profiles: [{schedulerName: a, profile: spread}, {schedulerName: b}]"
        assert self.served(tmp_path, text) == {"a": "spread", "b": "gpu-scheduler"}
        assert self.served(tmp_path, text, scheduler_name="a") == {"a": "spread"}

    def test_other_names_are_served_beside_ours(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("additionalSchedulerNames: [volcano, kai-scheduler]")
        found = plan(RunOptions(config=file)).profiles
        assert list(found) == ["gpu-scheduler", "toyscheduler", "volcano", "kai-scheduler"]
        assert found["volcano"].filters == found["gpu-scheduler"].filters
        alone = plan(RunOptions(config=file, scheduler_name="gpu-scheduler")).profiles
        assert list(alone) == ["gpu-scheduler"]

    def test_the_address_is_that_of_the_option_then_that_of_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("address: 10.0.0.7")
        assert plan(RunOptions(config=file)).address == "10.0.0.7"
        assert plan(RunOptions(config=file, address="10.0.0.8")).address == "10.0.0.8"
        file.write_text("")
        assert plan(RunOptions(config=file)).address == DEFAULT_ADDRESS

    def test_an_unknown_run_time_is_a_second_at_least(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("backfill: {unknownRunTime: 500ms}")
        with pytest.raises(ConfigError, match="unknownRunTime: it must be at least 1s"):
            plan(RunOptions(config=file))
        file.write_text("backfill: {unknownRunTime: 1s}")
        assert plan(RunOptions(config=file)).backfill.unknown_s == 1.0

    def test_levels_of_the_topology_have_an_order_and_names(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text(
            "topology: {levels: [topology.kubernetes.io/zone,"
            " {nodeLabel: example.com/r, name: rack}, kubernetes.io/hostname]}"
        )
        topology = plan(RunOptions(config=file)).topology
        assert topology.labels == ("topology.kubernetes.io/zone", "example.com/r")
        assert topology.label_of("rack") == "example.com/r"
        assert topology.label_of("zone") == "topology.kubernetes.io/zone"

    @pytest.mark.parametrize(
        ("levels", "says"),
        [
            ("[a b]", "topology.levels[0]: 'a b' is not the key of a node label"),
            ("[x/rack, x/rack]", "topology.levels[1]: another level is 'x/rack'"),
            ("[x/rack, y/rack]", "is named 'rack'; write each level once"),
            ("[kubernetes.io/hostname, x/rack]", "must be the last level; the widest level is"),
            (
                "[topology.k8s.aws/network-node-layer-3, topology.k8s.aws/network-node-layer-1]",
                "write the widest first: topology.k8s.aws/network-node-layer-1, topology.k8s.aws",
            ),
            (str([f"x/l{n}" for n in range(30)]), "has 30 levels; the limit is 24"),
        ],
    )
    def test_levels_that_make_no_tree_are_refused(
        self, tmp_path: Path, levels: str, says: str
    ) -> None:
        file = tmp_path / "c.yaml"
        file.write_text(f"topology: {{levels: {levels}}}")
        with pytest.raises(ConfigError) as caught:
            plan(RunOptions(config=file))
        assert says in str(caught.value)

    def test_a_level_that_is_probably_misspelt_is_a_warning(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("topology: {levels: [topology.kubernetes.io/zones]}")
        warnings = plan(RunOptions(config=file)).warnings
        similar = "topology.kubernetes.io/zones is similar to topology.kubernetes.io/zone"
        assert [str(each) for each in warnings] == [f"topology.levels[0]: {similar}"]

    def test_dialects_of_gangs_are_switched_off(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("gangs: {disabled: [native]}")
        names = [each.name for each in plan(RunOptions(config=file)).gang_dialects.dialects]
        assert "native" not in names
        assert "scheduler-plugins" in names
        file.write_text("gangs: {disabled: [volcanoo]}")
        with pytest.raises(ConfigError, match="'volcanoo', which is not a dialect of gangs; the"):
            plan(RunOptions(config=file))

    def test_the_multiplier_of_kai_is_that_of_its_queues(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("queues: {kai: {reclaimerSaturationMultiplier: 1.5}}")
        dialects = plan(RunOptions(config=file)).queue_dialects.dialects
        kai = next(each for each in dialects if each.name == "kai")
        assert kai.spec("kai/q", QueueWire(QueueMeta("q"))).saturation_multiplier == 1.5
        file.write_text("queues: {kai: {reclaimerSaturationMultiplier: 0.5}}")
        with pytest.raises(ConfigError, match=r"is 0\.5; write 1 or more"):
            plan(RunOptions(config=file))

    def test_the_config_map_of_yunikorn_is_named_by_namespace_and_name(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("queues: {yunikorn: {configMap: yunikorn/yunikorn-configs}}")
        dialects = plan(RunOptions(config=file)).queue_dialects.dialects
        [yunikorn] = [each for each in dialects if isinstance(each, YunikornQueues)]
        assert yunikorn.config_map == ("yunikorn", "yunikorn-configs")
        for wrong in ("yunikorn-configs", "a/b/c", "/b", "A/b"):
            file.write_text(f"queues: {{yunikorn: {{configMap: {wrong}}}}}")
            with pytest.raises(ConfigError, match=r"configMap is '.*'; write a namespace and a n"):
                plan(RunOptions(config=file))

    def test_dialects_of_queues_are_switched_off(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_text("queues: {disabled: [fairlead]}")
        names = [each.name for each in plan(RunOptions(config=file)).queue_dialects.dialects]
        assert "fairlead" not in names
        file.write_text("queues: {disabled: [kaii]}")
        with pytest.raises(ConfigError, match="'kaii', which is not a dialect of queues; the"):
            plan(RunOptions(config=file))

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"scheduler_name": "c"}, "serves a, b, but not 'c'; add it"),
            ({"profile": "binpack"}, "remove --profile, or add --scheduler-name"),
        ],
    )
    def test_options_that_contradict_the_file_are_not_guessed_at(
        self, tmp_path: Path, options, says: str
    ) -> None:
        text = "profiles: [{schedulerName: a, profile: spread}, {schedulerName: b}]"
        with pytest.raises(ConfigError, match=says):
            self.served(tmp_path, text, **options)


# -- telemetry -----------------------------------------------------------------------------------


def sources(*lines: str) -> list[SourcePlan]:
    told = "".join(f"    {line}\n" for line in lines)
    return config.parse(f"telemetry:\n  sources:\n{told}").telemetry.plans()


def test_sources_have_defaults_that_work() -> None:
    dcgm, agent, notes = sources("- kind: dcgm", "- kind: agent", "- kind: alnair")
    assert dcgm == SourcePlan("dcgm", "dcgm", "http://{address}:9400/metrics")
    assert (agent.url, agent.per_node) == ("http://{address}:9402/metrics", True)
    assert notes.url == ""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["- {kind: dcgm, evry: 5s}"], "did you mean 'every'?"),
        (["- {kind: dcgn}"], "dcgn"),
        (["- {kind: dcgm, every: 5}"], "every"),
        (["- {kind: dcgm, every: 10ms}"], "(dcgm): every: '10ms' is not a time of 1 s or more"),
        (["- {kind: dcgm, url: 'file:///etc/passwd'}"], "use http://… or https://…"),
        (["- {kind: prometheus}"], "use http://… or https://…"),
        (["- kind: dcgm", "- kind: dcgm"], "two telemetry sources have the name 'dcgm'"),
        (["- {kind: dcgm, queries: {utilisation: x}}"], "queries are only for kind prometheus"),
        (
            ["- {kind: prometheus, url: 'http://p', queries: {utilization: x}}"],
            "unknown reading 'utilization' in queries; did you mean 'utilisation'?",
        ),
    ],
)  # fmt: skip
def test_a_source_that_cannot_be_is_told(lines: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        sources(*lines)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://dcgm-exporter.default.svc:9400", "http://dcgm-exporter.default.svc:9400/metrics"),
        ("http://x:9400/", "http://x:9400/metrics"),
        ("http://x:9400/other", "http://x:9400/other"),
    ],
)
def test_the_variable_may_name_a_server_or_a_page(endpoint: str, url: str) -> None:
    assert endpoint_plan(endpoint).url == url


def test_a_variable_that_is_no_address_is_told() -> None:
    with pytest.raises(ConfigError, match="DCGM_ENDPOINT"):
        endpoint_plan("dcgm:9400")
