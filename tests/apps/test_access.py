"""Who is let in where, before anything is shown."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from fairlead.apps.live.running_scheduler import NotAnswered, RunningScheduler, running_scheduler
from fairlead.apps.serving import connections
from fairlead.apps.serving.access import AllowAll, DenyAll, TokenAuth, access, is_loopback
from fairlead.apps.serving.http_limits import HttpRefusal
from fairlead.kube.access.credentials import Static, bearer
from fairlead.kube.access.reviews import Reviews
from fairlead.kube.http.reply import Reply

TOKEN = {"Authorization": "Bearer t"}


def request(headers: dict[str, str] | None = None, remote: str = "127.0.0.1") -> web.Request:
    mocked = make_mocked_request("GET", "/usage", {"Host": "localhost", **(headers or {})})
    mocked.transport.get_extra_info.side_effect = lambda *_: None  # type: ignore[union-attr]
    return mocked.clone(remote=remote)


@dataclass
class Authority:
    """An API server that answers reviews."""

    allows: Callable[[dict[str, str]], bool] = lambda _: True
    known: bool = True
    status: int = 201
    asked: list[str] = field(default_factory=list)

    async def request(self, _: str, path: str, *, body: bytes = b"", **__: Any) -> Reply:
        self.asked.append(path)
        said: dict[str, Any] = {"authenticated": self.known, "user": {"username": "ann"}}
        if path.endswith("/subjectaccessreviews"):
            said = {"allowed": self.allows(json.loads(body)["spec"]["resourceAttributes"])}
        return Reply(self.status, json.dumps({"status": said}).encode())


def checked(authority: Authority) -> TokenAuth:
    return TokenAuth(Reviews(authority))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("address", "authenticate", "kind"),
    [
        ("127.0.0.1", None, AllowAll), ("127.0.0.1", True, TokenAuth),
        ("127.0.0.1", False, AllowAll), ("::1", None, AllowAll), ("0.0.0.0", None, TokenAuth),
        ("::", None, TokenAuth), ("10.0.0.1", None, TokenAuth), ("", None, TokenAuth),
        ("example.com", None, TokenAuth), ("0.0.0.0", False, DenyAll), ("10.0.0.1", False, DenyAll),
    ],
)  # fmt: skip
def test_callers_are_checked_where_others_can_reach_the_port(
    address: str, authenticate: bool | None, kind: type
) -> None:
    reviews = Reviews(Authority())  # type: ignore[arg-type]
    assert isinstance(access(address, authenticate, reviews), kind)


async def test_an_open_port_that_checks_nobody_shows_nothing() -> None:
    with pytest.raises(HttpRefusal, match="--no-authenticate"):
        await DenyAll().rights(request(TOKEN))


@pytest.mark.parametrize(
    ("headers", "remote", "known", "code"),
    [
        ({}, "127.0.0.1", True, 401),
        ({"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}, "127.0.0.1", True, 401),
        ({"Authorization": "Basic YTpi"}, "127.0.0.1", True, 401),
        ({"Authorization": "Bearer "}, "127.0.0.1", True, 401),
        (TOKEN, "127.0.0.1", False, 401),
        (TOKEN, "10.1.2.3", True, 403),
        (TOKEN, "", True, 403),
    ],
    ids=["anonymous", "posing as a proxy", "password", "empty", "unknown", "in clear", "nowhere"],
)
async def test_who_is_not_known_sees_nothing(
    headers: dict[str, str], remote: str, known: bool, code: int
) -> None:
    authority = Authority(known=known)
    with pytest.raises(HttpRefusal) as refused:
        await checked(authority).rights(request(headers, remote))
    assert refused.value.status == code
    assert len(authority.asked) == (not known), "only a token is worth a question"


async def test_when_nobody_can_say_who_it_is_he_sees_nothing() -> None:
    for status in (403, 500):
        with pytest.raises(HttpRefusal) as refused:
            await checked(Authority(status=status)).rights(request(TOKEN))
        assert refused.value.status == 503


async def test_he_sees_the_namespaces_whose_pods_he_may_list() -> None:
    authority = Authority(lambda right: right.get("namespace") == "lab")
    rights = await checked(authority).rights(request(TOKEN))
    assert await rights.namespaces({"lab", "other"}) == {"lab"}
    assert not await rights.nodes()
    assert await rights.pod("lab", "p")
    assert not await rights.pod("other", "p")


async def test_who_may_list_pods_everywhere_is_asked_about_once() -> None:
    authority = Authority(lambda right: right["resource"] == "pods")
    rights = await checked(authority).rights(request(TOKEN))
    names = {f"n{number}" for number in range(1000)}
    assert await rights.namespaces(names) == names
    assert len(authority.asked) == 2


async def test_of_many_namespaces_only_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.apps.serving.access.MOST_NAMESPACES", 5)
    authority = Authority(lambda right: "namespace" in right)
    rights = await checked(authority).rights(request(TOKEN))
    assert len(await rights.namespaces({f"n{number}" for number in range(98)})) == 5
    assert len(authority.asked) == 2 + 5


async def test_a_page_of_another_name_is_not_served() -> None:
    """A browser shows the name that the page came from, wherever that was made to lead."""
    asked = make_mocked_request("GET", "/usage", {"Host": "evil.example.com:8080"})
    with pytest.raises(HttpRefusal):
        await AllowAll().rights(asked)


def test_other_machines_are_not_this_one() -> None:
    assert not any(map(is_loopback, ("0.0.0.0", "10.0.0.1", "::", "127.0.0.1.example.com")))
    assert is_loopback("::ffff:127.0.0.1")


# -- who asks --------------------------------------------------------------------------------------


@asynccontextmanager
async def a_server(asks_for_token: bool = True) -> AsyncIterator[tuple[str, list[str]]]:
    seen: list[str] = []

    async def answer(asked: web.Request) -> web.Response:
        seen.append(asked.headers.get("Authorization", ""))
        needed = asks_for_token and not seen[-1]
        return web.Response(text="ok", status=401 if needed else 200)

    app = web.Application()
    app.add_routes([web.get("/usage", answer)])
    port = await connections.serve(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port.number}", seen
    finally:
        await port.cleanup()


async def test_a_token_is_sent_only_when_it_is_asked_for() -> None:
    async with a_server(asks_for_token=False) as (url, seen):
        assert await RunningScheduler(url, Static(bearer("t"))).get("/usage") == b"ok"
        assert seen == [""]
    async with a_server() as (url, seen):
        scheduler = RunningScheduler(url, Static(bearer("t")))
        assert [await scheduler.get("/usage") for _ in range(2)] == [b"ok", b"ok"]
        assert seen == ["", "Bearer t", "Bearer t"]


async def test_without_a_token_he_is_told_how_to_get_one() -> None:
    async with a_server() as (url, _):
        with pytest.raises(NotAnswered, match="kubectl create token"):
            await RunningScheduler(url, Static({})).get("/usage")


async def test_a_token_does_not_cross_the_network_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_server() as (url, seen):
        port = int(url.rpartition(":")[2])

        async def lead_here(*_: Any, **__: Any) -> list[dict[str, Any]]:
            return [{"hostname": "gpu.example.com", "host": "127.0.0.1", "port": port,
                     "family": 2, "proto": 0, "flags": 0}]  # fmt: skip

        monkeypatch.setattr(aiohttp.TCPConnector, "_resolve_host", lead_here)
        scheduler = RunningScheduler(f"http://gpu.example.com:{port}", Static(bearer("secret")))
        with pytest.raises(NotAnswered, match="port-forward"):
            await scheduler.get("/usage")
        assert seen == [""]


async def test_a_service_is_reached_through_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_server() as (url, seen):
        said = tmp_path / "said"
        kubectl = tmp_path / "kubectl"
        kubectl.write_text(
            f'#!/bin/sh\necho "$@" > {said}\n'
            f'echo "Forwarding from 127.0.0.1:{url.rpartition(":")[2]} -> 8080"\nexec sleep 600\n'
        )
        kubectl.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        forwarded = running_scheduler("gpus/fairlead", Static(bearer("t")), ("--context=lab",))
        async with forwarded as scheduler:
            assert await scheduler.get("/usage") == b"ok"
        assert seen == ["", "Bearer t"]
        assert said.read_text().split() == [
            "port-forward", "--context=lab", "--namespace=gpus", "--address=127.0.0.1",
            "service/fairlead", ":http",
        ]  # fmt: skip


async def test_what_kubectl_refuses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'you shall not pass' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(NotAnswered, match=r"you shall not pass.*pods/portforward"):
        async with running_scheduler("gpus/fairlead", Static({})):
            pass
