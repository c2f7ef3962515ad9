"""The command lines of the control plane's programs: every flag that is not a default, and why."""

import random
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.controlplane.certificates import Authority, KeyPair
from fairlead.sim.controlplane.process import ControlPlaneError

#: Clients of ours are never throttled by their own limiter: the server sets the pace.
_CLIENT_QPS = 10_000


@dataclass(frozen=True, slots=True)
class CommandLines:
    """Command lines for the programs in one folder, sharing the certificates of one run."""

    assets: Path
    authority: Authority
    serving: KeyPair
    tokens: KeyPair

    def program(self, name: str) -> str:
        """The path of a program; the error says how to build it."""
        program = self.assets / name
        if not program.is_file():
            build = f"python3 controlplane/build.py --with {name}"
            raise ControlPlaneError(f"{self.assets} holds no {name}: build it with `{build}`.")
        return str(program)

    def etcd(self, data: Path, unix_socket: Path) -> list[str]:
        """One etcd behind a Unix socket: no port to collide on, and only its owner can reach it."""
        return [
            self.program("etcd"),
            f"--data-dir={data}",
            f"--listen-client-urls=unix://{unix_socket}",
            # It refuses a Unix socket here. No one reads the address of a single member.
            "--advertise-client-urls=http://127.0.0.1:1",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",  # the data need not outlive the machine
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ]

    def apiserver(
        self, port: int, etcd_socket: Path, disable_admission: Sequence[str]
    ) -> list[str]:
        """kube-apiserver with TLS, RBAC and ServiceAccount tokens, as in a production cluster."""
        disabled = ",".join(disable_admission)
        kubelets = self.authority.client("kube-apiserver-kubelet-client", ("system:masters",))
        return [
            self.program("kube-apiserver"),
            f"--etcd-servers=unix://{etcd_socket}",
            *self._serving(port),
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
            f"--client-ca-file={self.authority.certificate}",
            "--authorization-mode=Node,RBAC",
            # As kubeadm has it: for logs and exec.
            f"--kubelet-client-certificate={kubelets.certificate}",
            f"--kubelet-client-key={kubelets.key}",
            "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.tokens.certificate}",
            f"--service-account-signing-key-file={self.tokens.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            # A drain of thousands of pods is the point, not an overload. Zero is refused.
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=4000",
            # On in every cluster that kubeadm makes. TaintNodesByCondition stays on, too.
            "--enable-admission-plugins=NodeRestriction",
            *([f"--disable-admission-plugins={disabled}"] if disabled else []),
        ]

    def kube_scheduler(self, port: int, kubeconfig: Path, config: Path) -> list[str]:
        """kube-scheduler with a configuration file (see `scheduler_config`)."""
        return [
            self.program("kube-scheduler"),
            f"--config={config}",
            *self._serving(port),
            *self._delegating(kubeconfig),
        ]

    def controller_manager(
        self, port: int, kubeconfig: Path, controllers: Sequence[str]
    ) -> list[str]:
        """kube-controller-manager, each controller with the rights of its own ServiceAccount."""
        return [
            self.program("kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            *self._serving(port),
            *self._delegating(kubeconfig),
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.tokens.key}",
            f"--root-ca-file={self.authority.certificate}",
            f"--kube-api-qps={_CLIENT_QPS}",
            f"--kube-api-burst={_CLIENT_QPS}",
        ]

    def kwok(self, port: int, kubeconfig: Path, stages: Path, *, node_leases: bool) -> list[str]:
        """KWOK as the kubelet of every node."""
        return [
            self.program("kwok"),
            f"--kubeconfig={kubeconfig}",
            f"--config={stages}",
            "--manage-all-nodes=true",
            f"--node-lease-duration-seconds={40 if node_leases else 0}",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{port}",
            f"--tls-cert-file={self.serving.certificate}",
            f"--tls-private-key-file={self.serving.key}",
        ]

    def _serving(self, port: int) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.serving.certificate}",
            f"--tls-private-key-file={self.serving.key}",
        ]

    def _delegating(self, kubeconfig: Path) -> list[str]:
        # Lets the admin read /metrics; whether another may is the API server's to say. The
        # authority is named because what the API server says of it comes after the first requests.
        return [
            f"--client-ca-file={self.authority.certificate}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        ]


def scheduler_config(kubeconfig: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """A KubeSchedulerConfiguration; what `config` says replaces our defaults, key by key."""
    connection = {"kubeconfig": str(kubeconfig), "qps": _CLIENT_QPS, "burst": _CLIENT_QPS}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **config,
        "clientConnection": {**connection, **config.get("clientConnection", {})},
    }


def free_port() -> int:
    """A port no one listens on, below those the kernel hands to outgoing connections.

    Else a client that retries while the server is down could be given the server's own port,
    connect to itself, and keep the server from coming back.
    """
    for _ in range(1000):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ControlPlaneError("No free port between 20000 and 32000: stop what listens there.")
