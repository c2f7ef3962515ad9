"""The Secret that replicas share, on a real API server: who wins when two take the same step."""

import asyncio
import base64
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Iterator

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.admission.cert_rotation import CertLocations, CertRotation, CertRotationError
from fairlead.kube.admission.certificates import ServingCert, Subject
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ControlPlane
from webhooks import CONFIGURATIONS, NAMESPACE, configured, free_port

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SUBJECT = Subject(("webhook.ns.svc",), dt.timedelta(days=90))
PLACES = CertLocations(NAMESPACE, "fairlead-webhook-tls", "fairlead")


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with configured(control_plane, free_port()):
        yield control_plane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    client = Client(load_access(str(plane.kubeconfig_for()), None))
    yield client
    await client.close()


def trusted(plane: ControlPlane, pair: ServingCert) -> list[bool]:
    """For each configuration, whether API servers would trust this one."""
    found = []
    for path in CONFIGURATIONS:
        hooks = plane.api("GET", path)[1]["webhooks"]
        (bundle,) = {hook["clientConfig"].get("caBundle", "") for hook in hooks}
        found.append(_signed(base64.b64decode(bundle), pair))
    return found


def _signed(bundle: bytes, pair: ServingCert) -> bool:
    leaf = x509.load_pem_x509_certificate(pair.certificate)
    for authority in x509.load_pem_x509_certificates(bundle):
        with contextlib.suppress(ValueError, InvalidSignature):
            leaf.verify_directly_issued_by(authority)
            return True
    return False


async def test_replicas_that_start_together_agree(plane: ControlPlane, client: Client) -> None:
    keepers = [CertRotation(client, PLACES, SUBJECT) for _ in range(4)]

    shown = await asyncio.gather(*(rotation.turn(START) for rotation in keepers))

    assert len(set(shown)) == 1
    assert trusted(plane, shown[0]) == [True, True]


async def test_a_change_is_announced_before_it_is_shown(
    plane: ControlPlane, client: Client
) -> None:
    keepers = [CertRotation(client, PLACES, SUBJECT) for _ in range(2)]
    shown = set()
    for day in range(65):
        for rotation in keepers:
            now = START + dt.timedelta(days=day)
            behind = trusted(plane, next(iter(shown))) if len(shown) == 1 else [True, True]
            pair = await rotation.turn(now)
            shown.add(pair)
            assert behind == trusted(plane, pair) == [True, True]
    assert len(shown) == 2


async def test_a_bundle_that_was_not_there_in_time_puts_the_change_off(
    plane: ControlPlane, client: Client
) -> None:
    rotation = CertRotation(client, PLACES, SUBJECT)
    first = await rotation.turn(START)
    assert await rotation.turn(START + dt.timedelta(days=60)) == first
    hooks = [{"name": "inject.fairlead.dev", "clientConfig": {"caBundle": ""}}]
    strategic = "application/strategic-merge-patch+json"
    plane.api("PATCH", CONFIGURATIONS[0], {"webhooks": hooks}, content_type=strategic)

    later = START + dt.timedelta(days=61)
    assert await rotation.turn(later) == first, "nobody had been told of the next one"
    assert await rotation.turn(later) != first


async def test_without_the_secret_it_says_what_to_do(client: Client) -> None:
    rotation = CertRotation(client, CertLocations(NAMESPACE, "none", "fairlead"), SUBJECT)

    with pytest.raises(CertRotationError, match=r"apply deploy/fairlead\.yaml"):
        await rotation.turn(START)
