"""A name from an object is one segment of a path, whatever it says."""

import pytest

from fairlead.kube.http.paths import in_namespace, named, node_path, pod_path, segment


def test_ordinary_names_are_left_as_they_are() -> None:
    assert pod_path("team-a", "train-0.v1") == "/api/v1/namespaces/team-a/pods/train-0.v1"
    assert node_path("gpu-a") == "/api/v1/nodes/gpu-a"
    folder = in_namespace("/api/v1", "team-a", "persistentvolumeclaims")
    assert named(folder, "data") == "/api/v1/namespaces/team-a/persistentvolumeclaims/data"


@pytest.mark.parametrize(
    "name", ["a b", "a/b", "../x", "a?b", "a#b", "a%2Fb", "ü", "a\r\nb", "\x00"]
)
def test_a_name_cannot_lead_to_another_path(name: str) -> None:
    assert set(segment(name)) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%.-_~"
    )
    assert "/" not in segment(name)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_cannot_be_encoded_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        segment(name)
