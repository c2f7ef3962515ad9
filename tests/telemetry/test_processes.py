"""From a process to its pod, however its cgroup is named."""

from pathlib import Path

import pytest

from fairlead.telemetry.processes import Owner, owner_of, pod_uids, sees_the_host

UID = "6a0c2f1e-1111-4222-8333-0123456789ab"
SYSTEMD = UID.replace("-", "_")
CONTAINER = "5f" * 32


@pytest.mark.parametrize(
    "groups",
    [
        # Version 1, cgroupfs driver.
        f"12:memory:/kubepods/burstable/pod{UID}/{CONTAINER}\n1:name=systemd:/kubepods/x\n",
        f"4:devices:/kubepods/pod{UID}/{CONTAINER}\n",
        # Version 1, systemd driver.
        (
            "11:devices:/kubepods.slice/kubepods-besteffort.slice/"
            f"kubepods-besteffort-pod{SYSTEMD}.slice/docker-{CONTAINER}.scope\n"
        ),
        # Version 2: containerd, CRI-O, docker.
        (
            "0::/kubepods.slice/kubepods-burstable.slice/"
            f"kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-{CONTAINER}.scope\n"
        ),
        f"0::/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-{CONTAINER}.scope\n",
        f"0::/kubepods/besteffort/pod{UID}/{CONTAINER}\n",
        # containerd with the prefix of its own, and CRI-O's container inside a container.
        f"0::/system.slice/containerd.service/kubepods-pod{SYSTEMD}.slice:cri-containerd:5f5f\n",
        f"0::/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-{CONTAINER}.scope/container\n",
        # A cluster in a container (kind).
        (
            "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
            f"kubelet-kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-{CONTAINER}.scope\n"
        ),
        # Seen from a container with a cgroup namespace of its own.
        f"0::/../../kubepods-pod{SYSTEMD}.slice/cri-containerd-{CONTAINER}.scope\n",
        f"0::/../pod{UID}/{CONTAINER}\n",
    ],
)
def test_the_pod_is_found(groups: str) -> None:
    assert pod_uids(groups) == (UID,)


@pytest.mark.parametrize(
    "groups",
    [
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/system.slice/podman.service\n",
        f"0::/docker/{CONTAINER}\n",
        "12:memory:/\n0::/\n",
        "",
        "no colons at all",
        f"0::/kubepods.slice/kubepods-podlike{SYSTEMD}.slice/x\n",
    ],
)
def test_a_process_outside_of_pods_has_none(groups: str) -> None:
    assert pod_uids(groups) == ()


def test_a_static_pod_goes_by_its_hash() -> None:
    digest = "0123456789abcdef0123456789abcdef"
    place = f"0::/kubepods.slice/kubepods-pod{digest}.slice/crio-{CONTAINER}.scope"
    assert pod_uids(place) == (digest,)


def test_of_a_pod_inside_a_pod_both_are_read_and_the_outer_one_first() -> None:
    outer = f"/kubepods.slice/kubepods-pod{'0' * 8}_0000_4000_8000_{'0' * 12}.slice/crio-x.scope"
    uids = pod_uids(f"0::{outer}/kubelet/kubepods/pod{UID}/{CONTAINER}")
    assert uids == ("00000000-0000-4000-8000-000000000000", UID)


def test_a_process_is_read_with_its_command(tmp_path: Path) -> None:
    folder = tmp_path / "4711"
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::/kubepods/pod{UID}/{CONTAINER}\n")
    (folder / "comm").write_bytes(b"py\x1b[31mthon\n")

    assert owner_of(4711, tmp_path) == Owner("py?[31mthon", (UID,))
    assert owner_of(4712, tmp_path) is None


def test_another_folder_is_believed_to_be_the_hosts(tmp_path: Path) -> None:
    assert sees_the_host(tmp_path)
