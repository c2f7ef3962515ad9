"""Who may ask: client certificates and ServiceAccount tokens, and the kubeconfigs that carry them.

An identity is a user name as Kubernetes writes it. `system:serviceaccount:NAMESPACE:NAME` is a
ServiceAccount and gets a token from the API server; every other name gets a client certificate.
"""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from fairlead.base.private_files import write_private
from fairlead.sim.controlplane.certificates import Authority, KeyPair
from fairlead.sim.controlplane.client import SyncClient
from fairlead.sim.controlplane.process import ControlPlaneError
from fairlead.sim.controlplane.served import until

ADMIN = "admin"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_TOKEN_LIFETIME_S = 24 * 3600

#: A certificate, or a bearer token.
Credentials: TypeAlias = KeyPair | str


def service_account(namespace: str, name: str) -> str:
    """The identity of that ServiceAccount."""
    return f"{_SERVICE_ACCOUNT}{namespace}:{name}"


def credentials(
    identity: str, groups: Sequence[str], authority: Authority, admin: SyncClient
) -> Credentials:
    """What proves this identity; makes the ServiceAccount if there is none."""
    if identity.startswith(_SERVICE_ACCOUNT):
        namespace, _, name = identity.removeprefix(_SERVICE_ACCOUNT).partition(":")
        return _token(admin, namespace, name)
    if identity == ADMIN:
        groups = ("system:masters", *groups)
    return authority.client(identity, groups)


def write_kubeconfig(path: Path, server: str, authority: Path, proof: Credentials) -> Path:
    """A kubeconfig that needs no other file; replaces an older one in one step."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    text = yaml.safe_dump(_kubeconfig(server, authority, proof), sort_keys=False)
    write_private(fresh, text.encode())
    return fresh.replace(path)


def _token(admin: SyncClient, namespace: str, name: str) -> str:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    status, answer = admin.api("POST", accounts, {"metadata": {"name": name}})
    if status not in (201, 409):
        raise ControlPlaneError(f"No ServiceAccount {namespace}/{name}: {answer.get('message')}")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_LIFETIME_S},
    }
    status, answer = admin.api("POST", f"{accounts}/{name}/token", request)
    if status != 201:
        raise ControlPlaneError(f"No token for {namespace}/{name}: {answer.get('message')}")
    token = str(answer["status"]["token"])
    until(lambda: _accepted(admin, token), f"the token of {namespace}/{name} is accepted")
    return token


def _accepted(admin: SyncClient, token: str) -> bool:
    """Not yet, while the API server remembers an earlier ServiceAccount of that name."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, answer = admin.api("POST", path, {**review, "spec": {"token": token}})
    return bool(answer["status"].get("authenticated"))


def _kubeconfig(server: str, authority: Path, proof: Credentials) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": _inline(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fairlead", "cluster": cluster}],
        "users": [{"name": "fairlead", "user": _user(proof)}],
        "contexts": [{"name": "fairlead", "context": {"cluster": "fairlead", "user": "fairlead"}}],
        "current-context": "fairlead",
    }


def _user(proof: Credentials) -> dict[str, str]:
    if isinstance(proof, str):
        return {"token": proof}
    return {
        "client-certificate-data": _inline(proof.certificate),
        "client-key-data": _inline(proof.key),
    }


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
