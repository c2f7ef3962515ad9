"""What is not protobuf of a claim is one sentence, and nothing else."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.claims.protobuf import with_finalizer
from fairlead.model.claims import ResourceClaim

CLAIM = ResourceClaim("ns", "c", uid="u", version="7")
_META = b"\x0a\x01c" + b"\x2a\x01u" + b"\x32\x017" + b"\x38\x05"  # name, uid, version, generation
_RAW = b"\x0a" + bytes([len(_META)]) + _META + b"\x12\x02{}"
BODY = b"k8s\x00" + b"\x12" + bytes([len(_RAW)]) + _RAW + b"\x1a\x00"


def test_the_rest_stays_as_it_is() -> None:
    longer = _META + b"\x72\x03a/b"
    raw = b"\x0a" + bytes([len(longer)]) + longer + b"\x12\x02{}"
    expected = b"k8s\x00" + b"\x12" + bytes([len(raw)]) + raw + b"\x1a\x00"
    assert with_finalizer(BODY, CLAIM, "a/b") == expected


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00", b"k8s\x00\x12", BODY[:9], b"k8s\x00\x0b"])
def test_what_cannot_be_read_is_said_so(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it |^there "):
        with_finalizer(body, CLAIM, "a/b")


@given(st.binary(max_size=64))
def test_no_bytes_end_it_otherwise(data: bytes) -> None:
    with suppress(ValueError):
        with_finalizer(b"k8s\x00" + data, CLAIM, "a/b")
