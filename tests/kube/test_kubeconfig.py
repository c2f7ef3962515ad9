"""Every way to find and describe a cluster, and what is said when it cannot be used."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.kube.access.credentials import REREAD_S, Renewing, TokenFile
from fairlead.kube.access.execplugin import ExecPlugin
from fairlead.kube.access.kubeconfig import Access, load_access
from fairlead.kube.access.tls import ClientKeyPair, Pem, RenewedFiles, client_context
from fairlead.kube.errors import KubeconfigError
from fairlead.sim.controlplane.certificates import Authority

NOWHERE = {"HOME": "/nowhere"}


def a_config(
    name: str = "one",
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: bool = True,
    **context: Any,
) -> dict[str, Any]:
    cluster = {"server": f"http://{name}:8080"} | (cluster or {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name} | context}],
        **({"current-context": name} if current else {}),
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(content: dict[str, Any] | str, name: str = "config") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def headers(access: Access) -> dict[str, str]:
    return await access.credentials.headers()


# Where it is found


def test_an_explicit_file_wins_over_the_environment(write: Callable[..., str]) -> None:
    explicit = write(a_config("explicit"), "a")
    env = {"KUBECONFIG": write(a_config("env"), "b")}
    assert load_access(explicit, env=env).server == "http://explicit:8080"
    assert load_access(env=env).server == "http://env:8080"


def test_the_home_directory_is_looked_at_without_kubeconfig(
    write: Callable[..., str], tmp_path: Path
) -> None:
    write(a_config("home"), ".kube/config")
    assert load_access(env={"HOME": str(tmp_path)}).server == "http://home:8080"


def test_files_are_merged_and_the_first_to_name_a_thing_wins(
    write: Callable[..., str], tmp_path: Path
) -> None:
    first = a_config("one", current=False)
    second = a_config("one", cluster={"server": "http://overridden"}) | {"current-context": "two"}
    two = a_config("two")
    for part in ("clusters", "users", "contexts"):
        second[part] += two[part]
    paths = [write(first, "a"), str(tmp_path / "missing"), "", write(second, "b")]
    env = {"KUBECONFIG": os.pathsep.join(paths)}
    assert load_access(env=env).server == "http://two:8080"
    assert load_access(context="one", env=env).server == "http://one:8080"


def test_the_namespace_comes_from_the_context(write: Callable[..., str]) -> None:
    assert load_access(write(a_config(namespace="team"))).namespace == "team"
    assert load_access(write(a_config())).namespace == "default"


@pytest.mark.parametrize(
    ("server", "user", "expected"),
    [
        ("https://host:6443/", {}, "https://host:6443"),
        ("https://host/k8s/clusters/c-1", {}, "https://host/k8s/clusters/c-1"),
        ("host:8080", {}, "http://host:8080"),
        ("http://[fd00::1]:8080", {}, "http://[fd00::1]:8080"),
    ],
)
def test_the_server(
    write: Callable[..., str], server: str, user: dict[str, Any], expected: str
) -> None:
    config = a_config(cluster={"server": server}, user=user)
    assert load_access(write(config)).server == expected


# In a pod


@pytest.fixture
def service_account(tmp_path: Path, authority: Authority) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("abc\n")
    (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (folder / "namespace").write_text("gpu-system")
    return folder


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
async def test_a_pod_uses_its_service_account(
    service_account: Path, host: str, server: str
) -> None:
    env = NOWHERE | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    access = load_access(env=env, service_account=service_account)
    assert (access.server, access.namespace) == (server, "gpu-system")
    assert await headers(access) == {"Authorization": "Bearer abc"}
    assert access.ssl_context is not None
    assert len(access.ssl_context.get_ca_certs()) == 1


def test_an_empty_kubeconfig_is_none(write: Callable[..., str], service_account: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    env |= {"KUBECONFIG": write("")}
    assert load_access(env=env, service_account=service_account).server == "https://h:1"


# How we log in


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({"token": "t"}, {"Authorization": "Bearer t"}, id="a token"),
        pytest.param(
            {"username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}, id="a password"
        ),
        pytest.param({}, {}, id="nobody"),
        pytest.param({"token": None, "exec": None}, {}, id="nulls count as absent"),
    ],
)
async def test_the_login_headers(
    write: Callable[..., str], user: dict[str, Any], expected: dict[str, str]
) -> None:
    assert await headers(load_access(write(a_config(user=user)))) == expected


async def test_a_token_file_wins_and_is_relative_to_its_kubeconfig(
    write: Callable[..., str],
) -> None:
    write("fresh", "secrets/token")
    path = write(a_config(user={"tokenFile": "secrets/token", "token": "old"}))
    assert await headers(load_access(path)) == {"Authorization": "Bearer fresh"}


async def test_a_token_file_is_read_again_after_a_minute_or_a_401(tmp_path: Path) -> None:
    now = [0.0]
    file = tmp_path / "token"
    file.write_text("one")
    token = TokenFile(file, clock=lambda: now[0])
    file.write_text("two")
    assert await token.headers() == {"Authorization": "Bearer one"}
    now[0] = REREAD_S
    assert await token.headers() == {"Authorization": "Bearer two"}
    file.write_text("three")
    await token.refresh()
    assert await token.headers() == {"Authorization": "Bearer three"}


@pytest.mark.parametrize("torn", ["", "   \n", None, "two\nlines"])
async def test_a_torn_token_file_leaves_the_last_token_in_use(
    tmp_path: Path, torn: str | None
) -> None:
    file = tmp_path / "token"
    file.write_text("good")
    token = TokenFile(file)
    if torn is None:
        file.unlink()
    else:
        file.write_text(torn)
    await token.refresh()
    assert await token.headers() == {"Authorization": "Bearer good"}


@pytest.mark.parametrize("inline", [True, False])
def test_certificates_inline_and_in_files(
    write: Callable[..., str], tmp_path: Path, authority: Authority, inline: bool
) -> None:
    pair = authority.client("me")
    cluster: dict[str, Any] = {"server": "https://h"}
    if inline:
        cluster["certificate-authority-data"] = b64(authority.certificate)
        user = {
            "client-certificate-data": b64(pair.certificate),
            "client-key-data": b64(pair.key),
        }
    else:
        relative = os.path.relpath(authority.certificate, tmp_path)
        cluster["certificate-authority"] = relative
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    access = load_access(write(a_config(cluster=cluster, user=user)))
    assert access.ssl_context is not None
    assert len(access.ssl_context.get_ca_certs()) == 1
    assert isinstance(access.credentials, Renewing) is not inline


def test_tls_options(write: Callable[..., str]) -> None:
    cluster = {
        "server": "https://10.0.0.1",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    access = load_access(write(a_config(cluster=cluster)))
    assert access.ssl_context is not None
    assert not access.ssl_context.check_hostname
    assert (access.server_hostname, access.proxy) == ("kubernetes", "http://proxy:3128")


def test_an_exec_plugin_is_not_run_by_loading(write: Callable[..., str]) -> None:
    stanza = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./never", "env": None}
    access = load_access(write(a_config(user={"exec": stanza})))
    assert isinstance(access.credentials, ExecPlugin)


def test_renewed_certificate_files_are_taken_up_and_torn_ones_are_not(
    tmp_path: Path, authority: Authority
) -> None:
    old, new = authority.client("old"), authority.client("new")
    certificate, key, ca = tmp_path / "c", tmp_path / "k", tmp_path / "ca"
    certificate.write_bytes(old.certificate.read_bytes())
    key.write_bytes(old.key.read_bytes())
    ca.write_bytes(authority.certificate.read_bytes())
    pair, trusted = ClientKeyPair(Pem.read(certificate), Pem.read(key)), Pem.read(ca)
    context = client_context(trusted, pair, verify=True)
    files = RenewedFiles(context, trusted, pair)

    certificate.write_bytes(new.certificate.read_bytes())  # the key is still to come
    files.reload()
    assert files._pair == pair
    key.write_bytes(new.key.read_bytes())
    other = Authority(tmp_path / "other")
    ca.write_bytes(ca.read_bytes() + other.certificate.read_bytes())
    files.reload()
    assert files._pair != pair
    assert len(context.current.get_ca_certs()) == 2, "old and new authority overlap"
    ca.write_bytes(b"torn")
    files.reload()
    assert len(context.current.get_ca_certs()) == 2, "the last good ones stay"
    ca.write_bytes(other.certificate.read_bytes())
    files.reload()
    assert len(context.current.get_ca_certs()) == 1, "the old authority is no longer trusted"


# What is said when it cannot be used


def without(config: dict[str, Any], part: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != part}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param(a_config(current=False), "--context: one", id="no current-context"),
        pytest.param(
            a_config() | {"current-context": "onne"}, "did you mean 'one'", id="a context mistyped"
        ),
        pytest.param(without(a_config(), "clusters"), "no cluster 'one'", id="no such cluster"),
        pytest.param(without(a_config(), "users"), "no user 'one'", id="no such user"),
        pytest.param("clusters: [\n  {a: 1}\nb: 2", "line 3", id="no YAML"),
        pytest.param("a: !!python/object/apply:os.system [ls]", "not valid YAML", id="a YAML tag"),
        pytest.param("[1, 2]", "Expected `object`", id="no mapping"),
        pytest.param("clusters: 7", "$.clusters", id="a wrong type"),
        pytest.param("\x00\x01", "not valid YAML", id="binary"),
        pytest.param(
            a_config(user={"auth-provider": {"name": "gcp"}}), "exec plugin", id="auth-provider"
        ),
        pytest.param(a_config(user={"as": "admin"}), "impersonates", id="impersonation"),
        pytest.param(a_config(user={"token": "a b"}), "copy it again", id="a broken token"),
        pytest.param(
            a_config(user={"exec": {"command": "x", "apiVersion": "v1alpha1"}}),
            "client.authentication.k8s.io/v1",
            id="an old exec plugin",
        ),
        pytest.param(
            a_config(
                user={
                    "exec": {
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always",
                    }
                }
            ),
            "terminal",
            id="an exec plugin that wants a terminal",
        ),
        pytest.param(
            a_config(cluster={"proxy-url": "socks5://p"}), "only http:// proxies", id="socks"
        ),
        pytest.param(a_config(cluster={"server": ""}), "is not a URL", id="no server"),
        pytest.param(a_config(cluster={"server": "ftp://x"}), "is not a URL", id="no web server"),
        pytest.param(
            a_config(cluster={"certificate-authority": "gone.crt"}), "gone.crt", id="no CA file"
        ),
        pytest.param(
            a_config(cluster={"certificate-authority-data": "***"}), "not base64", id="no base64"
        ),
        pytest.param(
            a_config(cluster={"server": "https://h", "certificate-authority-data": "YWJj"}),
            "PEM",
            id="no PEM",
        ),
        pytest.param(
            a_config(
                cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": "YWJj"}
            ),
            "remove one",
            id="insecure and an authority",
        ),
        pytest.param(a_config(user={"tokenFile": "gone"}), "token file", id="no token file"),
        pytest.param(a_config(user={"client-key-data": "YWJj"}), "both", id="a key alone"),
        pytest.param(
            a_config() | {"contexts": [{"name": "a", "context": {}}, {"name": "a", "context": {}}]},
            "two entries for context 'a'",
            id="a name twice",
        ),
    ],
)
def test_errors_say_what_to_do(
    write: Callable[..., str], config: dict[str, Any] | str, said: str
) -> None:
    with pytest.raises(KubeconfigError) as error:
        load_access(write(config))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_files_and_clusters_are_said(tmp_path: Path, service_account: Path) -> None:
    with pytest.raises(KubeconfigError, match="missing"):
        load_access(str(tmp_path / "missing"))
    with pytest.raises(KubeconfigError, match="--kubeconfig"):
        load_access(env=NOWHERE)
    with pytest.raises(KubeconfigError, match="no kubeconfig"):
        load_access(context="one", env=NOWHERE)
    (service_account / "token").unlink()
    env = NOWHERE | {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    with pytest.raises(KubeconfigError, match="automountServiceAccountToken"):
        load_access(env=env, service_account=service_account)


def test_an_unknown_context_names_those_there_are(write: Callable[..., str]) -> None:
    path = write(a_config("production"))
    with pytest.raises(KubeconfigError, match="it has: production") as error:
        load_access(path, context="prodction")
    assert "did you mean 'production'?" in str(error.value)


def test_an_encrypted_key_is_refused_without_asking(
    write: Callable[..., str], authority: Authority, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    pair = authority.client("me")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = tmp_path / "locked"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    user = {"client-certificate": str(pair.certificate), "client-key": str(locked)}
    config = a_config(cluster={"server": "https://h"}, user=user)
    with pytest.raises(KubeconfigError, match="encrypted"):
        load_access(write(config))
