"""Kubeconfig files: found, read, merged, and one context chosen. Nothing here logs in."""

import base64
import binascii
import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import yaml

from fairlead.kube.access.tls import Pem
from fairlead.kube.errors import KubeconfigError
from fairlead.model.lazy_dataclass import dataclass

#: Safe in both forms; the one in C is ten times as fast, and not built everywhere.
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Kebab(msgspec.Struct, rename="kebab", frozen=True):
    """Keys as kubeconfig writes them. Unknown ones are ignored, as kubectl does."""


class KubeconfigCluster(_Kebab, frozen=True):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    proxy_url: str | None = None
    extensions: Any = None


class EnvVar(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class Exec(msgspec.Struct, rename="camel", frozen=True):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool = False


class KubeconfigUser(_Kebab, frozen=True):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    exec: Exec | None = None
    auth_provider: Any = None
    as_: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: Any = None


class KubeconfigContext(_Kebab, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(_Kebab, frozen=True):
    name: str
    cluster: KubeconfigCluster


class _NamedUser(_Kebab, frozen=True):
    name: str
    user: KubeconfigUser | None = None


class _NamedContext(_Kebab, frozen=True):
    name: str
    context: KubeconfigContext


class _File(_Kebab, frozen=True):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


@dataclass(slots=True)
class Kubeconfig:
    """Several files as one; each cluster and user with the folder its relative paths start at."""

    read_from: list[Path] = field(default_factory=list)
    clusters: dict[str, tuple[KubeconfigCluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[KubeconfigUser, Path]] = field(default_factory=dict)
    contexts: dict[str, KubeconfigContext] = field(default_factory=dict)
    current_context: str = ""

    def __str__(self) -> str:
        return os.pathsep.join(map(str, self.read_from))


@dataclass(frozen=True, slots=True)
class Login:
    """One context, resolved."""

    cluster_name: str
    cluster: KubeconfigCluster
    cluster_folder: Path
    user_name: str
    user: KubeconfigUser
    user_folder: Path
    namespace: str


def load(explicit: str | None, env: Mapping[str, str]) -> Kubeconfig | None:
    """The merged kubeconfig, or None where there is none and so a pod's ServiceAccount counts."""
    config = Kubeconfig()
    for path in _paths(explicit, env):
        _merge(config, path, _read(path))
    if not config.clusters and not config.contexts and explicit is None:
        return None
    return config


def _paths(explicit: str | None, env: Mapping[str, str]) -> Iterable[Path]:
    if explicit is not None:
        return [Path(explicit)]  # must be there: someone asked for it
    if env.get("KUBECONFIG"):
        listed = [Path(part) for part in env["KUBECONFIG"].split(os.pathsep) if part]
    else:
        listed = [Path(env.get("HOME", "/")) / ".kube" / "config"]
    return [path for path in listed if path.exists()]


def _read(path: Path) -> _File:
    try:
        document = yaml.load(path.read_bytes(), Loader=_SafeLoader)  # noqa: S506
        return msgspec.convert(document if document is not None else {}, _File)
    except OSError as error:
        raise KubeconfigError(
            f"cannot read the kubeconfig {path}: {error.strerror}; correct the path or its "
            "permissions"
        ) from error
    except yaml.YAMLError as error:
        raise KubeconfigError(
            f"the kubeconfig {path} is not valid YAML{_where(error)}; correct it there"
        ) from error
    except (msgspec.ValidationError, RecursionError) as error:
        raise KubeconfigError(
            f"the kubeconfig {path} is not what kubectl writes: {error}; correct that value"
        ) from error


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f" ({' '.join(str(error).split())})"
    return f" at line {mark.line + 1}, column {mark.column + 1} ({getattr(error, 'problem', '')})"


def _merge(config: Kubeconfig, path: Path, file: _File) -> None:
    """Add what earlier files do not have: as with kubectl, the first to name a thing wins."""
    folder = path.absolute().parent
    config.read_from.append(path)
    for cluster in _unique(file.clusters, "cluster", path):
        config.clusters.setdefault(cluster.name, (cluster.cluster, folder))
    for user in _unique(file.users, "user", path):
        config.users.setdefault(user.name, (user.user or KubeconfigUser(), folder))
    for context in _unique(file.contexts, "context", path):
        config.contexts.setdefault(context.name, context.context)
    config.current_context = config.current_context or file.current_context or ""


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_Named = TypeVar("_Named", bound=_HasName)


def _unique(entries: list[_Named] | None, what: str, path: Path) -> list[_Named]:
    seen = set[str]()
    for entry in entries or ():
        if entry.name in seen:
            raise KubeconfigError(
                f"the kubeconfig {path} has two entries for {what} {entry.name!r}; remove one"
            )
        seen.add(entry.name)
    return entries or []


def login(config: Kubeconfig, name: str | None) -> Login:
    """The context named, or the current one, with its cluster and user looked up."""
    chosen = name or config.current_context
    if not chosen:
        raise KubeconfigError(
            f"{config} sets no current-context; choose one with --context: "
            f"{_listed(config.contexts)}"
        )
    context = _lookup(config, "context", chosen, config.contexts)
    cluster, cluster_folder = _lookup(config, "cluster", context.cluster, config.clusters)
    user, user_folder = KubeconfigUser(), Path()
    if context.user:
        user, user_folder = _lookup(config, "user", context.user, config.users)
    return Login(
        cluster_name=context.cluster,
        cluster=cluster,
        cluster_folder=cluster_folder,
        user_name=context.user,
        user=user,
        user_folder=user_folder,
        namespace=context.namespace or "default",
    )


_Value = TypeVar("_Value")


def _lookup(config: Kubeconfig, what: str, name: str, known: Mapping[str, _Value]) -> _Value:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    meant = f", did you mean {near[0]!r}?" if near else ""
    raise KubeconfigError(f"{config} has no {what} {name!r}; it has: {_listed(known)}{meant}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"


def pem(data: str | None, file: str | None, folder: Path, what: str) -> Pem | None:
    """Inline data if there is any, which wins over a file as in kubectl; else the file."""
    if data:
        try:
            return Pem(base64.b64decode("".join(data.split()), validate=True))
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(
                f"the kubeconfig's {what}-data is not base64 ({error}); copy it again"
            ) from error
    return Pem.read(folder / file) if file else None


def extension(cluster: KubeconfigCluster, name: str) -> Any:
    """The cluster's extension of this name, if it has one."""
    for entry in cluster.extensions if isinstance(cluster.extensions, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry.get("extension")
    return None
