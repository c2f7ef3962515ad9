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
    "fairlead.apps.config.kube_scheduler",
    "fairlead.apps.run.extender_calls",
    "fairlead.apps.run.readings",
    "fairlead.apps.run.solving",
    "fairlead.apps.webhook",
    "fairlead.apps.what_if",
    "fairlead.cel",
    "fairlead.sim",
    "fairlead.telemetry.figures",
    "fairlead.telemetry.sources",
    "grpc",
    "jsonschema",
    "rich",
    "highspy",
}
#: What `fairlead run` has loaded of other packages when it looks for a cluster.
PACKAGES_OF_RUN = {
    # for the command line
    "annotated_doc", "annotated_types", "pydantic", "pydantic_core", "shellingham", "typer",
    "typing_extensions", "typing_inspection",
    # for HTTP
    "aiohappyeyeballs", "aiohttp", "aiosignal", "attr", "frozenlist", "httptools", "idna",
    "multidict", "propcache", "uvloop", "yarl",
    "msgspec", "numpy", "prometheus_client", "structlog", "yaml",
    "_distutils_hack",  # setuptools, where it is installed
}  # fmt: skip
#: Modules of Fairlead that it has loaded by then, and methods that were compiled, those of packages
#: included. Each start pays for what a feature adds to them: load it where the feature is chosen.
MOST_MODULES_OF_RUN = 740
MOST_COMPILED_FOR_RUN = 470
#: What reads lists of a cluster once, and watches nothing.
NOT_FOR_WHAT_IF = {
    "aiohttp", "cryptography", "fairlead.cel", "grpc", "prometheus_client", "rich", "highspy",
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


_RUN = """
import builtins, gc, json, sys

compiled, passes, execute = [], [], builtins.exec

def counted(source, *names):
    compiled.extend([1] if isinstance(source, str) else ())
    return execute(source, *names)

from fairlead.apps.entry import main

builtins.exec = counted
gc.callbacks.append(lambda phase, _: passes.append(phase))
sys.argv = ["fairlead", "run", "--kubeconfig", "/none"]
try:
    main()
except SystemExit:
    files = {name: getattr(each, "__file__", None) or "" for name, each in sys.modules.items()}
    installed = [name for name, file in files.items() if "site-packages" in file]
    print(json.dumps([list(files), installed, len(compiled), len(passes)]))
"""


def test_the_start_of_the_scheduler_does_not_grow() -> None:
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, check=True)
    assert b"cannot read" in done.stderr, done.stderr
    loaded, installed, compiled, passes = json.loads(done.stdout)
    assert set(loaded) & NOT_FOR_RUN == set()
    assert {name.split(".")[0] for name in installed} <= PACKAGES_OF_RUN
    assert sum(name.startswith("fairlead") for name in loaded) <= MOST_MODULES_OF_RUN
    assert compiled <= MOST_COMPILED_FOR_RUN
    assert passes == 0, "garbage is looked for while the program is loaded"


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("fairlead.apps.cli", NOT_FOR_THE_COMMAND_LINE),
        ("fairlead.apps.what_if.what_if_view", NOT_FOR_WHAT_IF),
    ],
)
def test_a_start_loads_only_what_it_needs(module: str, forbidden: set[str]) -> None:
    loaded = loaded_by(module)
    assert module in loaded
    assert loaded & forbidden == set()


def test_aiohttp_is_loaded_without_reading_what_the_system_trusts() -> None:
    """What connects by TLS names the authorities: by default, none would be trusted."""
    script = """
import os
from fairlead.apps.quick_start import load_aiohttp

os.environ["SSL_CERT_FILE"] = "kept"
os.environ.pop("SSL_CERT_DIR", None)
load_aiohttp()
from aiohttp import connector

print(connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509_ca"])
print(os.environ["SSL_CERT_FILE"], "SSL_CERT_DIR" in os.environ)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.split() == [b"0", b"kept", b"False"]


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
