"""The embedded server's own promises: its door, its memory, its history, its state file."""

import asyncio
import contextlib
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fairlead.sim.apiserver import EmbeddedServer, StartError
from fidelity.client import Connection
from fidelity.serving import serving
from yaml_texts import yaml_of

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def a_pod(name="p", **metadata):
    container = {"name": "c", "image": "example.com/x:1"}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


@contextlib.contextmanager
def connected(tmp_path, **options):
    kubeconfig = tmp_path / "kubeconfig"
    with serving(kubeconfig, **options), contextlib.closing(Connection(kubeconfig)) as connection:
        yield connection


def names(server, path):
    return [item["metadata"]["name"] for item in server.request("GET", path)[1]["items"]]


@pytest.mark.parametrize(
    "path", ["/", "/api", "/healthz", "/version", PODS, "/openapi/v3", "/nothing"]
)
@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}]
)
def test_nothing_is_reachable_without_the_token(tmp_path, path, header):
    with serving(tmp_path / "kubeconfig") as server:
        trust = ssl.create_default_context(cadata=server.authority.decode())
        request = urllib.request.Request(server.url + path, headers=header)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, context=trust)
        with refused.value as answer:
            assert answer.code == 401
            assert b'"reason":"Unauthorized"' in answer.read()


def test_it_listens_on_loopback_only(tmp_path):
    with serving(tmp_path / "kubeconfig") as server:
        assert server.url.startswith("https://127.0.0.1:")
        listening = Path("/proc/net/tcp").read_text()
        bound = [
            line.split()[1] for line in listening.splitlines() if f":{server.port:04X} " in line
        ]
        assert all(
            address.startswith("0100007F")
            for address in bound
            if address.endswith(f"{server.port:04X}")
        )


def test_the_kubeconfig_is_for_its_owner_only(tmp_path):
    with serving(tmp_path / "kubeconfig"):
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600


async def test_a_taken_port_is_one_clear_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"^port {port} is taken: .*choose another port$"):
            async with EmbeddedServer.start(port):
                pass


async def test_it_runs_in_the_callers_loop(tmp_path):
    async with EmbeddedServer.start(kubeconfig_out=tmp_path / "k") as server:
        connection = Connection(tmp_path / "k")
        code, _, _ = await asyncio.to_thread(connection.request, "POST", PODS, a_pod())
        connection.close()
        assert code == 201
        assert "default/p" in server.api.store.collection("pods").entries


@pytest.mark.program
def test_a_program_of_its_own(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "fairlead.sim.apiserver", "--kubeconfig-out", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline().startswith("https://127.0.0.1:")
        with contextlib.closing(Connection(kubeconfig)) as connection:
            assert connection.request("GET", "/version")[0] == 200
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def test_a_restart_goes_on_where_it_was(tmp_path):
    state = tmp_path / "state.sqlite"
    with connected(tmp_path, state=state) as server:
        server.request("POST", PODS, a_pod("kept"))
        server.request("POST", PODS, a_pod("gone"))
        server.request("DELETE", f"{PODS}/gone")
        before = server.request("GET", f"{PODS}/kept")[1]
    with connected(tmp_path, state=state) as server:
        assert server.request("GET", f"{PODS}/kept")[1] == before
        assert names(server, PODS) == ["kept"]
        again = server.request(
            "PATCH", f"{PODS}/kept", {"metadata": {"labels": {"a": "b"}}}, MERGE
        )[1]
        assert int(again["metadata"]["resourceVersion"]) > int(
            before["metadata"]["resourceVersion"]
        )
        watch = server.watch(
            f"{PODS}?watch=true&resourceVersion={before['metadata']['resourceVersion']}"
        )
        assert [event["object"]["code"] for event in watch.finish(1)] == [410]


@pytest.mark.program
def test_a_killed_server_keeps_a_whole_state(tmp_path):
    kubeconfig, state = tmp_path / "kubeconfig", tmp_path / "state.sqlite"
    command = [sys.executable, "-m", "fairlead.sim.apiserver", "--kubeconfig-out", str(kubeconfig),
               "--state", str(state)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        with contextlib.closing(Connection(kubeconfig)) as connection:
            for number in range(300):
                assert connection.request("POST", PODS, a_pod(f"p-{number:03}"))[0] == 201
                while number == 100 and not _is_saved(state, "default/p-100"):
                    time.sleep(0.02)
        server.kill()
    with contextlib.closing(sqlite3.connect(state)) as database:
        (version,) = database.execute(
            "SELECT value FROM counters WHERE name = 'version'"
        ).fetchone()
        (newest,) = database.execute("SELECT max(version) FROM objects").fetchone()
    assert newest <= version
    with connected(tmp_path, state=state) as server:
        kept = names(server, PODS)
        assert kept == [f"p-{number:03}" for number in range(len(kept))]  # a prefix, no holes
        assert len(kept) > 100


def _is_saved(state, key):
    """By the bytes of its files: the server that has it open locks it."""
    files = state.parent.glob(f"{state.name}*")
    return any(key.encode() in file.read_bytes() for file in files)


async def test_a_state_file_has_one_server(tmp_path):
    async with EmbeddedServer.start(state=tmp_path / "state"):
        with pytest.raises(StartError, match="is in use by another server"):
            async with EmbeddedServer.start(state=tmp_path / "state"):
                pass


async def test_a_state_file_that_is_none(tmp_path):
    (tmp_path / "state").write_text("no database at all, but long enough to be looked at" * 30)
    with pytest.raises(StartError, match="holds no saved state"):
        async with EmbeddedServer.start(state=tmp_path / "state"):
            pass


def test_custom_resources_and_webhooks_survive_a_restart(tmp_path):
    state, group = tmp_path / "state.sqlite", "/apis/example.com/v1/namespaces/default/gangs"
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    named = {"plural": "gangs", "kind": "Gang"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": named, "versions": [version]}
    definition = {"metadata": {"name": "gangs.example.com"}, "spec": spec}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "g"}}
    with connected(tmp_path, state=state) as server:
        assert server.request("POST", crds, definition)[0] == 201
        assert server.request("POST", group, gang)[0] == 201
    with connected(tmp_path, state=state) as server:
        assert names(server, group) == ["g"]
        server.request("DELETE", f"{crds}/gangs.example.com")
        assert server.request("GET", group)[0] == 404


def test_a_watch_beyond_the_history_is_expired(tmp_path):
    with connected(tmp_path, history=5) as server:
        first = server.request("POST", PODS, a_pod())[1]["metadata"]["resourceVersion"]
        for number in range(10):
            server.request(
                "PATCH", f"{PODS}/p", {"metadata": {"labels": {"n": str(number)}}}, MERGE
            )
        events = server.watch(f"{PODS}?watch=true&resourceVersion={first}").finish(1)
        assert [(event["type"], event["object"]["code"]) for event in events] == [("ERROR", 410)]
        assert events[0]["object"]["reason"] == "Expired"


def test_a_page_beyond_the_history_is_expired_but_can_go_on(tmp_path):
    with connected(tmp_path, history=5) as server:
        for name in "abc":
            server.request("POST", PODS, a_pod(name))
        token = server.request("GET", f"{PODS}?limit=1")[1]["metadata"]["continue"]
        for number in range(10):
            server.request(
                "PATCH", f"{PODS}/a", {"metadata": {"labels": {"n": str(number)}}}, MERGE
            )
        code, answer, _ = server.request("GET", f"{PODS}?limit=5&continue={token}")
        assert (code, answer["reason"]) == (410, "Expired")
        assert names(server, f"{PODS}?limit=5&continue={answer['metadata']['continue']}") == [
            "b",
            "c",
        ]


def test_bookmarks_come_before_a_watch_ends(tmp_path):
    with connected(tmp_path) as server:
        version = server.request("POST", PODS, a_pod())[1]["metadata"]["resourceVersion"]
        query = f"?watch=true&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={version}"
        watch = server.watch(PODS + query)
        time.sleep(3.2)
        assert [event["type"] for event in watch.finish(1)] == ["BOOKMARK"]


def test_a_client_that_goes_leaves_no_watch_behind(tmp_path):
    with serving(tmp_path / "kubeconfig") as embedded:
        server = Connection(tmp_path / "kubeconfig")
        listeners = embedded.api.store.collection("pods").listeners
        before = len(listeners)
        watch = server.watch(f"{PODS}?watch=true")
        assert len(listeners) == before + 1
        watch.finish()
        deadline = time.monotonic() + 60
        while len(listeners) > before and time.monotonic() < deadline:
            time.sleep(0.02)
        server.close()
        assert len(listeners) == before


def test_a_body_that_is_too_large(tmp_path):
    with connected(tmp_path) as server:
        code, answer, _ = server.request(
            "POST", PODS, b'{"metadata":{"name":"' + b"x" * 3_200_000 + b'"}}'
        )
        assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")


def test_hostile_bodies_harm_nobody(tmp_path):
    deep = b'{"a":' * 100_000
    with connected(tmp_path) as server:
        for body in (
            deep,
            b"\xff\xfe",
            b"null",
            b"[]",
            b'{"metadata":{"name":"a\x00b"}}',
            b"1e99999",
        ):
            code, _, _ = server.request("POST", PODS, body)
            assert 400 <= code < 500, body[:20]
        assert server.request("GET", "/readyz")[0] == 200


def test_the_kubeconfig_names_everything(tmp_path):
    with serving(tmp_path / "kubeconfig") as server:
        document = yaml_of(tmp_path / "kubeconfig")
        assert document["clusters"][0]["cluster"]["server"] == server.url
        assert document["users"][0]["user"]["token"] == server.token
