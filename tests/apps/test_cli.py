"""The command line as its users see it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fairlead.apps import cli

FAIRLEAD = Path(sys.executable).with_name("fairlead")
COMMANDS = sorted(get_command(cli.app).commands)  # type: ignore[attr-defined]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: x, user: {token: abc}}]
"""


def help_of(*words: str) -> str:
    done = CliRunner().invoke(cli.app, [*words, "--help"], terminal_width=80)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_whole_option_names_at_80_columns(command: str) -> None:
    text = help_of(command)
    found = get_command(cli.app).commands[command]  # type: ignore[attr-defined]
    names = [name for option in found.params for name in option.opts if name.startswith("--")]
    assert [name for name in names if not re.search(rf"{name}\b", text)] == []
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_help_lists_commands_with_whole_sentences() -> None:
    listed = help_of().partition("Commands:")[2]
    assert [line.split()[0] for line in listed.splitlines() if line] == list(
        get_command(cli.app).commands  # type: ignore[attr-defined]
    )
    assert "..." not in listed


@pytest.mark.program
@pytest.mark.parametrize("where", ["foo", "http://127.0.0.1:9"])
def test_top_leaves_no_connection_open(tmp_path: Path, where: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    # The development mode also reports callbacks that take long, as all do on a busy machine.
    command = [sys.executable, "-W", "default::ResourceWarning", str(FAIRLEAD), "top", "--once"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(file), "--scheduler", where],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("fairlead: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
