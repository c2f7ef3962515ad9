"""What cannot work is said before anything is served."""

import datetime as dt
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairlead.apps import extender
from fairlead.apps.extender import ExtenderOptions
from fairlead.apps.extender.extender import ExtenderDriver
from fairlead.apps.serving.callers import Callers
from fairlead.kube.admission.certificates import Subject, make
from fairlead.kube.dialects import RESOURCES
from fairlead.model.errors import ConfigError
from yaml_texts import yaml_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "08-extender" / "kube-scheduler.yaml"


def test_the_example_keeps_kube_scheduler_from_waiting_for_what_no_node_lists() -> None:
    (entry,) = yaml_of(EXAMPLE)["extenders"]
    ignored = {r["name"] for r in entry["managedResources"] if r.get("ignoredByScheduler")}
    assert ignored == set(RESOURCES)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ExtenderOptions(profile="default-scheduler"), "only counts GPUs; choose another"),
        (ExtenderOptions(profile="nonesuch"), "unknown profile 'nonesuch'; choose one of"),
        (
            ExtenderOptions(callers=Callers(Path("ca.crt"))),
            "--client-ca requires TLS; add --cert-dir",
        ),
        (ExtenderOptions(cert_dir=Path("nowhere")), "--cert-dir must hold tls.crt and tls.key"),
    ],
)
def test_options_that_cannot_work(options: ExtenderOptions, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        extender.run(options)


def test_a_client_ca_that_is_none(tmp_path: Path) -> None:
    pair, _ = make(Subject(("localhost",), dt.timedelta(hours=1)), dt.datetime.now(dt.UTC))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    nonsense = tmp_path / "ca.crt"
    nonsense.write_text("nonsense")
    with pytest.raises(ConfigError, match="give a PEM file of CAs"):
        extender.run(ExtenderOptions(cert_dir=tmp_path, callers=Callers(nonsense)))


def test_an_object_that_is_left_out_does_not_keep_the_extender_from_answering() -> None:
    extender = ExtenderDriver.__new__(ExtenderDriver)
    extender._scheduler = SimpleNamespace(
        unready_because=str, standby="", standing="internal errors: 1 objects are left out"
    )
    assert extender.unready_because() == ""
    extender._scheduler.standby = "standby: another leads"
    assert extender.unready_because() == "standby: another leads"
