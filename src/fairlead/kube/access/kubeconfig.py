"""From a kubeconfig, or a pod's ServiceAccount, to all that a client needs to talk to the cluster.

The rules are kubectl's (`docs/adr/0003-own-kubeconfig-loader.md` says why they are written here):
an explicit file, or the files of KUBECONFIG merged, or ~/.kube/config, or the ServiceAccount.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from fairlead.kube.access import kubeconfig_files as files
from fairlead.kube.access.credentials import Credentials, Renewing, Static, TokenFile, basic, bearer
from fairlead.kube.access.execplugin import API_VERSIONS, ExecPlugin, Plugin, command_path
from fairlead.kube.access.kubeconfig_files import Exec, KubeconfigCluster, Login
from fairlead.kube.access.tls import ClientContext, ClientKeyPair, Pem, RenewedFiles, client_context
from fairlead.kube.errors import KubeconfigError
from fairlead.model.lazy_dataclass import dataclass

__all__ = ["SCHEDULER_EXTENSION", "SERVICE_ACCOUNT", "Access", "load_access"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Where a plugin's own settings for a cluster stand among the cluster's extensions.
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
#: Where the scheduler of a cluster serves, as `fairlead up` writes it.
SCHEDULER_EXTENSION = "fairlead.dev/scheduler"


@dataclass(frozen=True, slots=True)
class Access:
    """Everything needed to send a request to one cluster as one user."""

    server: str
    ssl_context: ssl.SSLContext | None
    credentials: Credentials
    namespace: str = "default"
    proxy: str | None = None
    #: The name the server's certificate must carry, if not the one in `server`.
    server_hostname: str | None = None
    #: Whether this is the access of the pod that we run in.
    in_pod: bool = False
    #: Where our scheduler of that cluster serves; empty if it is not configured.
    scheduler: str = ""


def load_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The access that kubectl would have here. Raises KubeconfigError, which says what to do.

    Reads files, but runs no plugin and opens no connection: both wait for the first request.
    """
    config = files.load(kubeconfig, env)
    if config is not None:
        return _from_login(files.login(config, context), env)
    if context is not None:
        raise KubeconfigError(
            f"context {context!r} was requested, but there is no kubeconfig; "
            "set one with --kubeconfig or KUBECONFIG"
        )
    return _in_cluster(env, service_account)


def _in_cluster(env: Mapping[str, str], folder: Path) -> Access:
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigError(
            "found no cluster: set a kubeconfig with --kubeconfig or KUBECONFIG, "
            "put one at ~/.kube/config, or run in a pod with a ServiceAccount"
        )
    authority = Pem.read(folder / "ca.crt")
    context = client_context(authority, None, verify=True)
    token = TokenFile(folder / "token")
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ssl_context=context,
        credentials=Renewing(token, RenewedFiles(context, authority, None)),
        namespace=_namespace_of(folder),
        in_pod=True,
    )


def _namespace_of(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"  # the file is optional; a namespace given by hand wins anyway


def _from_login(login: Login, env: Mapping[str, str]) -> Access:
    cluster = login.cluster
    _refuse_unsupported(login)
    authority = files.pem(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        login.cluster_folder,
        "certificate-authority",
    )
    pair = _pair(login)
    server = _server(cluster, secured=authority is not None or pair is not None)
    tls: ClientContext | None = None
    if server.startswith("https://"):
        verify = not cluster.insecure_skip_tls_verify
        tls = client_context(authority, pair, verify=verify)
    credentials = _credentials(login, tls, authority, env)
    if tls is not None and _in_files(authority, pair):
        credentials = Renewing(credentials, RenewedFiles(tls, authority, pair))
    return Access(
        server=server,
        ssl_context=tls,
        credentials=credentials,
        namespace=login.namespace,
        proxy=cluster.proxy_url or None,
        server_hostname=cluster.tls_server_name or None,
        scheduler=_scheduler(cluster),
    )


def _scheduler(cluster: KubeconfigCluster) -> str:
    told = files.extension(cluster, SCHEDULER_EXTENSION)
    url = told.get("url") if isinstance(told, dict) else None
    return url if isinstance(url, str) else ""


def _refuse_unsupported(login: Login) -> None:
    """Settings that would change who we are or what we reach are refused, never passed over."""
    cluster, user = login.cluster, login.user
    if user.auth_provider is not None:
        raise KubeconfigError(
            f"user {login.user_name!r} logs in with an auth-provider, which Kubernetes removed in "
            "1.26; use the vendor's exec plugin instead"
        )
    if user.as_ or user.as_groups or user.as_uid or user.as_user_extra:
        raise KubeconfigError(
            f"user {login.user_name!r} impersonates someone ('as'), which Fairlead does not do; "
            "give it a user with the rights it needs"
        )
    if cluster.proxy_url and not cluster.proxy_url.startswith("http://"):
        raise KubeconfigError(
            f"cluster {login.cluster_name!r} has proxy-url {cluster.proxy_url!r}; "
            "only http:// proxies are supported"
        )
    has_authority = cluster.certificate_authority or cluster.certificate_authority_data
    if cluster.insecure_skip_tls_verify and has_authority:
        raise KubeconfigError(
            f"cluster {login.cluster_name!r} has both a certificate-authority and "
            "insecure-skip-tls-verify; remove one of them"
        )


def _server(cluster: KubeconfigCluster, *, secured: bool) -> str:
    server = (cluster.server or "").rstrip("/")
    if "://" not in server:
        server = f"{'https' if secured else 'http'}://{server}"
    if not server.startswith(("http://", "https://")) or server.endswith("://"):
        raise KubeconfigError(
            f"the cluster's server {cluster.server!r} is not a URL; write it as https://host:port"
        )
    return server


def _pair(login: Login) -> ClientKeyPair | None:
    user, folder = login.user, login.user_folder
    certificate = files.pem(
        user.client_certificate_data, user.client_certificate, folder, "client-certificate"
    )
    key = files.pem(user.client_key_data, user.client_key, folder, "client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise KubeconfigError(
            f"user {login.user_name!r} needs both a client-certificate and a client-key; "
            "add the one that is missing"
        )
    return ClientKeyPair(certificate, key)


def _in_files(authority: Pem | None, pair: ClientKeyPair | None) -> bool:
    pems = (authority, *((pair.certificate, pair.key) if pair else ()))
    return any(pem is not None and pem.file is not None for pem in pems)


def _credentials(
    login: Login, tls: ClientContext | None, authority: Pem | None, env: Mapping[str, str]
) -> Credentials:
    user = login.user
    if user.token_file:  # as in kubectl, the file wins over an inline token, which may be old
        return TokenFile(login.user_folder / user.token_file)
    if user.token:
        return Static(bearer(user.token))
    if user.username:
        return Static(basic(user.username, user.password or ""))
    if user.exec is not None:
        return ExecPlugin(_plugin(login, user.exec, authority), tls, env)
    return Static({})


def _plugin(login: Login, stanza: Exec, authority: Pem | None) -> Plugin:
    if stanza.api_version not in API_VERSIONS:
        raise KubeconfigError(
            f"user {login.user_name!r} has an exec plugin with apiVersion {stanza.api_version!r}; "
            f"update the plugin to {API_VERSIONS[0]}"
        )
    if stanza.interactive_mode == "Always":
        raise KubeconfigError(
            f"user {login.user_name!r} has an exec plugin that needs a terminal (interactiveMode: "
            "Always); Fairlead has none, so give it a user that logs in by itself"
        )
    return Plugin(
        command=command_path(stanza.command, login.user_folder),
        api_version=stanza.api_version,
        args=tuple(stanza.args or ()),
        env={variable.name: variable.value for variable in stanza.env or ()},
        cluster=_cluster_fields(login.cluster, authority) if stanza.provide_cluster_info else None,
        install_hint=stanza.install_hint or "",
    )


def _cluster_fields(cluster: KubeconfigCluster, authority: Pem | None) -> dict[str, object]:
    """What a plugin learns about the cluster when it asks to (provideClusterInfo)."""
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority.data if authority else None,
        "proxy-url": cluster.proxy_url,
        "config": files.extension(cluster, _EXEC_EXTENSION),
    }
    return {key: value for key, value in told.items() if value}
