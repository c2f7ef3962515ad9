"""Which models will do is worked out once for each request, not once for each look at a node."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.interned import Interned
from fairlead.cluster.model_match import ModelMatch
from fairlead.model.gpus import GpuRequest
from fairlead.model.machines import is_any_of, is_model

WORDS = st.sampled_from(["NVIDIA", "H100", "h100", "80GB", "MIG", "1g.5gb", "T4", "GH200", ""])
NAMES = st.lists(WORDS, max_size=4).map("-".join)


def interned(*names: str) -> Interned[str]:
    found: Interned[str] = Interned()
    for name in names:
        found.take(name)
    return found


@given(NAMES, st.frozensets(NAMES, max_size=5))
def test_any_of_several_is_what_one_of_them_is(product: str, wanted: frozenset[str]) -> None:
    assert is_any_of(product, wanted) == any(is_model(product, wish) for wish in wanted)


def test_the_answer_is_kept_until_a_model_comes_or_goes() -> None:
    models = interned("NVIDIA H100", "Tesla T4")
    match, ask = ModelMatch(models), GpuRequest(1, models=frozenset({"H100", "A100"}))

    first = match.of(ask)

    assert first.tolist() == [True, False, False]
    assert match.of(GpuRequest(2, models=frozenset({"A100", "H100"}))) is first
    models.take("NVIDIA A100")
    assert match.of(ask).tolist() == [True, False, True, False]
    models.drop(0)
    models.take("Tesla P4")  # which gets the number of the H100
    assert match.of(ask).tolist() == [False, False, True, False]


def test_parts_of_names_in_either_case_and_slots_without_a_gpu() -> None:
    match = ModelMatch(interned("NVIDIA-H100", "Tesla T4"))

    assert match.of(GpuRequest(1, like=("h1", "a1"))).tolist() == [True, False, False]
    assert match.of(GpuRequest(1, unlike=("TESLA",))).tolist() == [True, False, True]
    assert match.of(GpuRequest(1, like=("NVIDIA",), unlike=("h100",))).tolist() == [False] * 3


def test_what_is_kept_is_bounded() -> None:
    match = ModelMatch(interned("T4"))
    match._kept.most_bytes = 1 << 16
    for number in range(1000):
        match.of(GpuRequest(1, models=frozenset({f"M{number}"})))
    assert 0 < len(match._kept) < 256
    assert match._kept.bytes <= 1 << 16
