"""Certificates and replicas come and go without one failed request, on a real API server."""

import base64
import datetime as dt
import itertools
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509

from fairlead.kube.admission.certificates import Subject, make
from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually
from test_webhook import TRIED, asks
from webhooks import (
    CONFIGURATIONS,
    SECRET,
    Balancer,
    Webhook,
    configured,
    environment,
    free_port,
    pod,
    webhook,
)

#: Its third, in which the next one has to be made and shown, is long enough for a busy machine.
LIFE = "18s"


def bundle(plane: ControlPlane, path: str = CONFIGURATIONS[0]) -> bytes:
    _, found = plane.api("GET", path)
    return base64.b64decode(found["webhooks"][0]["clientConfig"].get("caBundle", ""))


def authorities(pem: bytes) -> set[int]:
    return {one.serial_number for one in x509.load_pem_x509_certificates(pem)}


def shown(port: int) -> int:
    pem = ssl.get_server_certificate(("127.0.0.1", port))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


@contextmanager
def creating(plane: ControlPlane) -> Iterator[list[Any]]:
    """Pods are created all the time; gives the answers that were not as they should be."""
    failed: list[Any] = []
    done = threading.Event()

    def create() -> None:
        with plane.connect() as client:
            while not done.wait(0.1):
                status, answer = client.api("POST", TRIED, pod("steady"))
                if status != 201 or environment(answer) == [[]]:
                    failed.append(answer)

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield failed
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_they_rotate_without_one_failed_request(control_plane: ControlPlane) -> None:
    ports = free_port(), free_port()
    seen: tuple[set[int], ...] = (set(), set())
    bundles: list[frozenset[int]] = []

    def rotated() -> bool:
        for port, serials in zip(ports, seen, strict=True):
            serials.add(shown(port))
        trusted = frozenset(authorities(bundle(control_plane)))
        bundles.extend([trusted] if trusted not in bundles else [])
        return len(seen[0]) >= 4 and len(seen[1]) >= 4

    life = ("--cert-lifetime", LIFE)
    with (
        configured(control_plane, ports[0]),
        webhook(control_plane, ports[0], *life) as first,
        webhook(control_plane, ports[1], *life) as second,
    ):
        asks(control_plane)
        with creating(control_plane) as failed:
            eventually(rotated, what="both replicas showed four certificates", pause_s=0.5)
        assert not failed
        # Two replicas, one truth; and who is trusted overlaps from one to the next.
        assert seen[0] & seen[1]
        assert all(before & after for before, after in itertools.pairwise(bundles))
        assert bundle(control_plane, CONFIGURATIONS[1]) == bundle(control_plane)
        for running in (first, second):
            assert not [one for one in running.records if one["level"] != "info"]
            assert running.get("/readyz") == (200, "ok")


def test_replicas_come_and_go_without_one_failed_request(control_plane: ControlPlane) -> None:
    first, second = free_port(), free_port()
    with (
        Balancer(first) as service,
        configured(control_plane, service.port),
        ExitStack() as leaving,
    ):
        leaving.enter_context(webhook(control_plane, first))
        asks(control_plane)
        with webhook(control_plane, second) as staying, creating(control_plane) as failed:
            # As a Service does when a pod is told to end. Connections that are there stay.
            service.ports[:] = [second]
            leaving.close()
            eventually(lambda: injected(staying) > 20, what="the second is asked")
        assert {answer.get("message") for answer in failed} == set()


def injected(running: Webhook) -> float:
    found = re.search(r'answers_total{outcome="injected",route="mutate"} (\S+)',
                      running.get("/metrics")[1])  # fmt: skip
    return float(found[1]) if found else 0.0


def test_a_spoilt_secret_and_a_spoilt_bundle_are_mended(control_plane: ControlPlane) -> None:
    port = free_port()
    with configured(control_plane, port), webhook(control_plane, port, "--cert-lifetime", "20s"):
        asks(control_plane)
        junk = base64.b64encode(b"junk").decode()
        spoilt = {"data": {"tls.crt": junk, "next.key": junk, "ca.crt": junk}}
        merge = "application/merge-patch+json"
        assert control_plane.api("PATCH", SECRET, spoilt, content_type=merge)[0] == 200
        eventually(lambda: b"junk" not in _kept(control_plane), what="the Secret is mended")
        asks(control_plane)

        hooks = [{"name": "inject.fairlead.dev", "clientConfig": {"caBundle": ""}}]
        strategic = "application/strategic-merge-patch+json"
        status, answer = control_plane.api(
            "PATCH", CONFIGURATIONS[0], {"webhooks": hooks}, content_type=strategic
        )
        assert status == 200, answer
        asks(control_plane)


def _kept(plane: ControlPlane) -> bytes:
    data = plane.api("GET", SECRET)[1]["data"]
    return b"".join(base64.b64decode(value) for value in data.values())


def test_after_a_restart_the_same_certificate_is_shown(control_plane: ControlPlane) -> None:
    port = free_port()
    with configured(control_plane, port):
        with webhook(control_plane, port):
            before = shown(port)
        with webhook(control_plane, port):
            assert shown(port) == before


def test_files_of_others_are_taken_up_when_they_change(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    port = free_port()
    subject = Subject(("127.0.0.1",), dt.timedelta(hours=1))

    def renew() -> bytes:
        pair, authority = make(subject, dt.datetime.now(dt.UTC))
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)
        return authority

    renew()
    with (
        configured(control_plane, port),
        webhook(control_plane, port, "--cert-dir", str(tmp_path)) as running,
    ):
        before = shown(port)
        (tmp_path / "tls.key").write_bytes(b"half")
        eventually(lambda: any(one["level"] == "warning" for one in running.records))
        assert shown(port) == before, "a torn file changes nothing"

        authority = renew()
        eventually(lambda: shown(port) != before, what="the new files are shown")
        context = ssl.create_default_context(cadata=authority.decode())
        with socket.create_connection(("127.0.0.1", port)) as plain:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()
