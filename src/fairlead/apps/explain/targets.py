"""What `fairlead explain` is asked about: a pod, or what owns pods, in the words of kubectl."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace, named
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

_POD = "pods"
_GANG = "gangs"
_KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    _POD: ("/api/v1", ("pod", "po")),
    "deployments": ("/apis/apps/v1", ("deployment", "deploy")),
    "statefulsets": ("/apis/apps/v1", ("statefulset", "sts")),
    "replicasets": ("/apis/apps/v1", ("replicaset", "rs")),
    "daemonsets": ("/apis/apps/v1", ("daemonset", "ds")),
    "jobs": ("/apis/batch/v1", ("job",)),
    _GANG: ("", ("gang", "podgroup", "podgroups", "pg", "podgang")),
}
_PLURAL = {
    word: plural for plural, (_, words) in _KINDS.items() for word in (plural, *words)
}  # fmt: skip
FORMS = "use POD, NAMESPACE/POD, or KIND/NAME with a kind such as pod, deploy, sts, job or podgroup"


class NoSuchTarget(FairleadError):
    """There is no such pod; the text says what to write."""


@dataclass(frozen=True, slots=True)
class Target:
    """Without a namespace it is in that of the kubeconfig's context."""

    name: str
    namespace: str = ""
    kind: str = _POD

    @property
    def is_pod(self) -> bool:
        return self.kind == _POD


def parse(text: str, namespace: str = "") -> Target:
    """`POD`, `NAMESPACE/POD` or `KIND/NAME`; a word that is a kind is taken for one."""
    first, slash, name = text.rpartition("/")
    if not name or "/" in first or (slash and not first):
        raise NoSuchTarget(f"{text!r} is not the name of a pod; {FORMS}")
    kind = _PLURAL.get(first.lower())
    if kind:
        return Target(name, namespace, kind)
    if first and namespace and first != namespace:
        raise NoSuchTarget(f"{text!r} is in {first}, and -n is {namespace}; use only one of them")
    return Target(name, first or namespace)


async def pod_of(client: Client, target: Target, namespace: str) -> str:
    """The name of the pod to explain: of several, one that has no node yet."""
    if target.is_pod:
        return target.name
    if target.kind == _GANG:
        return await _member_of(client, target, namespace)
    owner = await _get(client, named(_folder(target.kind, namespace), target.name), target)
    selector = owner.get("spec", {}).get("selector") or {}
    params = {"labelSelector": _written(selector)}
    found = await _get(client, _folder(_POD, namespace), target, params)
    pods = sorted(found["items"], key=_is_placed)
    if not pods:
        raise NoSuchTarget(f"{namespace}/{target.name} has no pods; check its events")
    name: str = pods[0]["metadata"]["name"]
    return name


async def _member_of(client: Client, target: Target, namespace: str) -> str:
    """A member of the gang of that name, in whichever API: one without a node, if there is one."""
    found = await _get(client, _folder(_POD, namespace), target)
    gang = f"{namespace}/{target.name}"
    members = [each for each in found["items"] if _gang_of(each) == gang]
    if not members:
        raise NoSuchTarget(f"gang {gang} has no pods; check the name, and the events of its owner")
    name: str = min(members, key=_is_placed)["metadata"]["name"]
    return name


def _gang_of(pod: Mapping[str, Any]) -> str:
    membership = decode_pod(msgspec.json.encode(pod)).gang
    return membership.gang.partition("/")[2] if membership else ""


def _folder(kind: str, namespace: str) -> str:
    return in_namespace(_KINDS[kind][0], namespace, kind)


async def _get(
    client: Client, path: str, target: Target, params: Mapping[str, str] | None = None
) -> dict[str, Any]:
    reply = await client.request("GET", path, params=params)
    if reply.status == 404:
        raise NoSuchTarget(f"no {target.name} found among the {target.kind} of that namespace")
    if reply.status != 200:
        raise NoSuchTarget(f"the API server refused to return {target.name}: {reply.message}")
    found: dict[str, Any] = msgspec.json.decode(reply.body)
    return found


def _is_placed(pod: Mapping[str, Any]) -> tuple[bool, str]:
    return bool(pod.get("spec", {}).get("nodeName")), pod["metadata"]["name"]


def _written(selector: Mapping[str, Any]) -> str:
    """A label selector in the form of a query."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(each.get("values") or ())
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})",
                 "Exists": key, "DoesNotExist": f"!{key}"}  # fmt: skip
        parts.append(forms[each["operator"]])
    return ",".join(parts)
