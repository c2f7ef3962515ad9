"""The docs are tested: what a user can meet is described, and what is described is there."""

import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
import typer
from prometheus_client import CollectorRegistry

from fairlead.apps import cli
from fairlead.apps.config import config, plugin_files, profiles
from fairlead.apps.config.typed_paths import all_keys
from fairlead.apps.extender.server import VERBS
from fairlead.apps.run.usage import Usage
from fairlead.apps.serving import health
from fairlead.apps.serving.access import AllowAll
from fairlead.apps.serving.details import Details
from fairlead.apps.webhook.server import make_webhook_app
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.model.behaviour import Behaviour
from fairlead.placement import preempt
from fairlead.plugins.registry import FILTERS, SCORES, Registry
from fairlead.telemetry.admission import AdmissionMetrics
from fairlead.telemetry.agent import AgentMetrics
from fairlead.telemetry.extender import ExtenderMetrics
from fairlead.telemetry.metrics import Metrics
from fairlead.testing import check_plugin
from manifests import DEPLOY, documents

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "fairlead"
ROOMS = ("docs", "deploy", "examples")
PAGES = sorted([*ROOT.glob("*.md"), *(p for room in ROOMS for p in ROOT.glob(f"{room}/**/*.md"))])
MANIFESTS = sorted(ROOT.glob("examples/migrate/*/*.yaml"))


@cache
def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def text(name: str) -> str:
    return read(DOCS / name)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


def in_source(pattern: str, *files: Path) -> list[str]:
    return sorted({found for file in files for found in re.findall(pattern, read(file))})


def none_is(wrong: Iterable[tuple[Path, str]]) -> None:
    """Fails with all that is wrong, a line each."""
    lines = [f"{page.relative_to(ROOT)}: {what}" for page, what in wrong]
    assert not lines, "\n".join(lines)


# -- everything has its line ---------------------------------------------------------------------


@pytest.mark.parametrize("plugin", [kind.name for kind in (*FILTERS, *SCORES)])
def test_every_plugin_is_described(plugin: str) -> None:
    assert f"| `{plugin}` |" in text("plugins.md")


@pytest.mark.parametrize(
    "option",
    [(kind.name, field.name) for kind in (*FILTERS, *SCORES) for field in fields(kind)],
    ids=str,
)
def test_every_option_of_a_plugin_is_described(option: tuple[str, str]) -> None:
    plugin, field = option
    page = text("plugins.md")
    lines = [line for line in page.splitlines() if line.startswith(f"| `{plugin}` |")]
    assert any(f"`{field}`" in line for line in (*lines, _about(plugin, page)))


def _about(plugin: str, page: str) -> str:
    """What is said in a sentence of its own: "`Plugin` has the options …"."""
    return page.partition(f"`{plugin}` has the options")[2].partition("\n\n")[0]


@pytest.mark.parametrize("flag", [f.name for f in fields(Behaviour) if f.name != "version"])
def test_every_difference_between_versions_is_described(flag: str) -> None:
    assert f"`{flag}`" in text("versions.md")


@pytest.mark.parametrize("aspect", [aspect.name for aspect in Aspect])
def test_every_aspect_is_named(aspect: str) -> None:
    assert f"`{aspect}`" in text("plugins.md")


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_every_profile_is_described(profile: str) -> None:
    assert f"| `{profile}` | `{profiles.built_in(profile).scores[0][0].name}`" in text(
        "configuration.md"
    )


@pytest.mark.parametrize("key", sorted(all_keys(config.Config)))
def test_every_key_of_the_configuration_is_described(key: str) -> None:
    assert f"| `{key}` |" in text("configuration.md")


def _options() -> list[tuple[str, str]]:
    group = typer.main.get_command(cli.app)
    commands = {"fairlead": group, **group.commands}
    return [
        (name, option)
        for name, command in commands.items()
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
        for option in (*parameter.opts, *([parameter.envvar] if parameter.envvar else []))
    ]


@pytest.mark.parametrize("option", _options(), ids=" ".join)
def test_every_option_of_a_command_is_described(option: tuple[str, str]) -> None:
    command, name = option
    page = text("configuration.md")
    assert re.search(
        rf"`{re.escape(name)}[ `]|`fairlead {re.escape(name)}`|`{re.escape(name)} ", page
    )
    assert f"`fairlead {command}" in page or command == "fairlead"


@pytest.mark.parametrize("variable", ["KUBECONFIG", "SCHEDULER_NAME", "LOG_LEVEL", "DCGM_ENDPOINT"])
def test_every_variable_is_described(variable: str) -> None:
    assert f"`{variable}`" in text("configuration.md")


def _extender_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ExtenderMetrics(registry)
    return registry


def _metrics() -> list[str]:
    counted = {
        f.name + ("_total" if f.type == "counter" else "")
        for registry in (
            _extender_registry(),
            Metrics().registry,
            AdmissionMetrics().registry,
            AgentMetrics("n", float).registry,
        )
        for f in registry.collect()
    }
    looked_up = [SOURCE / "apps/run" / name for name in ("measures.py", "gpu_measures.py")]
    gauges = in_source(r'gauge\(\s*"(\w+)"', *looked_up)
    counters = in_source(r'counter\(\s*"(\w+)"', *looked_up)
    return sorted({*counted, *gauges, *(f"{name}_total" for name in counters)})


def test_the_metrics_are_found() -> None:
    assert {"scheduler_pending_pods", "fairlead_writes_total"} < set(_metrics())


@pytest.mark.parametrize("metric", _metrics())
def test_every_metric_is_described(metric: str) -> None:
    assert f"| `{metric}` |" in text("metrics.md")


@pytest.mark.parametrize(
    "write", in_source(r'\("(\w+)", "\w+"\): \w+\.', SOURCE / "apps/run/measures.py")
)
def test_every_kind_of_write_is_described(write: str) -> None:
    assert f"`{write}`" in text("metrics.md")


def _refusals() -> list[str]:
    in_rules = [rule.refusal for rule in FILTERS]
    return [
        *in_rules,
        "pod affinity terms conflict",
        "node(s) didn't match scheduler-enforced node affinity",
        "placement rules",
        "values and namespaces",
        "kinds of resources",
        "Too many pods",
        "which the scheduling map names for index",
        "node(s) could not assign",
        "node(s) had no index of the scheduling map left",
        "Insufficient nvidia.com/gpu",
        "node(s) were not known to Fairlead yet",
        "node(s) had their free GPUs reserved for nominated pods",
        "where the pod is being bound",
        "node(s) were not selected by <picker>",
        "no nodes available to schedule pods",
        "No preemption victims found for incoming pod",
        "Preemption is not helpful for scheduling",
        preempt.NOT_YET,
        preempt.TOO_MANY,
        "claims wait for the pod; Fairlead binds",
        "the pod is invalid: …",
        "a plugin failed: …",
        "skip schedule deleting pod: …",
        'running Bind plugin "DefaultBinder": …',
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "waiting for ephemeral volume controller to create the persistentvolumeclaim",
        "pod has unbound immediate PersistentVolumeClaims",
        "(pod is not owner)",
        "is being deleted",
        'running PreBind plugin "VolumeBinding"',
    ]


@pytest.mark.parametrize("refusal", _refusals())
def test_every_refusal_is_explained(refusal: str) -> None:
    rows = [line for line in text("operations.md").splitlines() if line.startswith("| `")]
    assert any(refusal in row for row in rows)


@pytest.mark.parametrize("refusal", _refusals())
def test_every_refusal_that_is_explained_exists(refusal: str) -> None:
    words = re.split(r"nvidia\.com/gpu|<picker>|…", refusal)[0].strip()
    rooms = ("plugins", "placement", "engine", "kube")
    assert any(words in read(file) for room in rooms for file in SOURCE.glob(f"{room}/*.py"))


def test_every_route_is_described() -> None:
    handler = AdmissionHandler(frozenset())
    details = Details(AllowAll(), Usage(Cluster()))
    scheduler = health.make_app(Metrics().registry, str, details=details)
    apps = scheduler, make_webhook_app(handler, AdmissionMetrics(), str)
    routes = {resource.canonical for app in apps for resource in app.router.resources()}
    for route in {*routes, *(f"/{verb}" for verb in VERBS)}:
        assert f"`{route}`" in text("operations.md")


@pytest.mark.parametrize(
    "event",
    in_source(
        r'log\.(?:info|warning|error)\(\s*"([^"]+)"',
        *(SOURCE / "apps" / "run").glob("*.py"),
        *(SOURCE / "apps" / "webhook").glob("*.py"),
        *(SOURCE / "apps" / "extender").glob("*.py"),
        *(SOURCE / "apps" / "agent").rglob("*.py"),
        *(SOURCE / "kube").glob("*.py"),
    ),
)
def test_every_log_line_is_described(event: str) -> None:
    assert f"`{event}`" in text("operations.md")


# -- what is described is there ------------------------------------------------------------------


def _links() -> Iterable[tuple[Path, str, str]]:
    """A page of ours, the file that a link of it names (or none) and the heading (or none)."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
            file, _, heading = target.partition("#")
            if "://" not in target:
                yield page, file, heading


def test_every_link_leads_somewhere() -> None:
    assert len([*_links()]) > 100
    wrong = ((page, file) for page, file, _ in _links() if not (page.parent / file).exists())
    none_is(wrong)


@cache
def _headings(page: Path) -> set[str]:
    found = read(page) if page.is_file() else ""
    headings = re.findall(r"^#+ (.+)$", found, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_every_link_finds_its_heading() -> None:
    wrong = (
        (page, f"{file}#{heading}")
        for page, file, heading in _links()
        if heading and heading not in _headings(page.parent / file if file else page)
    )
    none_is(wrong)


def _quoted(manifest: Path) -> bool:
    page = text(f"migrate/{manifest.parent.name}.md")
    linked = f"(../../{manifest.relative_to(ROOT)})" in page
    return linked and read(manifest) in blocks(page, "yaml")


def test_a_page_about_moving_over_quotes_its_manifests() -> None:
    assert MANIFESTS
    none_is((each, "not quoted as it is") for each in MANIFESTS if not _quoted(each))


def test_every_test_that_is_called_as_a_witness_exists() -> None:
    tests = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+)::(test_\w+)`", text("security.md") + text("gangs.md")))
    defined = {
        (file, name)
        for file in {file for file, _ in named} & set(tests)
        for name in re.findall(r"^(?:async )?def (\w+)\(", read(tests[file]), flags=re.MULTILINE)
    }
    assert len(named) > 100
    none_is((DOCS, "::".join(test)) for test in sorted(named - defined))


@pytest.mark.parametrize(
    ("part", "manifest"),
    [
        ("scheduler", "fairlead.yaml"),
        ("webhook", "fairlead.yaml"),
        ("agent", "agent.yaml"),
        ("extender", "extender.yaml"),
    ],
)
def test_the_rights_of_each_part_are_those_of_its_manifest(part: str, manifest: str) -> None:
    section = text("security.md").partition(f"### The {part}\n")[2].partition("\n#")[0]
    told: dict[str, set[str]] = {}
    for what, verbs in re.findall(r"^\| (`.+?) \| ([a-z, ]+?) \|", section, flags=re.MULTILINE):
        told |= {name: set(verbs.split(", ")) for name in re.findall(r"`(.+?)`", what)}
    granted: dict[str, set[str]] = {}
    for found in documents(DEPLOY / manifest, component=part):
        for rule in found.get("rules", ()) if found["kind"].endswith("Role") else ():
            for name in (*rule.get("resources", ()), *rule.get("nonResourceURLs", ())):
                granted.setdefault(name, set()).update(rule["verbs"])
    assert told == granted


def test_the_two_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    (section,) = re.findall(r"^## Two commands\n(.*?)^## ", readme, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"\bmake ([a-z-]+)", section)

    assert named[:2] == ["run", "test"]
    makefile = (ROOT / "Makefile").read_text()
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"make {target}"


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9.-]+):", read(ROOT / "Makefile"), flags=re.MULTILINE))
    named = re.compile(r"`make ([a-z0-9.-]+)`|^make ([a-z0-9.-]+)", re.MULTILINE)
    wrong = (
        (page, f"make {target}")
        for page in PAGES
        for target in map("".join, named.findall(read(page)))
        if target not in targets
    )
    none_is(wrong)


def test_the_example_of_a_configuration_works() -> None:
    (example,) = [block for block in blocks(text("configuration.md"), "yaml") if "kind:" in block]

    built = config.build_profiles(
        config.parse(example).profiles, Registry(), ROOT / "examples" / "02-own-picker" / "x.yaml"
    )

    assert sorted(built) == ["gpu-scheduler", "night-shift"]


def test_the_example_of_a_filter_keeps_the_contract(tmp_path: Path) -> None:
    (tmp_path / "spares.py").write_text(blocks(text("plugins.md"), "python")[0])

    check_plugin(plugin_files.make(Registry(), "spares.py:KeepsSpares", {}, tmp_path))


def test_the_examples_of_tests_of_plugins_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, *examples = blocks(text("plugins.md"), "python")
    (tmp_path / "spares.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples" / "03-own-score")

    assert len(examples) == 2
    for number, example in enumerate(examples):
        exec(compile(example, f"plugins.md {number}", "exec"), {})


@pytest.mark.parametrize("folder", ["", "migrate/"])
def test_every_page_is_listed(folder: str) -> None:
    for page in DOCS.glob(f"{folder}*.md"):
        assert page.name == "README.md" or f"({page.name})" in text(f"{folder}README.md")


def test_every_decision_is_listed() -> None:
    for decision in DOCS.glob("adr/0*.md"):
        assert f"({decision.name})" in text("adr/README.md")
        for heading in (
            "Context",
            "Decision",
            "Alternatives rejected",
            "What would change our mind",
        ):
            assert f"\n## {heading}\n" in decision.read_text(), decision.name


def test_contributing_fits_two_screens() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_every_file_on_the_walk_of_a_pod_exists() -> None:
    files = re.findall(r"`(\w+/[\w/]+\.py)`", read(ROOT / "CONTRIBUTING.md"))
    assert len(files) > 20
    missing = (file for file in files if not any((r / file).exists() for r in (SOURCE, ROOT)))
    none_is((ROOT / "CONTRIBUTING.md", file) for file in missing)
