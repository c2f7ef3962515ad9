"""The webhook's server, over TLS: what it answers, and whom it turns away."""

import asyncio
import datetime as dt
import gc
import gzip
import io
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from fairlead.apps import webhook as webhooks
from fairlead.apps.config.run_plan import RunOptions
from fairlead.apps.serving.callers import Callers, Gate
from fairlead.apps.serving.http_limits import HttpLimits
from fairlead.apps.serving.listening import listening
from fairlead.apps.webhook.server import make_webhook_app
from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.admission.cert_rotation import CertRotationError
from fairlead.kube.admission.certificates import ServingCert, Subject, make
from fairlead.kube.admission.tls import ServingContext
from fairlead.model.errors import ConfigError
from fairlead.model.pods import Pod
from fairlead.telemetry.admission import AdmissionMetrics

SUBJECT = Subject(("127.0.0.1",), dt.timedelta(hours=1))
POD = {"spec": {"schedulerName": "gpu-scheduler", "containers": [{"name": "c"}]}, "metadata": {}}
REVIEW = json.dumps({
    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    "request": {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": POD},
}).encode()  # fmt: skip
HEADERS = {"Content-Type": "application/json"}


@dataclass
class Serving:
    port: int
    tls: ssl.SSLContext
    session: aiohttp.ClientSession

    async def post(
        self, path: str, body: object, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.port}{path}"
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.post(url, data=data, headers=headers or HEADERS) as reply:
            return reply.status, await reply.text()

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"https://127.0.0.1:{self.port}{path}") as reply:
            return reply.status, await reply.text()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)


@asynccontextmanager
async def serving(
    limits: HttpLimits | None = None,
    why: str = "",
    handler: AdmissionHandler | None = None,
    callers: Callers | None = None,
    shown: ServingContext | None = None,
) -> AsyncIterator[Serving]:
    # The garbage of a whole run of tests is collected in this process, too.
    limits, shown = limits or HttpLimits(cpu_s=10, farewell_s=0), shown or ServingContext()
    pair, authority = make(SUBJECT, dt.datetime.now(dt.UTC))
    shown.show(pair)
    gate = Gate(callers or Callers(), shown)
    gate.trust()
    tls = ssl.create_default_context(cadata=authority.decode())
    handler = handler or AdmissionHandler(frozenset({"gpu-scheduler"}))
    app = make_webhook_app(handler, AdmissionMetrics(), lambda: why, limits, gate)
    connector = aiohttp.TCPConnector(ssl=tls)
    async with (
        listening(app, shown.context, "127.0.0.1", 0, limits) as port,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield Serving(port, tls, session)


async def test_it_answers_both_questions() -> None:
    async with serving() as server:
        status, mutated = await server.post("/mutate", REVIEW)
        assert (status, json.loads(mutated)["response"]["patchType"]) == (200, "JSONPatch")
        status, validated = await server.post("/validate", REVIEW)
        assert (status, json.loads(validated)["response"]) == (200, {"uid": "u", "allowed": True})

        _, counted = await server.get("/metrics")
        assert 'fairlead_webhook_answers_total{outcome="injected",route="mutate"} 1.0' in counted
        assert 'fairlead_webhook_answers_total{outcome="allowed",route="validate"} 1.0' in counted


async def test_it_is_ready_until_it_says_why_not() -> None:
    async with serving() as server:
        assert await server.get("/healthz") == (200, "ok")
        assert await server.get("/readyz") == (200, "ok")
    async with serving(why="the certificate expired") as server:
        assert await server.get("/healthz") == (200, "ok")
        assert await server.get("/readyz") == (503, "the certificate expired")


@pytest.mark.parametrize(
    ("body", "headers", "status", "sentence"),
    [
        (b"{}", {}, 400, "send an AdmissionReview of admission.k8s.io/v1"),
        (b"\x00", {}, 400, "not an AdmissionReview"),
        (REVIEW.replace(b"/v1", b"/v1beta1"), {}, 400, "admissionReviewVersions: [v1]"),
        (REVIEW, {"Content-Type": "text/plain"}, 415, "send application/json"),
        (gzip.compress(REVIEW), {"Content-Encoding": "gzip"}, 415, "without a Content-Encoding"),
        (b" " * (7 * 2**20 + 1), {}, 413, "longer than 7 MiB"),
    ],
    ids=["empty", "no JSON", "v1beta1", "content type", "packed", "too long"],
)
async def test_what_cannot_be_answered_is_told_why(
    body: bytes, headers: dict[str, str], status: int, sentence: str
) -> None:
    async with serving() as server:
        got, text = await server.post("/mutate", body, HEADERS | headers)

        assert got == status
        assert sentence in text
        assert (await server.post("/mutate", REVIEW))[0] == 200


async def test_the_largest_review_is_answered() -> None:
    padding = b" " * (7 * 2**20 - len(REVIEW))
    async with serving() as server:
        assert (await server.post("/mutate", REVIEW + padding))[0] == 200


async def test_a_body_in_pieces_is_no_way_around_the_limit() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * 2**20

    async with serving() as server:
        assert (await server.post("/mutate", pieces()))[0] == 413


async def test_only_what_is_offered_is_there() -> None:
    async with serving() as server:
        assert (await server.get("/mutate"))[0] == 405
        assert (await server.get("/"))[0] == 404
        assert (await server.post("/convert", REVIEW))[0] == 404


async def test_a_body_that_never_ends_is_given_up() -> None:
    async with serving(HttpLimits(answer_s=0.2, farewell_s=0)) as server:
        reader, writer = await _half_a_request(server)

        assert b"503" in await reader.readline()
        rest = await reader.read()  # to the end: the connection is closed
        assert b"not read and answered within 0.2 s" in rest
        writer.close()


async def test_a_head_that_never_ends_is_hung_up_on() -> None:
    async with serving(
        HttpLimits(head_s=3.0, farewell_s=0)
    ) as server:  # it counts from the handshake on
        reader, writer = await server.connect()
        writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nX-Slow: ")

        assert await reader.read() == b""
        writer.close()


async def test_whoever_connects_and_shakes_no_hand_is_hung_up_on() -> None:
    async with serving(HttpLimits(head_s=0.2, farewell_s=0)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)

        assert await reader.read() == b""
        writer.close()


async def test_a_connection_that_is_used_stays_open() -> None:
    async with serving(HttpLimits(head_s=4.0, farewell_s=0)) as server:
        reader, writer = await server.connect()
        for pause_s in (0.0, 4.5, 0.0):
            await asyncio.sleep(pause_s)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b"ok")
        writer.close()


async def test_a_crowd_is_turned_away_and_the_probes_are_not() -> None:
    async with serving(HttpLimits(in_hand=1, waiting=1, answer_s=60, cpu_s=10)) as server:
        slow = [await _half_a_request(server) for _ in range(2)]
        while (await server.post("/mutate", REVIEW))[0] != 429:
            await asyncio.sleep(0.01)

        assert await server.get("/readyz") == (200, "ok")
        for _, writer in slow:
            writer.close()
        while (await server.post("/mutate", REVIEW))[0] != 200:
            await asyncio.sleep(0.01)


async def _half_a_request(
    server: Serving,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await server.connect()
    head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 1000\r\n\r\n".encode() + b'{"half":')
    await writer.drain()
    return reader, writer


async def test_a_mistake_of_ours_concerns_one_pod_only() -> None:
    def stumble(pod: Pod) -> str | None:
        if pod.name == "odd":
            raise ZeroDivisionError
        return None

    odd = REVIEW.replace(b'"metadata": {}', b'"metadata": {"name": "odd"}')
    async with serving(handler=AdmissionHandler(frozenset({"gpu-scheduler"}), stumble)) as server:
        status, text = await server.post("/mutate", odd)
        assert (status, text) == (500, "Fairlead failed to process this pod; see its log\n")
        assert (await server.post("/mutate", REVIEW))[0] == 200


@pytest.fixture
def without_collection() -> Iterator[None]:
    """That of the garbage of a whole run of tests may take half a second."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collection")
async def test_a_review_that_takes_too_much_time_is_ended() -> None:
    def endless(pod: Pod) -> str | None:
        while pod.name == "odd":
            with suppress(Exception):
                json.loads(REVIEW)
        return None

    odd = REVIEW.replace(b'"metadata": {}', b'"metadata": {"name": "odd"}')
    handler = AdmissionHandler(frozenset({"gpu-scheduler"}), endless)
    async with serving(HttpLimits(cpu_s=0.2), handler=handler) as server:
        for _ in range(3):
            status, text = await server.post("/mutate", odd)
            assert (status, text) == (
                503, "the review took more than 0.2 s of CPU time and was stopped\n"
            )  # fmt: skip
            assert (await server.post("/mutate", REVIEW))[0] == 200
        counted = (await server.get("/metrics"))[1]
    assert 'fairlead_webhook_answers_total{outcome="slow",route="mutate"} 3.0' in counted


async def test_a_pod_of_empty_containers_is_refused_in_few_words() -> None:
    """4.9 MiB took 30 s and 1.8 GiB, and were answered with 418 MiB."""
    many = b"[" + b",".join([b"{}"] * 1_600_000) + b"]"
    body = REVIEW.replace(b'[{"name": "c"}]', many)
    assert len(body) > 4.5 * 2**20
    async with serving() as server:
        for route in ("/mutate", "/validate"):
            status, text = await server.post(route, body)
            assert (status, len(text) < 1000) == (200, True)
            response = json.loads(text)["response"]
            assert response["allowed"] is False
            assert "the pod is longer than 4 MiB" in response["status"]["message"]


async def test_the_longest_silent_connection_makes_room() -> None:
    async with serving(HttpLimits(connections=3, cpu_s=10)) as server:
        silent = [await server.connect() for _ in range(3)]

        assert (await server.post("/mutate", REVIEW))[0] == 200
        with suppress(ConnectionResetError):
            assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()


async def test_a_thousand_at_once_are_all_answered() -> None:
    async with serving(HttpLimits(answer_s=60, waiting=1000, cpu_s=10)) as server:
        replies = await asyncio.gather(*(server.post("/mutate", REVIEW) for _ in range(1000)))

    assert {status for status, _ in replies} == {200}


# -- looking after certificates --------------------------------------------------------------------


async def test_an_expired_certificate_makes_it_unready_and_troubles_do_not() -> None:
    now = dt.datetime.now(dt.UTC)
    good, _ = make(SUBJECT, now)
    old, _ = make(SUBJECT, now - dt.timedelta(hours=2))
    given: list[ServingCert | Exception] = [good, CertRotationError("the API server is away"), old]

    async def current() -> ServingCert:
        found = given.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    metrics = AdmissionMetrics()
    updater = webhooks.CertUpdater(Gate(shown=ServingContext()), metrics, current, 0.01)
    assert updater.unready_because() == "there is no certificate yet"

    assert await updater.once()
    assert updater.unready_because() == ""
    assert not await updater.once()
    assert updater.unready_because() == "", "the last one is still good"
    assert await updater.once()
    assert "the certificate expired at" in updater.unready_because()
    ends = metrics.registry.get_sample_value(
        "fairlead_webhook_certificate_expiry_timestamp_seconds"
    )
    assert ends == old.ends.timestamp()


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("life", ["90 days", "-1h", "1s", ""])
def test_a_life_that_is_none_is_told_so(life: str) -> None:
    with pytest.raises(ConfigError, match="write hours, minutes or seconds such as 2160h"):
        webhooks.run(webhooks.WebhookOptions(RunOptions(), cert_lifetime=life))


def test_a_folder_without_certificates_is_told_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--cert-dir must hold tls\.crt and tls\.key"):
        webhooks.run(webhooks.WebhookOptions(RunOptions(), cert_dir=tmp_path))
