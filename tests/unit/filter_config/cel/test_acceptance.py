"""One acceptance table for both engines: what is accepted with which value, refused when, and why.

Facts: contract, filter config 3.16 and 10.6; field reports on mixed numbers and on per-route rules.
"""

from __future__ import annotations

import concurrent.futures
from dataclasses import dataclass, field

import pytest

from filter_config.cel import CELError, CostVariables, Engine, compile_cost, cost_warnings, engines

ENGINES = list(Engine)

REQUEST = CostVariables(
    model="cool_model",
    backend="ns/b/route/r/rule/0/ref/0",
    route_name="ns/r",
    input_tokens=100,
    cached_input_tokens=30,
    cache_creation_input_tokens=5,
    output_tokens=10,
    total_tokens=110,
    reasoning_tokens=4,
)

PER_MODEL = (
    "model == 'cool_model' ? (input_tokens - cached_input_tokens - cache_creation_input_tokens) * output_tokens "
    ": total_tokens"
)


@dataclass(frozen=True)
class Accepted:
    expression: str
    cost: int
    variables: CostVariables = field(default_factory=lambda: REQUEST)


ACCEPTED = {
    # arithmetic on literals
    "int sum": Accepted("1 + 1", 2),
    "uint sum by conversion": Accepted("uint(1) + uint(1)", 2),
    "precedence": Accepted("1 + 2 * 3 - 4 / 2", 5),
    "parentheses": Accepted("(1 + 2) * 3", 9),
    "integer division truncates": Accepted("7u / 2u", 3),
    "negative division truncates towards zero": Accepted("10 + -7 / 2", 7),
    "modulo": Accepted("input_tokens % 7u", 2),
    "modulo has the sign of the dividend": Accepted("10 + -7 % 4", 7),
    "hexadecimal": Accepted("0x10u", 16),
    "leading zero is decimal": Accepted("010", 10),
    "capital suffix": Accepted("5U", 5),
    "largest uint": Accepted("18446744073709551615u", 18446744073709551615),
    "largest int": Accepted("9223372036854775807", 9223372036854775807),
    "negation twice": Accepted("- -5", 5),
    "minus without spaces": Accepted("5-3", 2),
    "minus before a literal": Accepted("input_tokens + 2u-1u", 101),
    "comment": Accepted("1 + 1 // two", 2),
    "several lines": Accepted("input_tokens\n+ output_tokens", 110),
    # counters
    "counter alone": Accepted("total_tokens", 110),
    "every counter": Accepted(
        "input_tokens + cached_input_tokens + cache_creation_input_tokens + output_tokens\n"
        "+ total_tokens + reasoning_tokens",
        259,
    ),
    "uint literal beside a counter": Accepted("input_tokens * 2u", 200),
    "cost with weights": Accepted("input_tokens * 3u + output_tokens * 15u", 450),
    "uncached input": Accepted("input_tokens - cached_input_tokens", 70),
    "contract: output and reasoning": Accepted(
        "output_tokens + reasoning_tokens",
        150,
        CostVariables(output_tokens=100, reasoning_tokens=50),
    ),
    "contract: per model, taken": Accepted(
        PER_MODEL,
        198,
        CostVariables(
            model="cool_model",
            input_tokens=200,
            cached_input_tokens=100,
            cache_creation_input_tokens=1,
            output_tokens=2,
            total_tokens=3,
        ),
    ),
    "contract: per model, not taken": Accepted(
        PER_MODEL,
        3,
        CostVariables(model="not_cool", input_tokens=200, cached_input_tokens=100, output_tokens=2, total_tokens=3),
    ),
    # conversions
    "discount by double": Accepted("uint(double(cached_input_tokens) * 0.15)", 4),
    "double to int truncates": Accepted("int(2.9)", 2),
    "negative double truncates towards zero": Accepted("10 + int(-2.9)", 8),
    "int of counter": Accepted("int(input_tokens) * 2", 200),
    "int difference": Accepted("int(input_tokens) - 5 > 0 ? int(input_tokens) - 5 : 0", 95),
    "number in a text": Accepted("uint('12') + 1u", 13),
    "text of a number": Accepted("string(input_tokens) == '100' ? 1 : 0", 1),
    "text of a double": Accepted("string(1.5) == '1.5' && string(1000000.0) == '1e+06' ? 1 : 0", 1),
    "text of a boolean": Accepted("string(true) == 'true' ? 1 : 0", 1),
    "boolean of a text": Accepted("bool('true') ? 1 : 0", 1),
    "conversion to the same type": Accepted("uint(uint(5u)) + uint(int(5))", 10),
    "double exponent": Accepted("uint(1e3) + uint(.5 * 4.0)", 1002),
    # conditions
    "guarded division": Accepted("output_tokens == 0u ? 0u : input_tokens / output_tokens", 10),
    "chain of conditions": Accepted("model == 'a' ? 1u : model == 'cool_model' ? 2u : 3u", 2),
    "condition in the middle": Accepted("(true ? 1 : 2) + 3", 4),
    "and, or, not": Accepted("!(model == 'a') && (input_tokens > 5u || false) ? 1 : 2", 1),
    "or absorbs an error on the left": Accepted("1 / 0 == 1 || true ? 1 : 2", 1),
    "or absorbs an error on the right": Accepted("true || 1u - 2u == 0u ? 1 : 2", 1),
    "and absorbs an error": Accepted("1 / 0 == 1 && false ? 1 : 2", 2),
    "chained equality": Accepted("1 == 1 == true ? 1 : 2", 1),
    "comparison of counters": Accepted("cached_input_tokens > input_tokens ? 0u : 7u", 7),
    "comparison of booleans": Accepted("false < true ? 1 : 2", 1),
    "division of doubles by zero": Accepted("1.0 / 0.0 > 1.0 ? 1 : 2", 1),
    # strings
    "contains": Accepted("model.contains('cool') ? 1u : 2u", 1),
    "startsWith": Accepted("route_name.startsWith('ns/') ? 1u : 2u", 1),
    "endsWith": Accepted("backend.endsWith('/0') ? 1u : 2u", 1),
    "matches is unanchored": Accepted("model.matches('ol_m') ? 1u : 2u", 1),
    "matches as a function": Accepted("matches(model, '^cool$') ? 1u : 2u", 2),
    "size of a text": Accepted("size(model) + model.size()", 20),
    "size counts code points": Accepted("'é😀'.size()", 2),
    "concatenation": Accepted("model + '-x' == 'cool_model-x' ? 1 : 2", 1),
    "order of texts": Accepted("model < 'd' ? 1 : 2", 1),
    "escapes": Accepted(r"""'\x41\101\u0041\t' == "AAA	" ? 1 : 2""", 1),
    "raw text": Accepted(r"r'a\n'.size()", 3),
    "triple quotes": Accepted("'''a'b'''.size()", 3),
    "leading dot": Accepted(".model == 'cool_model' ? 1 : 2", 1),
    # lists, maps, macros
    "in a list": Accepted("model in ['a', 'cool_model'] ? 1u : 2u", 1),
    "counter in a list": Accepted("input_tokens in [100u, 200u] ? 1 : 2", 1),
    "in an empty list": Accepted("model in [] ? 1 : 2", 2),
    "in a map": Accepted("model in {'cool_model': 1} ? 1 : 2", 1),
    "price table": Accepted(
        "model in {'cool_model': 3u} ? input_tokens * {'cool_model': 3u}[model] : total_tokens", 300
    ),
    "map field": Accepted("{'a': 5u}.a + {'a': {'b': 1u}}.a.b", 6),
    "has": Accepted("has({'a': 1}.a) && !has({'a': 1}.b) ? 1 : 2", 1),
    "list index": Accepted("[10, 20][1]", 20),
    "list concatenation": Accepted("size([1] + [2, 3])", 3),
    "list equality": Accepted("[1, 2] == [1, 2] && [1] != [2] ? 1 : 2", 1),
    "exists": Accepted("['a', 'cool'].exists(p, model.startsWith(p)) ? 1 : 2", 1),
    "exists absorbs an error": Accepted("[1, 2].exists(x, 1 / (x - 1) > 0) ? 1 : 2", 1),
    "all": Accepted("[1, 2].all(x, x > 0) ? 1 : 2", 1),
    "exists_one": Accepted("[1, 2].exists_one(x, x > 1) ? 1 : 2", 1),
    "map and filter": Accepted("[1, 2, 3].map(x, x * 2).filter(y, y > 2)[1]", 6),
    "map with a condition": Accepted("[1, 2, 3].map(x, x > 1, x * 2)[0]", 4),
    "macro over the keys of a map": Accepted("{'cool_model': 1}.exists(k, k == model) ? 1 : 2", 1),
    "macro variable hides a counter": Accepted("[7].map(model, model + 1)[0]", 8),
    "nested macros": Accepted("[[1, 2], [3]].map(l, l.filter(x, x > 1).size())[0]", 1),
}
REFUSED_AT_COMPILE = {
    "half an expression": ("1 +", "Syntax error"),
    "empty": (" ", "Syntax error"),
    "two expressions": ("1 2", "Syntax error"),
    "statement": ("1; 2", "Syntax error"),
    "number with a point and no digits": ("uint(5.)", "ERROR: <input>:1"),
    "underscore in a number": ("1_000", "Syntax error"),
    "unknown escape": (r"'\q' == 'q' ? 1 : 2", "Syntax error"),
    "optional syntax": ("[?1][0]", "ERROR: <input>:1"),
    "reserved word": ("package", "reserved identifier: package"),
    "uint too large": ("18446744073709551616u", "invalid uint literal"),
    "int too large": ("9223372036854775808", "invalid int literal"),
    "unknown variable": ("tokens", "undeclared reference to 'tokens' (in container '')"),
    "unknown function": ("max(1, 2)", "undeclared reference to 'max' (in container '')"),
    "unknown method": ("model.lowerAscii() == 'a' ? 1 : 2", "undeclared reference to 'lowerAscii' (in container '')"),
    "extension": ("math.greatest(1, 2)", "undeclared reference"),
    "counter times int": ("input_tokens * 2", "found no matching overload for '_*_' applied to '(uint, int)'"),
    "counter times double": (
        "(input_tokens - cached_input_tokens) + cached_input_tokens * 0.1 + output_tokens",
        "found no matching overload for '_*_' applied to '(uint, double)'",
    ),
    "int plus uint": ("1 + 1u", "found no matching overload for '_+_' applied to '(int, uint)'"),
    "int below double": ("10 < 4.0 ? 1 : 2", "found no matching overload for '_<_' applied to '(int, double)'"),
    "int below uint": ("1 < input_tokens ? 1 : 2", "found no matching overload for '_<_' applied to '(int, uint)'"),
    "int equals uint": ("input_tokens == 0 ? 1 : 2", "found no matching overload for '_==_' applied to '(uint, int)'"),
    "text equals null": ("model == null ? 1 : 2", "found no matching overload for '_==_'"),
    "text plus number": ("'a' + 1", "found no matching overload for '_+_' applied to '(string, int)'"),
    "negative counter": ("-input_tokens", "found no matching overload for '-_' applied to '(uint)'"),
    "negative uint literal": ("-1u", "found no matching overload for '-_' applied to '(uint)'"),
    "branches of two types": (
        "model == 'x' ? 1 : 2u",
        "found no matching overload for '_?_:_' applied to '(bool, int, uint)'",
    ),
    "branch of null": ("true ? 1 : null", "found no matching overload for '_?_:_'"),
    "condition is no boolean": (
        "model ? 1 : 2",
        "found no matching overload for '_?_:_' applied to '(string, int, int)'",
    ),
    "and of a number": ("true && 1 ? 1 : 2", "found no matching overload for '_&&_' applied to '(bool, int)'"),
    "or of a number": ("1 || true ? 1 : 2", "found no matching overload for '_||_'"),
    "not of a number": ("!1 ? 1 : 2", "found no matching overload for '!_' applied to '(int)'"),
    "modulo of doubles": ("uint(5.0 % 3.0)", "found no matching overload for '_%_' applied to '(double, double)'"),
    "chained comparison": ("1 < 2 < 3 ? 1 : 2", "found no matching overload for '_<_' applied to '(bool, int)'"),
    "int in a list of uint": (
        "1 in [1u] ? 1 : 2",
        "found no matching overload for '@in' applied to '(int, list(uint))'",
    ),
    "list index by uint": ("[1][0u]", "found no matching overload for '_[_]' applied to '(list(int), uint)'"),
    "index of a text": ("size(model[0])", "found no matching overload for '_[_]' applied to '(string, int)'"),
    "field of a number": (
        "input_tokens.foo",
        "expression of type 'uint' cannot be the operand of a select operation",
    ),
    "conversion of a boolean": ("int(true)", "found no matching overload for 'int' applied to '(bool)'"),
    "size of a number": ("size(1)", "found no matching overload for 'size' applied to '(int)'"),
    "contains a number": ("model.contains(1) ? 1 : 2", "found no matching overload for 'contains'"),
    "has of a name": ("has(model) ? 1 : 2", "has() argument must be a field selection"),
    "macro with too many arguments": ("[1].all(x, y, x > 0) ? 1 : 2", "undeclared reference"),
}

REFUSED_AT_DRY_RUN = {
    "uint underflow": ("uint(1)-uint(1200)", "failed to evaluate CEL expression: unsigned integer overflow"),
    "underflow with zero counters": (
        "input_tokens - 1u",
        "failed to evaluate CEL expression: unsigned integer overflow",
    ),
    "uint overflow": (
        "18446744073709551615u + 1u",
        "failed to evaluate CEL expression: unsigned integer overflow",
    ),
    "int overflow": ("9223372036854775807 + 1", "failed to evaluate CEL expression: integer overflow"),
    "uint of a negative int": ("uint(-1)", "failed to evaluate CEL expression: unsigned integer overflow"),
    "uint of a negative double": ("uint(-1.0)", "failed to evaluate CEL expression: unsigned integer overflow"),
    "int of an infinite double": ("int(1.0 / 0.0)", "failed to evaluate CEL expression: integer overflow"),
    "unguarded division": ("input_tokens / output_tokens", "failed to evaluate CEL expression: division by zero"),
    "unguarded modulo": ("input_tokens % output_tokens", "failed to evaluate CEL expression: modulus by zero"),
    "no number in a text": ("int('x')", "failed to evaluate CEL expression: cannot convert string to int"),
    "invalid pattern": ("model.matches('(') ? 1 : 2", "failed to evaluate CEL expression: invalid regular expression"),
    "index beyond the list": ("[1, 2][5]", "failed to evaluate CEL expression: "),
    "key not in the map": ("{'a': 5u}[model]", "failed to evaluate CEL expression: "),
    "negative int": ("-1", "CEL expression result is negative (-1)"),
    "double": ("1.5", "CEL expression result is not an integer, got double"),
    "double of a counter": ("double(input_tokens) * 0.5", "CEL expression result is not an integer, got double"),
    "boolean": ("input_tokens > 5u", "CEL expression result is not an integer, got bool"),
    "text": ("model", "CEL expression result is not an integer, got string"),
    "null": ("null", "CEL expression result is not an integer, got null_type"),
    "list": ("[1]", "CEL expression result is not an integer, got list"),
    "map": ("{'a': 1}", "CEL expression result is not an integer, got map"),
}

FAILS_AT_EVALUATION = {
    "contract: negative difference": (
        "int(input_tokens) - int(output_tokens)",
        CostVariables(input_tokens=100, output_tokens=2000),
        "CEL expression result is negative (-1900)",
    ),
    "contract: uint underflow": (
        "input_tokens - output_tokens",
        CostVariables(input_tokens=100, output_tokens=2000),
        "failed to evaluate CEL expression: unsigned integer overflow",
    ),
    "more cached than input": (
        "(input_tokens - cached_input_tokens) + output_tokens",
        CostVariables(input_tokens=1, cached_input_tokens=2),
        "failed to evaluate CEL expression: unsigned integer overflow",
    ),
    "uint product overflows": (
        "input_tokens * output_tokens",
        CostVariables(input_tokens=2**40, output_tokens=2**40),
        "failed to evaluate CEL expression: unsigned integer overflow",
    ),
    "counter beyond int": (
        "int(input_tokens)",
        CostVariables(input_tokens=2**63),
        "failed to evaluate CEL expression: integer overflow",
    ),
    "division in a branch": (
        "model == 'dummy' ? 1u : input_tokens / output_tokens",
        CostVariables(model="other"),
        "failed to evaluate CEL expression: division by zero",
    ),
    "and of two failures": (
        "model == 'dummy' || (1u / input_tokens > 0u && 1u / output_tokens > 0u) ? 1 : 2",
        CostVariables(model="other"),
        "failed to evaluate CEL expression: division by zero",
    ),
}


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


def test_both_engines_are_installed_and_the_default_is_the_first():
    assert engines() == (Engine.CEL_EXPR_PYTHON, Engine.CEL_PYTHON)


def test_the_table_is_large_enough():
    tables = (ACCEPTED, REFUSED_AT_COMPILE, REFUSED_AT_DRY_RUN, FAILS_AT_EVALUATION)
    assert sum(map(len, tables)) >= 60


@pytest.mark.parametrize("case", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(engine, case):
    program = compile_cost(case.expression, engine=engine)
    assert program.expression == case.expression
    cost = program.evaluate(case.variables)
    assert cost == case.cost
    assert type(cost) is int


@pytest.mark.parametrize(("expression", "reason"), REFUSED_AT_COMPILE.values(), ids=REFUSED_AT_COMPILE)
def test_refused_at_compile(engine, expression, reason):
    with pytest.raises(CELError) as refused:
        compile_cost(expression, engine=engine)
    text = str(refused.value)
    assert text.startswith("cannot compile CEL expression: ERROR: <input>:")
    # The engines print a method's target in two ways, so only the operators' operands are compared.
    assert reason in text
    assert "\n" not in text


@pytest.mark.parametrize(("expression", "reason"), REFUSED_AT_DRY_RUN.values(), ids=REFUSED_AT_DRY_RUN)
def test_refused_at_dry_run(engine, expression, reason):
    with pytest.raises(CELError) as refused:
        compile_cost(expression, engine=engine)
    assert str(refused.value).startswith(f"failed to evaluate CEL expression: {reason}")


@pytest.mark.parametrize(("expression", "variables", "reason"), FAILS_AT_EVALUATION.values(), ids=FAILS_AT_EVALUATION)
def test_fails_at_evaluation(engine, expression, variables, reason):
    program = compile_cost(expression, engine=engine)
    with pytest.raises(CELError) as failed:
        program.evaluate(variables)
    assert str(failed.value) == reason


def test_a_program_is_compiled_once(engine):
    assert compile_cost("1 + 41", engine=engine) is compile_cost("1 + 41", engine=engine)


def test_concurrent_compilation_and_evaluation_do_not_interfere(engine):
    def work(number: int) -> int:
        program = compile_cost(f"input_tokens * 2u + uint({number}) - uint({number})", engine=engine)
        return program.evaluate(CostVariables(input_tokens=100))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(100))) == {200}


OVERFLOW = "failed to evaluate CEL expression: unsigned integer overflow"
WARNED = {
    "underflow when more is cached than sent": (
        "input_tokens - cached_input_tokens",
        (f"the expression fails for more cached_input_tokens than input_tokens: {OVERFLOW}",),
    ),
    "overflow for large counters": (
        "input_tokens * output_tokens * total_tokens",
        (f"the expression fails for a billion tokens of each kind: {OVERFLOW}",),
    ),
    "negative for an ordinary request": (
        "int(cached_input_tokens) - int(input_tokens)",
        ("the expression fails for an ordinary request: CEL expression result is negative (-800)",),
    ),
    "nothing": ("input_tokens + output_tokens", ()),
}


@pytest.mark.parametrize(("expression", "warnings"), WARNED.values(), ids=WARNED)
def test_more_samples_only_warn(engine, expression, warnings):
    assert cost_warnings(expression, engine=engine) == warnings


def test_warnings_of_a_refused_expression_are_its_refusal(engine):
    with pytest.raises(CELError, match="cannot compile CEL expression"):
        cost_warnings("1 +", engine=engine)
