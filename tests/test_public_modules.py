"""The public modules: what they export is documented, and changes only on purpose."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fairlead import plugin, testing

ROOT = Path(__file__).parents[1]
#: A name that is removed or renamed here breaks plugins: say so in CHANGELOG.md.
EXPORTS = {
    plugin: """
        CPU GPU HIGHEST_SCORE MEMORY PODS WHOLE Aspect ClusterFilter Concerns DetailedFilter
        DetailedGpuFilter Entry Filter Goal GoalUnit GpuChooser GpuDetail GpuRequest GpuScores
        NodeMask NodeScores Nodes OrderKey PerNode Picker Plugin PluginFault PodField PodRequest
        PreFilter PreFilterResult QueueOrder Reason ReasonedFilter RelativeScore Score
    """,
    testing: """
        REQUESTS ContractViolation Placed Refused TestCluster a_gpu_node a_node a_pod a_request
        a_taint check_plugin gpu_share
    """,
}
MODULES = pytest.mark.parametrize("module", EXPORTS, ids=lambda module: module.__name__)


@MODULES
def test_a_public_module_exports_exactly_these_names(module: ModuleType) -> None:
    assert module.__all__ == EXPORTS[module].split()


@MODULES
def test_a_public_module_has_no_other_public_names(module: ModuleType) -> None:
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(module.__all__)


@MODULES
def test_a_public_module_lists_its_names_with_a_description(module: ModuleType) -> None:
    listed = re.findall(r"^- `(\w+)`: \S", module.__doc__ or "", flags=re.MULTILINE)
    assert sorted(listed) == sorted(module.__all__)


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module in EXPORTS for name in module.__all__], ids=str
)
def test_a_public_class_or_function_has_a_docstring(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    assert value.__doc__
    assert not value.__doc__.startswith(f"{name}("), "written by dataclass"
    for method, code in vars(value).items() if getattr(value, "_is_protocol", False) else ():
        assert method.startswith("_") or not callable(code) or code.__doc__, method


# -- authors of plugins need nothing else --------------------------------------------------------


def _examples() -> dict[str, str]:
    """Every Python file of the examples, and every block of Python about plugins."""
    files = {
        str(file.relative_to(ROOT)): file.read_text() for file in ROOT.glob("examples/**/*.py")
    }
    page = (ROOT / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    return files | {f"docs/plugins.md {number}": block for number, block in enumerate(blocks)}


def _imported(source: str) -> Iterator[tuple[str, str]]:
    """Modules of Fairlead that are imported, and the names; empty for a module as a whole."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_the_examples_of_plugins_are_found() -> None:
    assert {"examples/02-own-picker/picker.py", "docs/plugins.md 0"} <= set(_examples())


@pytest.mark.parametrize("example", _examples())
def test_an_example_imports_public_modules_only(example: str) -> None:
    public = {(module.__name__, name) for module in EXPORTS for name in module.__all__}
    ours = {pair for pair in _imported(_examples()[example]) if pair[0].split(".")[0] == "fairlead"}
    assert ours <= public
