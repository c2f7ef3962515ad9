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
#: What reads lists of a cluster once, and watches nothing.
NOT_FOR_WHAT_IF = {
    "aiohttp", "cryptography", "fairlead.cel", "grpc", "prometheus_client", "rich", "scipy",
}  # fmt: skip
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
    first = "from fairlead.apps.quick_start import load_structlog; load_structlog()"
    if module != "fairlead.apps.what_if.what_if_view":
        first = "pass"
    script = f"{first}\nimport json, sys, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("fairlead.apps.run.run", NOT_FOR_RUN),
        ("fairlead.apps.cli", NOT_FOR_THE_COMMAND_LINE),
        ("fairlead.apps.what_if.what_if_view", NOT_FOR_WHAT_IF),
    ],
)
def test_a_start_loads_only_what_it_needs(module: str, forbidden: set[str]) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert loaded & forbidden == set()


def test_a_command_reads_only_its_own_options() -> None:
    """Those of all others take longer to read than most commands take."""
    script = """
import sys
from fairlead.apps import cli

sys.argv = ["fairlead", *sys.argv[1:]]
try:
    cli.main()
finally:
    print(len(cli.app.registered_commands))
"""
    run = [sys.executable, "-c", script]
    one = subprocess.run([*run, "check-config", "--help"], capture_output=True, check=True)
    assert one.stdout.split()[-1] == b"1"
    assert b"check-config [OPTIONS]" in one.stdout
    other = subprocess.run([*run, "chek-config"], capture_output=True, check=False)
    assert b"check-config" in other.stderr
    assert int(other.stdout) > 10


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
