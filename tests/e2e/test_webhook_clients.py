"""The webhook answers the API server and no other client: with a real one's client certificate."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from fairlead.sim.controlplane import ControlPlane
from fairlead.sim.controlplane.certificates import Authority, KeyPair
from fairleads import PATIENCE_S, eventually
from webhooks import Webhook, configured, free_port, injects, pod, webhook

Start = Callable[..., ControlPlane]
_GROUP = {"apiVersion": "apiserver.config.k8s.io/v1"}


def admission_config(folder: Path, pair: KeyPair) -> Path:
    """As docs/admission.md shows it: the certificate that this API server shows to webhooks."""
    shown = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    access = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": shown}]}
    (folder / "webhooks.kubeconfig").write_text(yaml.safe_dump(access))
    hook = {
        **_GROUP, "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(folder / "webhooks.kubeconfig"),
    }  # fmt: skip
    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    plugins = [{"name": name, "configuration": hook} for name in names]
    config = {**_GROUP, "kind": "AdmissionConfiguration", "plugins": plugins}
    (folder / "admission.yaml").write_text(yaml.safe_dump(config))
    return folder / "admission.yaml"


def asked(hook: Webhook, pair: KeyPair | None = None) -> int:
    """The status that a client gets; 0: no connection."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        tls.load_cert_chain(pair.certificate, pair.key)
    question: dict[str, Any] = {"uid": "u", "kind": {"kind": "Pod"}, "object": pod("p")}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": question}
    request = urllib.request.Request(
        f"https://127.0.0.1:{hook.port}/mutate",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=tls) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def test_the_api_server_is_known_by_its_certificate(
    new_control_plane: Start, tmp_path: Path
) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    ours = old.client("kube-apiserver")
    config = admission_config(tmp_path, ours)
    plane = new_control_plane(apiserver_flags=(f"--admission-control-config-file={config}",))
    trusted, port = tmp_path / "clients.crt", free_port()
    trusted.write_text(old.certificate.read_text())
    options = ("--client-ca", str(trusted), "--client-name", "kube-apiserver")

    with configured(plane, port), webhook(plane, port, *options) as hook:
        eventually(lambda: injects(plane, "default"), what="the API server is answered")
        assert asked(hook) == 403, "without a certificate"
        assert asked(hook, old.client("kubelet")) == 403, "of the authority, with another name"
        assert asked(hook, new.client("kube-apiserver")) == 0, "of another authority"

        trusted.write_text(new.certificate.read_text())
        eventually(lambda: asked(hook, new.client("kube-apiserver")) == 200, what="the new one")
        assert asked(hook, ours) == 0, "the old authority is trusted no longer"
        status, answer = plane.api("POST", "/api/v1/namespaces/default/pods", pod("late"))
        assert (status, "failed calling webhook" in answer["message"]) == (500, True)


def test_other_addresses_are_refused(control_plane: ControlPlane, namespace: str) -> None:
    port = free_port()
    with configured(control_plane, port, namespace):
        with webhook(control_plane, port, "--allow-from", "127.0.0.0/8"):
            eventually(lambda: injects(control_plane, namespace), what="it is answered")
        with webhook(control_plane, port, "--allow-from", "10.0.0.10") as hook:
            assert asked(hook) == 403
            assert hook.get("/readyz") == (200, "ok")
            path = f"/api/v1/namespaces/{namespace}/pods"
            _, answer = control_plane.api("POST", path, pod("p"))
            assert "requests from this address are not accepted" in answer["message"]
