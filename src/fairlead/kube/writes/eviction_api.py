"""The body of a request to the Eviction API, which asks disruption budgets before it deletes."""

import msgspec

from fairlead.model.pods import Pod

_encode = msgspec.json.Encoder().encode


class _Uid(msgspec.Struct):
    uid: str


class _DeleteOptions(msgspec.Struct, rename="camel"):
    #: A namesake that came since is left alone.
    preconditions: _Uid
    dry_run: list[str]


class _Name(msgspec.Struct):
    name: str
    namespace: str


class _Eviction(msgspec.Struct, rename="camel"):
    metadata: _Name
    delete_options: _DeleteOptions
    kind: str = "Eviction"
    api_version: str = "policy/v1"


def eviction_body(pod: Pod, *, dry_run: bool) -> bytes:
    """With `dry_run` the server only answers whether the pod may be evicted."""
    options = _DeleteOptions(_Uid(pod.uid), ["All"] if dry_run else [])
    return _encode(_Eviction(_Name(pod.name, pod.namespace), options))
