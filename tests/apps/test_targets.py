"""What `fairlead explain` is asked about, in the words of kubectl."""

import pytest

from fairlead.apps.explain.explanation import unserved
from fairlead.apps.explain.targets import NoSuchTarget, Target, parse


@pytest.mark.parametrize(
    ("text", "namespace", "found"),
    [
        ("web", "", Target("web")),
        ("web", "ns", Target("web", "ns")),
        ("ns/web", "", Target("web", "ns")),
        ("ns/web", "ns", Target("web", "ns")),
        ("pod/web", "", Target("web")),
        ("pods/web", "ns", Target("web", "ns")),
        ("deploy/web", "ns", Target("web", "ns", "deployments")),
        ("Job/train", "", Target("train", "", "jobs")),
        ("sts/db", "", Target("db", "", "statefulsets")),
    ],
)
def test_words_of_kubectl(text: str, namespace: str, found: Target) -> None:
    assert parse(text, namespace) == found


@pytest.mark.parametrize("text", ["", "/web", "a/b/c", "pod/"])
def test_what_names_no_pod_is_told_what_to_write(text: str) -> None:
    with pytest.raises(NoSuchTarget, match="use POD, NAMESPACE/POD, or KIND/NAME"):
        parse(text)


def test_two_namespaces_are_one_too_many() -> None:
    with pytest.raises(NoSuchTarget, match="'a/web' is in a, and -n is b"):
        parse("a/web", "b")


def test_the_nearest_scheduler_name_is_told() -> None:
    assert unserved("gpu-schedular", ["toyscheduler", "gpu-scheduler"]) == (
        "schedulerName 'gpu-schedular' is not served; did you mean 'gpu-scheduler'? "
        "served: gpu-scheduler, toyscheduler"
    )
    assert "did you mean" not in unserved("volcano", ["gpu-scheduler"])
