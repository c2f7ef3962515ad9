"""Credential plugins, with real programs: shell scripts that print what a test wants."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.kube.access import execplugin
from fairlead.kube.access.credentials import Credentials
from fairlead.kube.access.execplugin import ExecPlugin, Plugin
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.access.tls import client_context
from fairlead.kube.errors import KubeconfigError
from fairlead.sim.controlplane.certificates import Authority
from scripted import until

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def a_credential(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def in_seconds(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


class Program:
    """A script that counts its runs and prints what `says` holds."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plugin"
        self.says = folder / "says"
        self._runs = folder / "runs"
        self._runs.touch()
        self.script(f"cat {self.says}")

    @property
    def runs(self) -> int:
        return len(self._runs.read_text())

    def script(self, text: str) -> None:
        self.path.write_text(f"#!/bin/sh\nprintf x >> {self._runs}\n{text}\n")
        self.path.chmod(0o755)

    def plugin(self, **options: Any) -> Plugin:
        return Plugin(str(self.path), options.pop("api_version", V1), **options)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    # It is noon for as long as a program takes, which may be many seconds.
    monkeypatch.setattr(execplugin, "datetime", SimpleNamespace(now=lambda _: NOON))
    return Program(tmp_path)


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_token_is_kept_until_a_401(program: Program, version: str) -> None:
    now = [0.0]
    program.says.write_text(a_credential(version, token="one"))
    plugin = ExecPlugin(program.plugin(api_version=version), None, clock=lambda: now[0])
    assert program.runs == 0
    for _ in range(3):
        assert await plugin.headers() == {"Authorization": "Bearer one"}
    assert program.runs == 1
    program.says.write_text(a_credential(version, token="two"))
    await plugin.refresh()
    assert program.runs == 1, "it ran moments ago, and others meet the same 401"
    now[0] = 10.0
    await asyncio.gather(plugin.refresh(), plugin.refresh(), plugin.refresh())
    assert await plugin.headers() == {"Authorization": "Bearer two"}
    assert program.runs == 2


async def test_a_token_is_renewed_before_it_expires_and_nobody_waits(program: Program) -> None:
    now = [0.0]
    program.says.write_text(a_credential(token="one", expirationTimestamp=in_seconds(600)))
    plugin = ExecPlugin(program.plugin(), None, clock=lambda: now[0])
    await plugin.headers()
    program.says.write_text(a_credential(token="two", expirationTimestamp=in_seconds(1200)))
    now[0] = 530.0
    await plugin.headers()
    assert program.runs == 1
    now[0] = 545.0
    assert await plugin.headers() == {"Authorization": "Bearer one"}
    async with asyncio.timeout(60):
        while await plugin.headers() != {"Authorization": "Bearer two"}:
            await asyncio.sleep(0.01)
    assert program.runs == 2


async def test_an_expired_token_is_waited_for(program: Program) -> None:
    now = [0.0]
    program.says.write_text(a_credential(token="one", expirationTimestamp=in_seconds(600)))
    plugin = ExecPlugin(program.plugin(), None, clock=lambda: now[0])
    await plugin.headers()
    program.says.write_text(a_credential(token="two"))
    now[0] = 601.0
    answers = await asyncio.gather(plugin.headers(), plugin.headers())
    assert answers == [{"Authorization": "Bearer two"}] * 2
    assert program.runs == 2


async def test_a_failing_renewal_leaves_a_valid_token_in_use(program: Program) -> None:
    now = [0.0]
    program.says.write_text(a_credential(token="one", expirationTimestamp=in_seconds(600)))
    plugin = ExecPlugin(program.plugin(), None, clock=lambda: now[0])
    await plugin.headers()
    program.script("exit 3")
    now[0] = 550.0
    assert await plugin.headers() == {"Authorization": "Bearer one"}
    await until(lambda: plugin._failure)
    for _ in range(20):
        assert await plugin.headers() == {"Authorization": "Bearer one"}
        await asyncio.sleep(0.01)
    assert program.runs == 2, "and the program is not hammered"
    now[0] = 601.0
    with pytest.raises(KubeconfigError, match="exit code 3"):
        await plugin.headers()


async def test_a_failing_program_is_not_hammered(program: Program) -> None:
    now = [0.0]
    program.script("echo please log in >&2; exit 1")
    plugin: Credentials = ExecPlugin(program.plugin(), None, clock=lambda: now[0])
    for _ in range(3):
        with pytest.raises(KubeconfigError, match="please log in"):
            await plugin.headers()
    assert program.runs == 1
    program.script(f"cat {program.says}")
    program.says.write_text(a_credential(token="one"))
    now[0] = 10.0
    assert await plugin.headers() == {"Authorization": "Bearer one"}


async def test_a_client_certificate_goes_into_the_tls_context(
    program: Program, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.client("me")
    program.says.write_text(
        a_credential(
            clientCertificateData=pair.certificate.read_text(), clientKeyData=pair.key.read_text()
        )
    )
    context = client_context(None, None, verify=False)
    assert await ExecPlugin(program.plugin(), context).headers() == {}
    with pytest.raises(KubeconfigError, match="https://"):
        await ExecPlugin(program.plugin(), None).headers()


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("no json", "no ExecCredential"),
        (a_credential(V1BETA1, token="t"), "make the apiVersions agree"),
        (a_credential(), "neither a token nor a client certificate"),
        (json.dumps({"apiVersion": V1, "kind": "ExecCredential"}), "neither a token"),
        (a_credential(clientCertificateData="x"), "without its key"),
        (a_credential(token="a\nb"), "copy it again"),
    ],
)
async def test_answers_that_cannot_be_used(program: Program, says: str, said: str) -> None:
    program.says.write_text(says)
    with pytest.raises(KubeconfigError, match=said):
        await ExecPlugin(program.plugin(), None).headers()


async def test_a_program_that_hangs_is_ended(program: Program) -> None:
    program.script("exec sleep 60")
    with pytest.raises(KubeconfigError, match=r"did not finish in 0\.2 s"):
        await ExecPlugin(program.plugin(time_limit_s=0.2), None).headers()


async def test_a_missing_program_comes_with_its_install_hint(tmp_path: Path) -> None:
    plugin = Plugin(str(tmp_path / "missing"), V1, install_hint="get it from your vendor")
    with pytest.raises(KubeconfigError, match="get it from your vendor"):
        await ExecPlugin(plugin, None).headers()


async def test_the_loop_is_never_blocked(program: Program, tmp_path: Path) -> None:
    may_end = tmp_path / "may end"
    program.script(f"while [ ! -e '{may_end}' ]; do sleep 0.05; done; cat {program.says}")
    program.says.write_text(a_credential(token="t"))
    login = asyncio.create_task(ExecPlugin(program.plugin(), None).headers())
    await until(lambda: program.runs)
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert not login.done()
    may_end.touch()
    assert await login == {"Authorization": "Bearer t"}


async def test_the_kubeconfig_tells_the_program_what_it_asks_for(
    program: Program, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    program.script(
        'printf \'{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "%s"}}\' '
        f'"{V1}" "$1-$REGION"; printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info'
    )
    stanza = {
        "apiVersion": V1,
        "command": "./plugin",
        "args": ["arg"],
        "env": [{"name": "REGION", "value": "north"}],
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    cluster = {
        "server": "https://h:6443",
        "certificate-authority": str(authority.certificate),
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
        ],
    }
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": stanza}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))

    access = load_access(str(tmp_path / "config"))

    assert await access.credentials.headers() == {"Authorization": "Bearer arg-north"}
    info = json.loads((tmp_path / "info").read_text())
    assert (info["kind"], info["apiVersion"]) == ("ExecCredential", V1)
    assert info["spec"]["interactive"] is False
    told = info["spec"]["cluster"]
    assert (told["server"], told["config"]) == ("https://h:6443", {"audience": "a"})
    assert told["certificate-authority-data"]
