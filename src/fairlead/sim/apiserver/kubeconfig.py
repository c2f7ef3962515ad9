"""The kubeconfig that lets kubectl, and everything else, talk to the embedded server."""

import base64

import yaml

_NAME = "fairlead-embedded"


def kubeconfig(url: str, token: str, authority: bytes) -> str:
    data = base64.b64encode(authority).decode()
    cluster = {"server": url, "certificate-authority-data": data}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)
