from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import QuantityError
from fairlead.model.quantities import LARGEST, amount, exact, parse, shown, spelled
from fairlead.sim.apiserver.quantities import canonical


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        pytest.param("cpu", "2", 2000, id="cores are counted in milli-cores"),
        pytest.param("cpu", "100m", 100, id="milli-cores"),
        pytest.param("cpu", "1.5", 1500, id="half a core"),
        pytest.param("cpu", "1u", 1, id="a fraction of a milli-core rounds up"),
        pytest.param("memory", "4Gi", 4 << 30, id="binary suffix"),
        pytest.param("memory", "4G", 4_000_000_000, id="decimal suffix"),
        pytest.param("memory", "1e3", 1000, id="exponent"),
        pytest.param("memory", "1E3", 1000, id="capital exponent"),
        pytest.param("memory", "1E", min(LARGEST, 10**18), id="exa"),
        pytest.param("nvidia.com/gpu", "1.5", 2, id="whole things round up"),
        pytest.param("nvidia.com/gpu", "-1", -1, id="negative is for the caller to refuse"),
        pytest.param("nvidia.com/gpu", "0", 0, id="zero"),
        pytest.param("nvidia.com/gpu", "1e30", LARGEST, id="absurd amounts are cut"),
        pytest.param("nvidia.com/gpu", "9223372036854775808", LARGEST, id="beyond 64 bits"),
        pytest.param("memory", ".5Ki", 512, id="no leading digit"),
        pytest.param("memory", "128974848000m", 128974848, id="milli-bytes"),
    ],
)
def test_amounts(resource: str, text: str, expected: int) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize(
    "text", ["", "abc", "1x", "nan", "inf", "1 Gi", "٣", "1ki", "0x10", "1e9999", "9" * 5000, "1e"]
)
def test_what_is_no_quantity_is_refused_with_advice(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity; write for example"):
        amount("nvidia.com/gpu", text)


@pytest.mark.parametrize(
    ("resource", "number", "expected"),
    [
        ("cpu", 2000, "2"), ("cpu", 100_500, "100500m"), ("memory", 600 << 30, "600Gi"),
        ("memory", 1000, "1000"), ("nvidia.com/gpu", 1024, "1024"), ("memory", 0, "0"),
    ],
)  # fmt: skip
def test_amounts_are_shown_as_a_person_writes_them(resource, number, expected) -> None:
    assert shown(resource, number) == expected
    assert amount(resource, shown(resource, number)) == number


@given(st.integers(min_value=0, max_value=LARGEST))
def test_whole_numbers_stand_for_themselves(number: int) -> None:
    assert amount("memory", str(number)) == number


def test_an_amount_of_many_digits_is_cut_like_any_that_is_too_large() -> None:
    assert amount("example.com/foo", "8" * 300) == LARGEST
    assert amount("cpu", "0." + "0" * 300 + "1") == 1
    with pytest.raises(QuantityError):
        amount("cpu", "8" * 5000)


def test_the_embedded_server_shows_a_fraction_of_an_exbibyte_in_thousandths() -> None:
    """The E of `Ei` is no exponent."""
    assert canonical(".9Ei") == "1037629354146162278400m"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("4Gi", 4 << 30, id="whole"),
        pytest.param("1500m", Fraction(3, 2), id="a fraction"),
        pytest.param("1e-10", Fraction(1, 10**9), id="at least one nano"),
        pytest.param("-1e-10", Fraction(-1, 10**9), id="away from zero"),
        pytest.param("9Ei", 2**63 - 1, id="binary suffixes are cut to 64 bits"),
        pytest.param("1e30", 10**30, id="others are not"),
    ],
)
def test_exact_amounts_are_as_the_api_server_keeps_them(
    text: str, expected: int | Fraction
) -> None:
    assert exact(text) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (1 << 30, "1Gi"), (3 << 20, "3Mi"), (1000, "1k"), (5 * 10**9, "5G"),
     (2048, "2Ki"), (10**19, "10E"), (Fraction(10**19), "10E"), (Fraction(1, 2), "500m"),
     (Fraction(1, 10**6), "1u"), (Fraction(7, 10**9), "7n"), (-1, "-1"), (-(1 << 30), "-1Gi")],
)  # fmt: skip
def test_quantities_as_kubernetes_writes_them(value, text) -> None:
    assert spelled(value) == text
    assert exact(text) == value


@given(
    st.from_regex(
        r"[+-]?(\d{1,25}(\.\d{0,12})?|\.\d{1,12})", fullmatch=True, alphabet="+-.0123456789"
    ),
    st.sampled_from(
        ["", "n", "u", "m", *"kMGTPE", *(f"{each}i" for each in "KMGTPE"), "e3", "E-7"]
    ),
    st.sampled_from(["cpu", "memory", "example.com/r"]),
)
def test_amounts_are_the_exact_ones_rounded_up(number: str, suffix: str, resource: str) -> None:
    exactly = parse(number + suffix) * (1000 if resource == "cpu" else 1)
    rounded = -(-exactly.numerator // exactly.denominator)
    assert amount(resource, number + suffix) == max(-LARGEST, min(LARGEST, rounded))
