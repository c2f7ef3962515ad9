"""The Secret of certificates and the webhook configurations, with answers of a server in memory."""

import base64
import datetime as dt
import json
from typing import Any

import pytest

from fairlead.kube.admission.cert_rotation import CertLocations, CertRotation, CertRotationError
from fairlead.kube.admission.certificates import Subject
from fairlead.kube.http.reply import Reply
from scripted import Request, Scripted, status

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SUBJECT = Subject(("webhook.ns.svc",), dt.timedelta(days=90))
PLACES = CertLocations("ns", "tls", "fairlead")
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CONFIGURATIONS = [f"/apis/admissionregistration.k8s.io/v1/{kind}/fairlead" for kind in KINDS]


class Server:
    """The Secret and one webhook of each kind, written only as they were read."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            path: {"webhooks": [{"name": "hook", "clientConfig": {}}]} for path in CONFIGURATIONS
        }
        self.objects[PLACES.path] = {}
        for found in self.objects.values():
            found["metadata"] = {"resourceVersion": "0"}
        self.transport = Scripted(self._answer)
        self.rotation = CertRotation(self.transport, PLACES, SUBJECT)

    @property
    def kept(self) -> str:
        """All authorities in the Secret."""
        return str(self.objects[PLACES.path]["data"]["ca.crt"])

    @property
    def published(self) -> list[str]:
        """What each configuration has API servers trust."""
        return [self._client_config(path).get("caBundle", "") for path in CONFIGURATIONS]

    def forget(self, path: str) -> None:
        """As a tool does that applies the configuration again, without its bundle."""
        self._client_config(path).clear()

    def _client_config(self, path: str) -> dict[str, str]:
        (hook,) = self.objects[path]["webhooks"]
        found: dict[str, str] = hook["clientConfig"]
        return found

    def _answer(self, request: Request) -> Reply:
        found = self.objects[request.path]
        if request.method != "GET":
            version = found["metadata"]["resourceVersion"]
            if request.body["metadata"]["resourceVersion"] != version:
                return status(409, "changed meanwhile")
            meta = {"metadata": {"resourceVersion": str(int(version) + 1)}}
            found = self.objects[request.path] = {**found, **request.body, **meta}
        return Reply(200, json.dumps(found).encode())


async def test_a_first_certificate_is_kept_and_its_authority_published() -> None:
    server = Server()
    shown = await server.rotation.turn(START)
    data = server.objects[PLACES.path]["data"]
    assert base64.b64decode(data["tls.crt"]) == shown.certificate
    assert base64.b64decode(data["tls.key"]) == shown.key
    assert server.published == [server.kept] * 2
    assert await server.rotation.turn(START) == shown, "which is what other replicas show"


async def test_a_bundle_that_was_not_there_puts_the_next_certificate_off() -> None:
    server = Server()
    first = await server.rotation.turn(START)
    assert await server.rotation.turn(START + dt.timedelta(days=60)) == first
    assert server.published == [server.kept] * 2, "with the authority of the next one"

    server.forget(CONFIGURATIONS[1])
    later = START + dt.timedelta(days=61)
    assert await server.rotation.turn(later) == first, (
        "the authority of the next one was not published"
    )
    assert server.published == [server.kept] * 2
    assert await server.rotation.turn(later) != first


async def test_a_secret_that_cannot_be_read_is_not_written() -> None:
    server = Server()
    server.transport.answer = lambda _: status(403, "secrets is forbidden")
    with pytest.raises(CertRotationError, match="cannot read: secrets is forbidden"):
        await server.rotation.turn(START)
    assert [request.method for request in server.transport.requests] == ["GET"]
