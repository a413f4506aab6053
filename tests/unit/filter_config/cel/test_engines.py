"""The choice of the engine, what the second engine leaves out, and that both agree on whatever is generated."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config.cel import CELError, CostVariables, Engine, compile_cost, costs, engine
from filter_config.cel.engine import COUNTERS, STRING_VARIABLES, VARIABLES, TooDeepError, compiler


def price_table(models: int) -> str:
    """A rule as people write it: one branch per model."""
    return "".join(f"model == 'm{number}' ? input_tokens * {number}u : " for number in range(models)) + "total_tokens"


@pytest.fixture
def installed(monkeypatch):
    def install(*names: Engine) -> None:
        monkeypatch.setattr(costs, "engines", lambda: names)
        costs._compile_cost.cache_clear()

    yield install
    costs._compile_cost.cache_clear()


def test_a_table_of_prices_deeper_than_the_default_engine_reads_is_accepted():
    program = compile_cost(price_table(100))
    assert program.evaluate(CostVariables(model="m70", input_tokens=3)) == 210
    assert program.evaluate(CostVariables(model="other", total_tokens=5)) == 5


def test_the_default_engine_alone_refuses_it_with_a_reason(installed):
    with pytest.raises(CELError, match="cannot compile CEL expression: expression recursion limit exceeded"):
        compile_cost(price_table(100), engine=Engine.CEL_EXPR_PYTHON)
    installed(Engine.CEL_EXPR_PYTHON)
    with pytest.raises(CELError, match="recursion limit exceeded"):
        compile_cost(price_table(100))


@pytest.mark.parametrize("levels", [249, 252])
@pytest.mark.parametrize("shape", ["chain", "sum", "negation"])
def test_the_second_engine_reads_as_deep_as_the_peer(levels, shape):
    expression = {
        "chain": price_table(levels),
        "sum": "+".join(["0"] * levels),
        "negation": "-(" * levels + "0" + ")" * levels,
    }[shape]
    if levels < 250:
        assert compile_cost(expression, engine=Engine.CEL_PYTHON).evaluate(CostVariables()) == 0
    else:
        with pytest.raises(TooDeepError):
            compiler(Engine.CEL_PYTHON)(expression)


def test_parentheses_alone_are_no_depth():
    assert compile_cost("(" * 300 + "7" + ")" * 300, engine=Engine.CEL_PYTHON).evaluate(CostVariables()) == 7


def test_where_the_default_is_not_installed_the_other_is_used(installed):
    installed(Engine.CEL_PYTHON)
    assert compile_cost("input_tokens * 2u").evaluate(CostVariables(input_tokens=4)) == 8


def test_without_an_engine_every_expression_is_refused(installed):
    installed()
    with pytest.raises(CELError, match="no CEL engine is installed"):
        compile_cost("1")


def test_engines_are_those_that_can_be_imported(monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda name: None if name == "cel_expr_python" else object())
    engine.engines.cache_clear()
    try:
        assert engine.engines() == (Engine.CEL_PYTHON,)
    finally:
        engine.engines.cache_clear()


def test_an_expression_has_a_greatest_length():
    with pytest.raises(CELError, match="longer than 32768 characters"):
        compile_cost("1" + " " * 40000)


def test_the_mapping_holds_every_variable():
    assert tuple(CostVariables().mapping()) == VARIABLES


def test_a_program_shows_its_expression():
    assert repr(compile_cost("1 + 1")) == "CostProgram('1 + 1')"


def test_a_counter_out_of_range_is_a_failed_evaluation():
    with pytest.raises(CELError, match="failed to evaluate CEL expression: "):
        compile_cost("input_tokens", engine=Engine.CEL_EXPR_PYTHON).evaluate(CostVariables(input_tokens=-1))


def test_a_dynamic_result_is_judged_at_evaluation():
    assert compile_cost("dyn(input_tokens)", engine=Engine.CEL_EXPR_PYTHON).evaluate(CostVariables(input_tokens=2)) == 2
    with pytest.raises(CELError, match="not an integer, got double"):
        compile_cost("dyn(1.5)", engine=Engine.CEL_EXPR_PYTHON)


def test_null_results_take_no_reference_away():
    """The C++ engine's reader of null gives back a reference to None that it never took."""
    compiled = compiler(Engine.CEL_EXPR_PYTHON)("null")
    before = sys.getrefcount(None)
    for _ in range(2000):
        assert compiled.evaluate(CostVariables()) == ("null_type", None)
    assert sys.getrefcount(None) > before - 1000


SIGNS = {"--input_tokens": 4, "!!true ? 1 : 2": 1, "!!!true ? 1 : 2": 2, "- - 1": 1, "---1 + 3": 2}


@pytest.mark.parametrize(("expression", "cost"), SIGNS.items())
@pytest.mark.parametrize("name", list(Engine))
def test_an_even_number_of_signs_is_none(name, expression, cost):
    assert compile_cost(expression, engine=name).evaluate(CostVariables(input_tokens=4)) == cost


# --- what the second engine leaves out: accepted by the default, refused there at load ---

LEFT_OUT = {
    "dyn": "dyn(1) == 1u ? 1 : 2",
    "type": "type(1) == type(2) ? 1 : 2",
    "name of a type": "type(1) == int ? 1 : 2",
    "bytes": "b'abc' == bytes('abc') ? 1 : 2",
    "duration": "duration('1s') > duration('0s') ? 1 : 2",
    "timestamp": "timestamp('2020-01-01T00:00:00Z').getFullYear()",
    "message": "google.protobuf.UInt64Value{value: 5u}",
    "mixed list": "model in [1, 'a'] ? 1u : 2u",
    "mixed map": "{'a': 1, 'b': 2u}['a']",
    "trailing comma": "[1, 2,][0]",
}


@pytest.mark.parametrize("expression", LEFT_OUT.values(), ids=LEFT_OUT)
def test_left_out_of_the_second_engine(expression):
    compile_cost(expression, engine=Engine.CEL_EXPR_PYTHON)
    with pytest.raises(CELError, match="cannot compile CEL expression: ERROR: <input>:1:"):
        compile_cost(expression, engine=Engine.CEL_PYTHON)


REFUSED_BY_BOTH = {
    "map key of type double": "{1.0: 2}[1.0]",
    "macro over a number": "(1).all(x, true) ? 1 : 2",
    "macro variable that is no name": "[1].all(1, true) ? 1 : 2",
    "predicate that is no boolean": "[1].all(x, x) ? 1 : 2",
    "filter that is no boolean": "[1].filter(x, x)[0]",
    "lists of two types joined": "size([1] + [1u])",
    "map indexed by another type": "{'a': 1}[1]",
    "surrogate": r"'\ud800' == '?' ? 1 : 2",
    "octal beyond a byte": r"'\400' == '?' ? 1 : 2",
    "keyword as a field": "{'in': 1}.in",
    "digits without end": "1" * 60,
    "hexadecimal without digits": "0x",
    "signs of two kinds": "-!true ? 1 : 2",
    "sign before a parenthesis": "-(-input_tokens)",
}


@pytest.mark.parametrize("expression", REFUSED_BY_BOTH.values(), ids=REFUSED_BY_BOTH)
@pytest.mark.parametrize("name", list(Engine))
def test_refused_by_both(name, expression):
    with pytest.raises(CELError):
        compile_cost(expression, engine=name)


EVALUATION = {
    "duplicate key": "{'a': 1, 'a': 2}['a']",
    "smallest int negated": "-(-9223372036854775807 - 1)",
    "smallest int divided": "(-9223372036854775807 - 1) / -1",
    "smallest int modulo": "(-9223372036854775807 - 1) % -1",
    "uint of a double out of range": "uint(1e30)",
    "uint of no number": "uint(0.0 / 0.0)",
    "int of a uint out of range": "int(9223372036854775808u)",
    "uint of a negative text": "uint('-1')",
    "int of a long text": "int('9223372036854775808')",
    "double of a text": "uint(double('x'))",
    "boolean of a text": "bool('x') ? 1 : 2",
    "field that is not there": "{'a': 1}.b",
    "error in one branch of a comparison": "1 / 0 == 1 && true ? 1 : 2",
    "exists without a deciding element": "[1, 2].exists(x, 1 / (x - 1) > 5) ? 1 : 2",
}


@pytest.mark.parametrize("expression", EVALUATION.values(), ids=EVALUATION)
@pytest.mark.parametrize("name", list(Engine))
def test_evaluation_fails_in_both(name, expression):
    compiled = compiler(name)(expression)
    with pytest.raises(CELError):
        compiled.evaluate(CostVariables())


# --- differential ---

LITERALS = {
    "int": st.sampled_from(["0", "1", "2", "7", "-3", "9223372036854775807", "0x1f"]),
    "uint": st.sampled_from(["0u", "1u", "5u", "18446744073709551615u", *COUNTERS]),
    "double": st.sampled_from(["0.0", "1.5", "-2.5", "1e19", "0.1"]),
    "bool": st.sampled_from(["true", "false"]),
    "string": st.sampled_from(["'a'", "''", "'dummy'", "'12'", *STRING_VARIABLES]),
}


def expressions(kind: str, depth: int = 2) -> st.SearchStrategy[str]:
    """Well-typed expressions of a type, and at times ill-typed ones."""
    leaf = LITERALS[kind]
    if depth == 0:
        return leaf
    below = {name: expressions(name, depth - 1) for name in LITERALS}
    operators = {
        "int": "+-*/%",
        "uint": "+-*/%",
        "double": "+-*/",
        "string": "+",
    }
    options = [leaf, st.builds("({} ? {} : {})".format, below["bool"], below[kind], below[kind])]
    if kind in operators:
        options.append(st.builds("({} {} {})".format, below[kind], st.sampled_from(operators[kind]), below[kind]))
    if kind == "bool":
        compared = st.sampled_from(["int", "uint", "string", "double"])
        comparison = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
        options += [
            compared.flatmap(lambda name: st.builds("({} {} {})".format, below[name], comparison, below[name])),
            st.builds("({} {} {})".format, below["bool"], st.sampled_from(["&&", "||"]), below["bool"]),
            st.builds("!{}".format, below["bool"]),
            st.builds(
                "{}.{}({})".format, below["string"], st.sampled_from(["contains", "startsWith"]), below["string"]
            ),
            st.builds("({} in [{}, {}])".format, below["uint"], below["uint"], below["uint"]),
        ]
    if kind in ("int", "uint"):
        options.append(st.builds(f"{kind}({{}})".format, below["int"] | below["uint"] | below["double"]))
        options.append(st.builds("({} + {})".format, below[kind], below["int"]))
    if kind == "int":
        options.append(st.builds("size({})".format, below["string"]))
    if kind == "double":
        options.append(st.builds("double({})".format, below["int"] | below["uint"]))
    if kind == "string":
        options.append(st.builds("string({})".format, below["int"] | below["uint"] | below["bool"]))
    return st.one_of(options)


def outcome(name: Engine, expression: str, variables: CostVariables) -> tuple[str, object]:
    try:
        compiled = compiler(name)(expression)
    except TooDeepError:
        return ("too deep", None)
    except CELError:
        return ("refused", None)
    try:
        kind, value = compiled.evaluate(variables)
    except CELError as error:
        return ("failed", str(error))
    # A NaN is not equal to itself.
    return (kind, repr(value) if isinstance(value, float) else value)


@settings(max_examples=150, deadline=None)
@given(
    expression=st.sampled_from(["int", "uint"]).flatmap(expressions),
    variables=st.builds(
        CostVariables,
        model=st.sampled_from(["a", "dummy", ""]),
        input_tokens=st.integers(0, 2**64 - 1),
        cached_input_tokens=st.integers(0, 100),
        output_tokens=st.integers(0, 2**40),
        total_tokens=st.integers(0, 10),
    ),
)
def test_both_engines_agree(expression, variables):
    first = outcome(Engine.CEL_EXPR_PYTHON, expression, variables)
    second = outcome(Engine.CEL_PYTHON, expression, variables)
    if first[0] != "too deep":
        assert second == first


TOKENS = st.sampled_from(
    [
        *"()[]{}+-*/%?:.,!<>=&|",
        *("==", "&&", "||", " in ", "//", "\n", '"', "é", "0x"),
        *("1", "2u", "1.5", "'a'", "'\\x'", "b'a'", "true", "null"),
        *("model", "input_tokens", "x", "size", "map", "has", "all"),
    ],
)


@settings(max_examples=200, deadline=None)
@given(text=st.lists(TOKENS, max_size=12).map("".join) | st.text(max_size=12))
@pytest.mark.parametrize("name", list(Engine))
def test_any_text_is_an_expression_or_a_reason(name, text):
    try:
        program = compile_cost(text, engine=name)
    except CELError as error:
        reason = str(error)
    else:
        reason = f"accepted: {program.evaluate(CostVariables(model='dummy'))}"
    assert reason
