"""What can be built: each part's Go module, package and the name its build goes by.

Every part is an ordinary Go module. A folder beside this file pins it by a go.mod and go.sum;
a second Kubernetes version is a second folder, `kubernetes-1.37`, and nothing else.
"""

import hashlib
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: -trimpath: the outcome must not depend on where it was built.
#: -mod=readonly and -buildvcs=false are said aloud because the user's GOFLAGS may say otherwise.
BUILD_FLAGS = ("-trimpath", "-mod=readonly", "-buildvcs=false", "-v")


@dataclass(frozen=True, slots=True)
class Part:
    """One program: built from `package` inside the module folder `folder`."""

    name: str
    folder: str
    package: str
    module: str  # whose version is this part's version
    #: Patterns of the files with its CustomResourceDefinitions and webhooks; empty: it has none.
    definitions: tuple[str, ...] = ()


def _kubernetes(name: str) -> Part:
    return Part(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes")


def _containerd(name: str) -> Part:
    module = "github.com/containerd/containerd/v2"
    return Part(name, "containerd", f"{module}/cmd/{name}", module)


def _cni(name: str, kind: str) -> Part:
    module = "github.com/containernetworking/plugins"
    return Part(name, "cni", f"{module}/plugins/{kind}/{name}", module)


PARTS = {
    part.name: part
    for part in (
        _kubernetes("kube-apiserver"),
        Part("etcd", "etcd", ".", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
        Part("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
        Part("helm", "helm", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4"),
        _kubernetes("kubelet"),
        _containerd("containerd"),
        _containerd("containerd-shim-runc-v2"),
        _containerd("ctr"),
        _cni("bridge", "main"),
        _cni("loopback", "main"),
        _cni("host-local", "ipam"),
        Part("pause", "pause", ".", "golang.org/x/sys"),
        Part(
            "vc-controller-manager",
            "volcano",
            "volcano.sh/volcano/cmd/controller-manager",
            "volcano.sh/volcano",
            ("config/crd/volcano/bases/*.yaml",),
        ),
        Part(
            "kai-podgrouper",
            "kai",
            "github.com/NVIDIA/KAI-scheduler/cmd/podgrouper",
            "github.com/NVIDIA/KAI-scheduler",
            ("deployments/kai-scheduler/crds/*.yaml",),
        ),
        Part(
            "scheduler-plugins-controller",
            "scheduler-plugins",
            "sigs.k8s.io/scheduler-plugins/cmd/controller",
            "sigs.k8s.io/scheduler-plugins",
            ("config/crd/bases/*.yaml",),
        ),
        Part(
            "jobset-controller",
            "jobset",
            "sigs.k8s.io/jobset",
            "sigs.k8s.io/jobset",
            ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
        ),
        Part(
            "lws-controller",
            "lws",
            "sigs.k8s.io/lws/cmd",
            "sigs.k8s.io/lws",
            ("config/crd/bases/*.yaml", "config/webhook/manifests.yaml"),
        ),
        Part(
            "kuberay-operator",
            "kuberay",
            "github.com/ray-project/kuberay/ray-operator",
            "github.com/ray-project/kuberay/ray-operator",
            ("config/crd/bases/*.yaml",),
        ),
        Part(
            "kueue",
            "kueue",
            "sigs.k8s.io/kueue/cmd/kueue",
            "sigs.k8s.io/kueue",
            ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
        ),
        Part(
            "karpenter-kwok",
            "karpenter",
            ".",
            "sigs.k8s.io/karpenter",
            ("kwok/charts/crds/*.yaml", "kwok/apis/crds/*.yaml"),
        ),
        Part(
            "vc-scheduler",
            "volcano",
            "volcano.sh/volcano/cmd/scheduler",
            "volcano.sh/volcano",
        ),
        Part("device-cel", "device-cel", ".", "k8s.io/dynamic-resource-allocation"),
        Part("dra-allocator", "dra-allocator", ".", "k8s.io/dynamic-resource-allocation"),
        Part("dra-allocator-1.37", "dra-allocator-1.37", ".", "k8s.io/dynamic-resource-allocation"),
    )
}
#: What a node runs, beside runc (packages.py): for `make test-node`.
NODE_PARTS = tuple(
    part.name
    for part in PARTS.values()
    if part.name == "kubelet" or part.folder in {"containerd", "cni", "pause"}
)
#: Controllers of other projects, with their CustomResourceDefinitions: for `make test-peers`.
PEER_PARTS = tuple(part.name for part in PARTS.values() if part.definitions)
#: Schedulers of other projects: for bench/gangs_live.py.
BENCH_PARTS = ("vc-scheduler",)
#: What `make test` runs; everything else is asked for by name.
DEFAULT_PARTS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kubectl")


@dataclass(frozen=True, slots=True)
class Source:
    """A part at the version its folder pins."""

    part: Part
    folder: Path

    @property
    def version(self) -> str:
        """The pinned module version, such as `v1.36.4`."""
        pattern = rf"^(?:require\s+|\s+){re.escape(self.part.module)} (v\S+)"
        return _find(pattern, self.folder / "go.mod")

    @property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go that can build this."""
        return numbers(_find(r"^go (\S+)", self.folder / "go.mod"))

    @property
    def flags(self) -> list[str]:
        """The `go build` flags, the version stamp among them."""
        return [*BUILD_FLAGS, "-ldflags", " ".join(["-s -w", *_stamps(self)])]

    @property
    def key(self) -> str:
        """Changes whenever the outcome of the build could."""
        digest = hashlib.sha256(repr(self.flags).encode())
        for path in sorted([*self.folder.glob("go.*"), *self.folder.glob("*.go")]):
            digest.update(path.read_bytes())
        system = f"{platform.system()}-{platform.machine()}".lower()
        return f"{self.part.folder}-{self.version}-{system}-{digest.hexdigest()[:12]}"


def source(name: str, kubernetes: str | None = None) -> Source:
    """The part of that name; `kubernetes` ("1.37") picks the folder of another version."""
    part = PARTS[name]
    another = part.folder == "kubernetes" and kubernetes
    return Source(part, HERE / (f"kubernetes-{kubernetes}" if another else part.folder))


def numbers(version: str) -> tuple[int, ...]:
    """`go1.26.8` as (1, 26, 8), so that versions compare."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _stamps(source: Source) -> Iterator[str]:
    # Unstamped, the API server calls itself v0.0.0-master and kubectl complains about the skew.
    major, minor, *_ = numbers(source.version)
    if source.part.folder == "kubernetes":
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            yield f"-X {package}.gitVersion={source.version}"
            yield f"-X {package}.gitMajor={major}"
            yield f"-X {package}.gitMinor={minor}"
            yield f"-X {package}.gitTreeState=clean"
    if source.part.folder == "helm":
        yield f"-X helm.sh/helm/v4/internal/version.version={source.version}"


def _find(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{path} has no line like {pattern!r}: restore it with git checkout.")
    return match[1]
