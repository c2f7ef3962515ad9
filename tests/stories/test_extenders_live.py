"""HTTP extenders over TLS, and for gangs, on the real API server."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import a_pod
from fairlead.apps.run.extender_client import ExtenderFault
from fairlead.apps.run.extender_objects import ExtenderObjects
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.controlplane.certificates import Authority
from fairleads import Pods, eventually, fairlead
from http_extender import Asked, HttpExtender, extending, names_of, pod_of, said

SCHEDULER = "asks-by-tls"


def a_gang(pods: Pods, name: str, count: int) -> list[str]:
    annotations = {"fairlead.dev/gang": name, "fairlead.dev/gang-min": str(count)}
    names = [f"{name}-{number}" for number in range(count)]
    for each in names:
        pods.create(each, scheduler=SCHEDULER, metadata={"annotations": annotations})
    return names


def configured(path: Path, extender: HttpExtender, **tls: str) -> str:
    entry = {
        "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize",
        "weight": 1, "nodeCacheCapable": True, "enableHTTPS": True, "tlsConfig": tls,
    }  # fmt: skip
    file = path / "extenders.yaml"
    file.write_text(
        yaml.safe_dump({"extenders": [entry], "profiles": [{"schedulerName": SCHEDULER}]})
    )
    return str(file)


def served(authority: Authority) -> ssl.SSLContext:
    """Only clients with a certificate of the authority are answered."""
    pair = authority.server("extender")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_an_extender_is_asked_by_tls_about_single_pods_and_about_gangs(
    control_plane: ControlPlane, pods: Pods, create_nodes: Callable[..., Any], tmp_path: Path
) -> None:
    create_nodes(["tls-a", "tls-b"])
    authority = Authority(tmp_path / "pki")
    pair = authority.client("scheduler")
    tls = {
        "caFile": str(authority.certificate),
        "certFile": str(pair.certificate),
        "keyFile": str(pair.key),
    }
    with extending(served(authority)) as extender:
        own = {"pair-0": "tls-b", "pair-1": "tls-a", "one": "tls-b"}
        extender.filter = lambda asked: _only(asked, own.get(pod_of(asked)["metadata"]["name"], ""))
        config = configured(tmp_path, extender, **tls)
        with fairlead(control_plane, "--config", config):
            pods.create("one", scheduler=SCHEDULER)
            assert pods.wait_bound("one") == {"one": "tls-b"}
            assert pods.wait_bound(*a_gang(pods, "pair", 2)) == {
                "pair-0": "tls-b", "pair-1": "tls-a",
            }  # fmt: skip
            refused = a_gang(pods, "none", 2)
            # At first it may be told that it waits for the other one.
            eventually(lambda: "2 no licence" in pods.condition(refused[0]).get("message", ""))
            assert not any(map(pods.node, refused))


def _only(asked: Asked, node: str) -> tuple[int, bytes]:
    left = [name for name in names_of(asked) if name == node]
    failed = {name: "no licence" for name in names_of(asked) if name != node}
    return said({"NodeNames": left, "FailedNodes": failed})


def test_an_extender_of_another_authority_is_not_trusted(
    control_plane: ControlPlane, pods: Pods, create_nodes: Callable[..., Any], tmp_path: Path
) -> None:
    create_nodes(["tls-c"])
    authority, other = Authority(tmp_path / "pki"), Authority(tmp_path / "other")
    with extending(served(authority)) as extender:
        config = configured(tmp_path, extender, caFile=str(other.certificate))
        with fairlead(control_plane, "--config", config):
            pods.create("unsafe", scheduler=SCHEDULER)
            condition = pods.wait_refused("unsafe")
            assert condition["reason"] == "SchedulerError"
            assert condition["message"].startswith(f'Post "{extender.url}/filter": ')
        assert not extender.asked, "nothing was sent over a connection that is not trusted"


def test_a_pod_that_was_replaced_is_not_sent_in_place_of_the_one_that_is_asked_about(
    control_plane: ControlPlane, pods: Pods
) -> None:
    uid = pods.create("replaced")["metadata"]["uid"]

    async def read(uid: str) -> bytes:
        access = load_access(control_plane.kubeconfig_for("system:kube-scheduler"), None)
        client = Client(access)
        try:
            asked = replace(a_pod("replaced", uid=uid), namespace=pods.namespace)
            return await ExtenderObjects(client).pod(asked)
        finally:
            await client.close()

    assert uid.encode() in asyncio.run(read(uid))
    with pytest.raises(ExtenderFault, match="another has its name"):
        asyncio.run(read("an-earlier-one"))
