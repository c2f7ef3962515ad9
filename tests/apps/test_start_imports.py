"""What is loaded before a command does its work: little, so that it starts soon."""

import json
import subprocess
import sys

import pytest

#: For commands that look, or that simulate; and packages that only some features need.
NOT_FOR_RUN = {
    "cryptography",
    "fairlead.apps.defrag",
    "fairlead.apps.explain.explanation",
    "fairlead.apps.live.live_cluster",
    "fairlead.apps.live.running_scheduler",
    "fairlead.apps.live.start_forecasts",
    "fairlead.apps.queues.detail_view",
    "fairlead.apps.queues.view",
    "fairlead.apps.simulate",
    "fairlead.apps.top.table",
    "fairlead.apps.up",
    "fairlead.apps.webhook",
    "fairlead.apps.what_if",
    "fairlead.cel",
    "fairlead.sim",
    "grpc",
    "jsonschema",
    "scipy",
}
#: `fairlead --help` and each command load it before they know what to do.
NOT_FOR_THE_COMMAND_LINE = NOT_FOR_RUN | {
    "aiohttp",
    "fairlead.apps.config.run_plan",
    "fairlead.cluster",
    "fairlead.engine",
    "fairlead.kube",
    "fairlead.telemetry",
    "msgspec",
    "numpy",
    "prometheus_client",
    "structlog",
    "yaml",
}


def loaded_by(module: str) -> set[str]:
    script = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("fairlead.apps.run.run", NOT_FOR_RUN),
        ("fairlead.apps.cli", NOT_FOR_THE_COMMAND_LINE),
    ],
)
def test_a_start_loads_only_what_it_needs(module: str, forbidden: set[str]) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert loaded & forbidden == set()


def test_an_interrupt_while_a_command_loads_ends_it_without_a_message() -> None:
    script = """
import sys
from fairlead.apps import cli

class Interrupted:
    def find_spec(self, name, *_):
        if name == "fairlead.apps.config.check_config":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
sys.argv = ["fairlead", "check-config", "a.yaml"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
