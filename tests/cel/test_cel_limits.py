"""Nothing that users write takes long or breaks the interpreter: work is counted, not timed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cel import CelCompileError, CelCostError, CelError, compile_expression, device_input
from fairlead.cel.arithmetic import comparison_cost
from fairlead.cel.program import DEEPEST, LONGEST

DEVICE = device_input("d.example.com", {"a": "x" * 64, "n": 7}, {"memory": "1Gi"})
TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
LONG = f"{TEN}.map(a, {TEN}.map(b, 'xxxxxxxxxx').join()).join()"


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "true" + ")" * 5000,
        "!" * 5001 + "(" * 2000,
        "[" * 4000,
        "{" * 4000,
        "f(" * 3000,
        "a." * 4000 + "b",
        "device" + ".a" * 4000,
        "1" + " + 1" * 2000 + " == 1",
        "true ? " * 1000 + "true",
        "1" + "[0]" * 3000,
        "x" * (LONGEST + 1),
        "true" + " == true" * 1000,
        "9" * 9000 + " == 1",
        "1e999 == 1.0",
        "optional.of(" * 200 + "1" + ")" * 200 + ".hasValue()",
        "".join(f"cel.bind(x{n}, [x{n - 1}], " for n in range(1, 100)) + "true" + ")" * 99,
    ],
)
def test_what_is_too_deep_or_too_long_is_refused(expression: str) -> None:
    with pytest.raises(CelCompileError):
        compile_expression(expression)


def test_long_chains_of_and_and_or_are_no_depth() -> None:
    chain = " && ".join(["true"] * 500)
    assert compile_expression(f"{chain} || {chain}").evaluate(DEVICE)


def test_what_is_just_within_the_depth_is_evaluated() -> None:
    levels = DEEPEST - 3
    assert compile_expression("1" + " + 1" * levels + " > 1").evaluate(DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, true)))))",
        "lists.range(1000000000).size() > 0",
        "lists.range(9223372036854775807).size() > 0",
        f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {LONG}))).size() > 0",
        f"{LONG}.replace('', {LONG}).replace('', {LONG}).size() > 0",
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, [{'1, ' * 2000}].size() > 0)))",
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {' && '.join(['true'] * 900)})))",
        "cel.bind(l, lists.range(2000), l.distinct().size() > 1)",
    ],
)
def test_what_costs_too_much_ends_with_the_error_of_kube_scheduler(expression: str) -> None:
    with pytest.raises(CelCostError) as ended:
        compile_expression(expression).evaluate(DEVICE)
    assert str(ended.value) == "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    "pattern", ["(x+x+)+y", "(x*)*y", "(x|xx)+y", "(.*)(.*)(.*)(.*)(.*)[^x]", "(x{1,9}){1,9}y"]
)
def test_patterns_that_take_others_exponential_time_have_an_answer(pattern: str) -> None:
    expression = f"device.attributes['d.example.com'].a.matches('{pattern}')"
    assert compile_expression(expression).evaluate(DEVICE) is False


def test_a_long_text_pays_for_each_letter() -> None:
    with pytest.raises(CelCostError):
        compile_expression(f"({LONG} + {LONG} + {LONG}).matches('(x{{1,9}}){{1,9}}y')").evaluate(
            DEVICE
        )


def test_no_operator_absorbs_that_the_cost_is_too_high() -> None:
    program = compile_expression("lists.range(1000000000).size() > 0 || true")
    with pytest.raises(CelCostError):
        program.evaluate(DEVICE)


@pytest.mark.parametrize(
    "pattern", ["(" * 500 + "x" + ")" * 500, "((x{900}){900}){900}", "x{1001}"]
)
def test_patterns_that_are_too_large_are_refused(pattern: str) -> None:
    with pytest.raises(CelCompileError):
        compile_expression(f"'x'.matches('{pattern}')")


@given(st.text(max_size=60))
def test_any_text_is_an_answer_or_an_error_of_ours(text: str) -> None:
    _ask(text)


@given(
    st.lists(
        st.sampled_from(
            [
                *("device", ".", "attributes", "['d.example.com']", "a", "n", "(", ")", "[", "]"),
                *(
                    "{",
                    "}",
                    "==",
                    "<",
                    "&&",
                    "||",
                    "!",
                    "-",
                    "?",
                    ":",
                    ",",
                    "1",
                    "'x'",
                    "1.5",
                    "in",
                ),
                *("has(", ".all(x,", ".map(x,", "x", "size(", "null", "true", ".?", "[?", "2u"),
                *("b'y'", "+"),
            ]
        ),
        max_size=14,
    )
)
def test_any_tokens_are_an_answer_or_an_error_of_ours(tokens: list[str]) -> None:
    _ask("".join(tokens))


def _ask(text: str) -> None:
    with contextlib.suppress(CelError):
        assert compile_expression(text).evaluate(DEVICE) in (True, False)


def test_a_comparison_reads_no_more_than_is_allowed() -> None:
    many = [["x" * 10] * 1000] * 1000
    assert comparison_cost(many, many, 100) == 102
    assert comparison_cost(many, ["x"], 100) == 2
