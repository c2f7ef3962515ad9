"""Calls of HTTP extenders: what is sent, and what becomes of every kind of answer."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from builders import a_pod
from fairlead.apps.config.extender_terms import ExtenderPlan
from fairlead.apps.run.extender_calls import FailureRecord
from fairlead.apps.run.extender_client import Asked, ExtenderClient, ExtenderFault
from fairlead.apps.run.extender_objects import ExtenderObjects
from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.http.client import Client
from fairlead.model.http_extenders import ExtenderTerms
from http_extender import HttpExtender, extending, said

POD = b'{"metadata":{"name":"p"}}'
NODES = {name: json.dumps({"metadata": {"name": name}}).encode() for name in "ab"}
ASKED = Asked(POD, ["a", "b"], NODES)


@pytest.fixture
def extender() -> Iterator[HttpExtender]:
    with extending() as found:
        yield found


def plan(extender: HttpExtender, **changes: Any) -> ExtenderPlan:
    made = ExtenderPlan(ExtenderTerms(extender.url + "/v1"), "filter", "prioritize", weight=1)
    return replace(made, **{"by_name": True, **changes})


async def filtered(extender: HttpExtender, **changes: Any) -> Any:
    client = ExtenderClient(plan(extender, **changes))
    try:
        return await client.filter(ASKED)
    finally:
        await client.close()


async def points(extender: HttpExtender) -> dict[str, float]:
    client = ExtenderClient(plan(extender))
    try:
        return await client.prioritize(ASKED)
    finally:
        await client.close()


async def test_names_are_sent_to_an_extender_that_knows_the_nodes(extender: HttpExtender) -> None:
    found = await filtered(extender)
    assert found.names == ["a", "b"]
    ((path, asked),) = extender.asked
    assert path == "/v1/filter"
    assert asked == {"Pod": json.loads(POD), "Nodes": None, "NodeNames": ["a", "b"]}


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"", b"HTTP/1.1 100 \r\n\r\n"),
        (b"", b"HTTP/1.1 103 E\r\nLink: a\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"),
        (CHUNKED, b"1\r\n \r\n"),
        (CHUNKED + b"1;x=", b"a"),
        (CHUNKED + b"0\r\n", b"X-A: a\r\n"),
    ],
    ids=["continue", "hints", "headers", "chunks", "extension", "trailers"],
)
async def test_an_answer_that_is_mostly_not_its_body_is_given_up(first: bytes, more: bytes) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(first)
        with suppress(ConnectionError):
            while sent < 2**24:
                writer.write(more * 100)
                sent += len(more) * 100
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = ExtenderClient(ExtenderPlan(ExtenderTerms(url), "filter", by_name=True, timeout_s=60))
    with pytest.raises(ExtenderFault):
        await client.filter(ASKED)
    await client.close()
    server.close()
    assert sent < 2**24


async def test_nodes_are_sent_to_one_that_does_not(extender: HttpExtender) -> None:
    extender.filter = lambda asked: said({"nodes": {"items": asked["Nodes"]["items"][1:]}})
    found = await filtered(extender, by_name=False)
    assert found.names == ["b"]
    ((_, asked),) = extender.asked
    assert asked["NodeNames"] is None
    assert [node["metadata"]["name"] for node in asked["Nodes"]["items"]] == ["a", "b"]


async def test_reasons_are_read_whatever_the_case_of_the_fields(extender: HttpExtender) -> None:
    failed = {"failedNodes": {"a": "no licence"}, "failedAndUnresolvableNodes": {"b": "never"}}
    extender.filter = lambda _: said({"nodenames": [], **failed})
    found = await filtered(extender)
    assert (found.names, found.failed) == ([], {"a": "no licence", "b": "never"})
    assert found.unresolvable == {"b"}


async def test_nodes_of_which_it_was_not_asked_cannot_be_refused(extender: HttpExtender) -> None:
    extender.filter = lambda _: said({"NodeNames": ["a", "a"], "FailedNodes": {"z": "x" * 9999}})
    found = await filtered(extender)
    assert (found.names, found.failed) == (["a"], {})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (said({"Error": "no database"}), "^no database$"),
        ((500, b"{}"), "^failed filter with extender at URL http://.*/v1/filter, code 500$"),
        (said({"NodeNames": ["z"]}), 'claims a filtered node "z" which is not found in the input'),
        ((200, b"[" * 100_000), "the answer to filter cannot be read"),
        ((200, b"{"), "the answer to filter cannot be read"),
        (said({"NodeNames": "a"}), "nodenames of the answer cannot be read"),
        (said({"NodeNames": ["a"] * 13}), "the answer lists 13 nodes, and the question 2"),
        (said({"Error": "x" * (1 << 21)}), "the answer is longer than"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_a_fault(
    extender: HttpExtender, reply: tuple[int, bytes], words: str
) -> None:
    extender.filter = lambda _: reply
    with pytest.raises(ExtenderFault, match=words) as fault:
        await filtered(extender)
    assert len(str(fault.value)) < 1100


async def test_redirects_and_compressed_answers_are_not_followed(extender: HttpExtender) -> None:
    with extending() as other:
        extender.headers = {"Location": f"{other.url}/filter"}
        extender.filter = lambda _: (307, b"")
        with pytest.raises(ExtenderFault, match="code 307"):
            await filtered(extender)
        assert not other.asked
    extender.headers, extender.filter = {"Content-Encoding": "gzip"}, lambda _: (200, b"\x1f\x8b")
    with pytest.raises(ExtenderFault, match="cannot be read"):
        await filtered(extender)


async def test_an_extender_that_does_not_answer_is_not_waited_for(extender: HttpExtender) -> None:
    extender.may_answer.clear()
    with pytest.raises(ExtenderFault, match="context deadline exceeded"):
        await filtered(extender, timeout_s=0.1)


async def test_points_are_summed_and_may_be_of_any_size_that_go_reads(
    extender: HttpExtender,
) -> None:
    rows = [("a", 3), ("a", 4), ("b", -(1 << 63)), ("z", 9)]
    extender.prioritize = lambda _: said([{"Host": node, "Score": n} for node, n in rows])
    assert await points(extender) == {"a": 7.0, "b": float(-(1 << 63)), "z": 9.0}
    for wrong in (1 << 63, "5", 1.5):
        extender.prioritize = lambda _, wrong=wrong: said([{"Host": "a", "Score": wrong}])  # type: ignore[misc]
        with pytest.raises(ExtenderFault, match="score of the answer cannot be read"):
            await points(extender)
    extender.prioritize = lambda _: said([{}] * 13)
    with pytest.raises(ExtenderFault, match="the answer lists 13 nodes"):
        await points(extender)


async def test_a_pod_that_replaced_another_one_is_not_asked_about() -> None:
    """It has the same name, and asks for something else."""
    body = json.dumps({"metadata": {"name": "p", "uid": "new"}}).encode()

    async def there(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/default/pods/p", there)
    async with TestServer(app) as server:
        client = Client(Access(str(server.make_url("/")), None, Static({})))
        objects = ExtenderObjects(client)
        assert await objects.pod(a_pod("p", uid="new")) == body
        with pytest.raises(ExtenderFault, match="another has its name now"):
            await objects.pod(a_pod("p", uid="old"))
        with pytest.raises(ExtenderFault, match="404"):
            await objects.pod(a_pod("q", uid="new"))
        await client.close()


def test_an_extender_that_fails_again_and_again_is_left_out_for_a_while() -> None:
    record = FailureRecord()
    record.failed("x")
    record.failed("x")
    record.succeeded("x")
    record.failed("x")
    assert not record.is_resting("x")
    record.failed("x")
    record.failed("x")
    assert record.is_resting("x")
    assert not record.is_resting("y")
    record.succeeded("x")
    assert not record.is_resting("x")


@pytest.mark.parametrize(
    ("url", "https", "verifies"),
    [
        ("https://extender", False, True),
        ("https://extender", True, False),
        ("http://extender", False, None),
    ],
)
async def test_the_certificate_of_an_extender_is_checked_by_what_the_system_trusts(
    url: str, https: bool, verifies: bool | None
) -> None:
    """aiohttp itself trusts no authority here; see `apps.quick_start`."""
    client = ExtenderClient(ExtenderPlan(ExtenderTerms(url), "filter", https=https))
    try:
        used = client._open().connector._ssl  # type: ignore[union-attr]
        assert used.verify_mode == ssl.CERT_REQUIRED if verifies else used is (verifies is None)
    finally:
        await client.close()
