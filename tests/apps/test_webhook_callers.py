"""Whom the webhook answers: by certificate, name and address."""

import ssl
from pathlib import Path

import aiohttp
import pytest
from test_webhook_server import HEADERS, REVIEW, Serving, serving

from fairlead.apps.serving.callers import Callers, Gate, names_in
from fairlead.kube.admission.tls import ServingContext
from fairlead.model.errors import ConfigError
from fairlead.sim.controlplane.certificates import Authority, KeyPair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def showing(server: Serving, pair: KeyPair | None) -> aiohttp.ClientSession:
    """A client of its own, with one connection."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        tls.load_cert_chain(pair.certificate, pair.key)
    return aiohttp.ClientSession(
        f"https://127.0.0.1:{server.port}", connector=aiohttp.TCPConnector(ssl=tls, limit=1)
    )


async def asks(session: aiohttp.ClientSession) -> tuple[int, str]:
    async with session.post("/mutate", data=REVIEW, headers=HEADERS) as reply:
        return reply.status, await reply.text()


async def asked(server: Serving, pair: KeyPair | None) -> tuple[int, str]:
    async with showing(server, pair) as session:
        return await asks(session)


async def test_only_certificates_of_the_authority_are_answered(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other").client("kube-apiserver")
    async with serving(callers=Callers.of(authority.certificate)) as server:
        assert (await asked(server, authority.client("kube-apiserver")))[0] == 200
        status, text = await asked(server, None)
        assert (status, "a client certificate" in text) == (403, True)
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await asked(server, other)
        assert await server.get("/readyz") == (200, "ok"), "probes have no certificate"
        _, counted = await server.get("/metrics")
    assert 'fairlead_webhook_answers_total{outcome="denied",route="mutate"} 1.0' in counted


async def test_only_these_names_are_answered(authority: Authority) -> None:
    names = ["kube-apiserver", "webhooks.example.com"]
    async with serving(callers=Callers.of(authority.certificate, names)) as server:
        assert (await asked(server, authority.client("kube-apiserver")))[0] == 200
        status, text = await asked(server, authority.client("kubelet"))
        assert (status, "none of the accepted names" in text) == (403, True)


def test_alternative_names_count() -> None:
    found = {"subject": ((("commonName", "a"),), (("organizationName", "o"),)),
             "subjectAltName": (("DNS", "b"), ("URI", "spiffe://c"))}  # fmt: skip
    assert names_in(found) == {"a", "b", "spiffe://c"}


async def test_authorities_are_taken_up_and_dropped_while_it_runs(
    authority: Authority, tmp_path: Path
) -> None:
    file, shown, new = tmp_path / "ca.crt", ServingContext(), Authority(tmp_path / "new")
    both = authority.certificate.read_text() + new.certificate.read_text()
    file.write_text(authority.certificate.read_text())
    gate = Gate(Callers.of(file), shown)
    async with serving(callers=gate.callers, shown=shown) as server:
        old, fresh = authority.client("a"), new.client("a")
        async with showing(server, old) as first, showing(server, old) as second:
            assert (await asks(first))[0] == (await asks(second))[0] == 200
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await asked(server, fresh)

            file.write_text(both)
            assert gate.trust()
            assert not gate.trust()
            assert (await asked(server, fresh))[0] == 200
            assert (await asks(first))[0] == 200, "the old one is trusted as well"

            file.write_text("torn")
            with pytest.raises(ConfigError, match="give a PEM file of CAs"):
                gate.trust()
            assert (await asked(server, old))[0] == 200, "the last good ones stay"

            file.write_text(new.certificate.read_text())
            gate.trust()
            assert (await asks(second))[0] == 403, "its connection is open, and trusted no more"
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await asks(first)
            assert (await asked(server, fresh))[0] == 200


async def test_a_connection_from_before_a_change_is_closed_after_its_answer(
    authority: Authority, tmp_path: Path
) -> None:
    file, shown = tmp_path / "ca.crt", ServingContext()
    file.write_text(authority.certificate.read_text())
    gate = Gate(Callers.of(file), shown)
    async with (
        serving(callers=gate.callers, shown=shown) as server,
        showing(server, authority.client("a")) as client,
    ):
        await asks(client)
        file.write_text(file.read_text() + Authority(tmp_path / "n").certificate.read_text())
        gate.trust()
        async with client.post("/mutate", data=REVIEW, headers=HEADERS) as reply:
            assert (reply.status, reply.headers["Connection"]) == (200, "close")


@pytest.mark.parametrize(
    ("networks", "status"),
    [(["10.0.0.0/8", "127.0.0.1"], 200), (["10.0.0.0/8"], 403), (["::/0"], 403), ([], 200)],
)
async def test_only_these_addresses_are_answered(networks: list[str], status: int) -> None:
    async with serving(callers=Callers.of(None, (), networks)) as server:
        assert (await asked(server, None))[0] == status
        assert await server.get("/readyz") == (200, "ok"), "probes come from the node"


def test_an_address_of_the_other_family_is_the_same_address() -> None:
    callers = Callers.of(None, (), ["10.0.0.0/8", "fd00::/8"])
    assert callers.holds("::ffff:10.1.2.3")
    assert callers.holds("fd00::1%eth0")
    assert not callers.holds("11.0.0.1")
    assert not callers.holds("")


def test_what_cannot_work_is_said() -> None:
    with pytest.raises(ConfigError, match="--client-name needs --client-ca"):
        Callers.of(None, ["kube-apiserver"])
    with pytest.raises(ConfigError, match="'api-server' is not a valid address"):
        Callers.of(None, (), ["api-server"])
