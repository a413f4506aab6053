"""Arithmetic without an engine gives what the engines give, or leaves it to them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config.cel import CELError, CostVariables, compile_cost, engines
from filter_config.cel.arithmetic import OutOfRangeError, compile_arithmetic
from filter_config.cel.engine import COUNTERS, compiler

LARGE = 2**64 - 1
COUNTS = st.integers(0, 40) | st.sampled_from([2**32, 2**53, 2**63, LARGE])
LITERALS = COUNTS.map(lambda value: f"{value}u") | st.integers(0, 10**18 - 1).map(lambda value: f"uint( {value} )")
TERMS = st.recursive(
    st.sampled_from(COUNTERS) | LITERALS,
    lambda inner: (
        st.builds("{}{}{}{}{}".format, inner, st.just(" "), st.sampled_from("+-*/%"), st.just(" "), inner)
        | inner.map("({})".format)
    ),
    max_leaves=8,
)
VARIABLES = st.builds(CostVariables, **dict.fromkeys(COUNTERS, COUNTS))

READ = {
    "input_tokens": 7,
    " output_tokens ": 5,
    "3u": 3,
    "uint(3)": 3,
    "input_tokens + output_tokens * 3u": 22,
    "(input_tokens + output_tokens) * 3u": 36,
    "input_tokens - output_tokens - 1u": 1,
    "input_tokens/2u*2u": 6,
    "input_tokens % 4u + uint( 10 ) / 3u": 6,
    "((input_tokens))": 7,
}
LEFT_TO_AN_ENGINE = [
    "",
    "()",
    "input_tokens +",
    "+ input_tokens",
    "input_tokens output_tokens",
    "(input_tokens",
    "input_tokens)",
    "1",
    "-1",
    "1 + 2",
    "input_tokens + 1",
    "1.5",
    "double(input_tokens)",
    "uint(input_tokens)",
    "uint(1.5)",
    "uint(-1)",
    "model",
    "model == 'm' ? 1u : 2u",
    "input_tokens > 1u",
    "max_tokens",
    f"{2**64}u",
    f"uint({2**63})",
    "0x10u",
    "1u u",
    "input_tokens // comment",
    "input_tokens + " * 64 + "1u",
    "int(input_tokens)",
]


@pytest.mark.parametrize("expression", READ)
def test_sums_and_products_are_read(expression):
    term = compile_arithmetic(expression)
    assert term is not None
    assert term(CostVariables(input_tokens=7, output_tokens=5)) == READ[expression]


OUT_OF_RANGE = [
    "0u * (input_tokens * 18446744073709551615u)",
    "(18446744073709551615u + 1u) * output_tokens",
    "(9223372036854775808u * 2u) * cached_input_tokens",
    "input_tokens * 18446744073709551615u",
    "18446744073709551615u + input_tokens",
]


@pytest.mark.parametrize("expression", OUT_OF_RANGE)
def test_a_step_that_leaves_the_range_is_left_to_an_engine(expression):
    """Also where what it gives counts for nothing."""
    term = compile_arithmetic(expression)
    assert term is not None
    with pytest.raises(OutOfRangeError):
        term(CostVariables(input_tokens=2, output_tokens=5))


@pytest.mark.parametrize("expression", LEFT_TO_AN_ENGINE)
def test_anything_else_is_left_to_an_engine(expression):
    assert compile_arithmetic(expression) is None


@pytest.mark.parametrize("engine", engines())
@given(TERMS, VARIABLES)
def test_the_engines_agree(engine, expression, variables):
    term = compile_arithmetic(expression)
    assert term is not None
    compiled = compiler(engine)(expression)
    try:
        value = term(variables)
    except OutOfRangeError:
        with pytest.raises(CELError):
            compiled.evaluate(variables)
    else:
        assert compiled.evaluate(variables) == ("uint", value)


TREES = st.recursive(
    st.sampled_from(COUNTERS) | st.sampled_from([0, 1, 2, 3, 2**32, 2**63, LARGE]),
    lambda inner: st.tuples(st.sampled_from("+-*/%"), inner, inner),
    max_leaves=10,
)
STEPS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__}


def spelled(tree):
    if isinstance(tree, tuple):
        operation, left, right = tree
        return f"({spelled(left)} {operation} {spelled(right)})"
    return tree if isinstance(tree, str) else f"{tree}u"


def stepwise(tree, variables):
    """The value, each step of which has to be within the range."""
    if isinstance(tree, str):
        return getattr(variables, tree)
    if isinstance(tree, int):
        return tree
    operation, left, right = tree
    first, second = stepwise(left, variables), stepwise(right, variables)
    if second == 0 and operation in "/%":
        raise OutOfRangeError
    result = STEPS[operation](first, second)
    if not 0 <= result <= LARGE:
        raise OutOfRangeError
    return result


def outcome(evaluate):
    try:
        return evaluate()
    except OutOfRangeError:
        return "out of range"


@settings(max_examples=1000)
@given(TREES, VARIABLES)
def test_sums_that_are_taken_at_once_are_those_of_their_steps(tree, variables):
    term = compile_arithmetic(spelled(tree))
    assert term is not None
    assert outcome(lambda: term(variables)) == outcome(lambda: stepwise(tree, variables))


def test_an_error_is_said_by_an_engine():
    program = compile_cost("total_tokens + output_tokens - input_tokens")
    assert program.evaluate(CostVariables(output_tokens=8, input_tokens=7)) == 1
    with pytest.raises(CELError, match=r"failed to evaluate CEL expression: .*overflow"):
        program.evaluate(CostVariables(input_tokens=7))
