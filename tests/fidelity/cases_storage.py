"""Storage: volumes, claims, and what CSI drivers tell about themselves."""

# A table: a case reads best on few lines.
# ruff: noqa: E501

from fidelity.script import case, delete, get, hidden, merge, post, seen, watch

_PV = "/api/v1/persistentvolumes"
_STORAGE = "/apis/storage.k8s.io/v1"
_CAPACITIES = "storage.k8s.io/v1:csistoragecapacities"
_VERSION = {"rv": "metadata.resourceVersion", "uid": "metadata.uid"}
_VOLUME = {"metadata": {"name": "<ns>"}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "s",
                                                  "nfs": {"server": "127.0.0.1", "path": "/d"}}}  # fmt: skip
_CLAIM = {
    "metadata": {"name": "c"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "s",
    },
}
_NO_FINALIZERS = hidden(merge(f"{_PV}/<ns>", {"metadata": {"finalizers": None}}))
_GONE = hidden(delete(f"{_PV}/<ns>"))
_REFERENCE = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "namespace": "<ns>",
    "name": "c",
    "uid": "u",
}
_SENT = {"volume.kubernetes.io/selected-node": "n1"}

CASES = [
    case("a volume", post(_PV, _VOLUME), get(f"{_PV}/<ns>"), _NO_FINALIZERS, _GONE),
    case("a volume gets a phase", hidden(post(_PV, _VOLUME)), merge(f"{_PV}/<ns>/status", {"status": {"phase": "Available"}}, only=("status.phase",)),
         _NO_FINALIZERS, _GONE),
    case("a volume is promised", hidden(post(_PV, _VOLUME, save=_VERSION)),
         merge(f"{_PV}/<ns>", {"metadata": {"resourceVersion": "<rv>", "uid": "<uid>", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                               "spec": {"claimRef": _REFERENCE}}, only=("spec.claimRef", "metadata.annotations")), _NO_FINALIZERS, _GONE),
    case("a volume that changed is not promised", hidden(post(_PV, _VOLUME, save=_VERSION)),
         hidden(merge(f"{_PV}/<ns>", {"metadata": {"labels": {"a": "b"}}})),
         merge(f"{_PV}/<ns>", {"metadata": {"resourceVersion": "<rv>"}, "spec": {"claimRef": _REFERENCE}}), _NO_FINALIZERS, _GONE),
    case("another volume of the name is not promised", hidden(post(_PV, _VOLUME)),
         merge(f"{_PV}/<ns>", {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}, "spec": {"claimRef": _REFERENCE}}, only=("code", "reason")),
         _NO_FINALIZERS, _GONE),
    case("a claim is sent to a node", hidden(post("persistentvolumeclaims", _CLAIM, save=_VERSION)),
         merge("persistentvolumeclaims/c", {"metadata": {"resourceVersion": "<rv>", "uid": "<uid>", "annotations": _SENT}}, only=("metadata.annotations",))),
    case("a claim that changed is not sent", hidden(post("persistentvolumeclaims", _CLAIM, save=_VERSION)),
         hidden(merge("persistentvolumeclaims/c", {"metadata": {"labels": {"a": "b"}}})),
         merge("persistentvolumeclaims/c", {"metadata": {"resourceVersion": "<rv>", "annotations": _SENT}})),
    case("a claim is bound", hidden(post("persistentvolumeclaims", _CLAIM)),
         merge("persistentvolumeclaims/c", {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}},
               only=("spec.volumeName", "metadata.annotations")),
         merge("persistentvolumeclaims/c/status", {"status": {"phase": "Bound"}}, only=("status.phase",))),
    case("claims are watched", hidden(post("persistentvolumeclaims", _CLAIM, save=_VERSION)), watch("persistentvolumeclaims?resourceVersion=<rv>"),
         hidden(merge("persistentvolumeclaims/c", {"metadata": {"annotations": _SENT}})), seen(1)),
    case("a CSI node", post(f"{_STORAGE}/csinodes", {"metadata": {"name": "<ns>"}, "spec": {"drivers": [
        {"name": "csi.example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}}]}}), hidden(delete(f"{_STORAGE}/csinodes/<ns>"))),
    case("a CSI driver", post(f"{_STORAGE}/csidrivers", {"metadata": {"name": "<ns>.example.com"}, "spec": {"storageCapacity": True, "attachRequired": False}}),
         hidden(delete(f"{_STORAGE}/csidrivers/<ns>.example.com"))),
    case("a capacity", post(_CAPACITIES, {"metadata": {"name": "k"}, "storageClassName": "s", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"zone": "a"}}}),
         get(_CAPACITIES)),
    case("an attachment", post(f"{_STORAGE}/volumeattachments", {"metadata": {"name": "<ns>"}, "spec": {
        "attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}), hidden(delete(f"{_STORAGE}/volumeattachments/<ns>"))),
]  # fmt: skip
