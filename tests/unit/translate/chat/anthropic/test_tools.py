"""Tools for Claude (contract, chat 11.3)."""

import json

import pytest

from extproc.endpoints import chat_request as chat
from extproc.endpoints.chat_completions import ChatCompletions
from extproc.errors import ClientError, UnprocessableRequest
from extproc.translate.chat.anthropic.tools import convert_tools
from tests.support.golden import make_translator
from tests.unit.translate.chat.anthropic.attempts import ask, sent

FUNCTION = {"type": "function", "function": {"name": "f"}}


def function(**members):
    return {"type": "function", "function": {"name": "f", **members}}


def tool(**members):
    return sent({"tools": [function(**members)]})["tools"][0]


def schema_text(parameters):
    """The input schema as it is sent, for parameters as they are spelled."""
    request = (
        '{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":'
        f'{{"name":"f","parameters":{parameters}}}}}]}}'
    )
    parsed = ChatCompletions().parse(request.encode(), content_type="application/json", metering=False)
    body = make_translator("GCPAnthropic", {}).request(parsed, query="", force=False).body.decode()
    return body.split('"input_schema":', 1)[1].split(',"name":"f"', 1)[0]


def refusal(request):
    with pytest.raises(UnprocessableRequest) as caught:
        ask("GCPAnthropic", request)
    return str(caught.value)


class TestTools:
    def test_all_members(self):
        got = tool(description="d", strict=True, parameters={}, cache_control={"type": "ephemeral", "ttl": "1h"})
        assert json.dumps(got) == (
            '{"input_schema": {"type": "object"}, "name": "f", "description": "d", "strict": true, '
            '"cache_control": {"ttl": "1h", "type": "ephemeral"}}'
        )

    def test_strict_is_said_only_when_it_is_meant(self):
        assert "strict" not in tool(strict=False)
        assert "strict" not in tool(strict=None)

    @pytest.mark.parametrize(
        ("parameters", "expected"),
        [
            ("null", '{"properties":{},"type":"object"}'),
            ("{}", '{"type":"object"}'),
            ('{"type":["object","null"]}', '{"type":"object"}'),
            ('{"properties":null,"required":null}', '{"type":"object"}'),
            ('{"properties":[],"required":["a",1,null,"b"]}', '{"required":["a","b"],"type":"object"}'),
            (
                '{"$defs":{"P":{"$ref":"#/$defs/P"}},"title":"T","type":"object","properties":{"b":{"minimum":1.0},"a":{}}}',
                '{"properties":{"a":{},"b":{"minimum":1.0}},"type":"object","$defs":{"P":{"$ref":"#/$defs/P"}},"title":"T"}',
            ),
        ],
    )
    def test_schemas(self, parameters, expected):
        assert schema_text(parameters) == expected

    def test_a_function_without_parameters_has_the_schema_of_an_empty_object(self):
        assert tool()["input_schema"] == {"properties": {}, "type": "object"}

    @pytest.mark.parametrize("parameters", ["text", [], 7, True, {"type": "string"}])
    def test_parameters_that_are_no_object_are_refused(self, parameters):
        assert "tools[0].function.parameters" in refusal({"tools": [function(parameters=parameters)]})

    def test_parameters_nested_without_end_are_refused(self):
        deep = '{"a":' * 100_000 + "1" + "}" * 100_000
        with pytest.raises(ClientError):
            schema_text(deep)

    @pytest.mark.parametrize("kind", ["retrieval", "google_search", "enterprise_search", "image_generation", ""])
    def test_tools_of_other_types_are_refused(self, kind):
        assert "tools" in refusal({"tools": [FUNCTION, {"type": kind}]})

    def test_a_tool_without_a_function_or_a_name_is_refused(self):
        message = refusal({"tools": [{"type": "function"}]})
        assert "tool of type 'function' is missing function definition" in message
        assert "tools[0].function.name" in refusal({"tools": [{"type": "function", "function": {}}]})

    @pytest.mark.parametrize("name", ["", "server.tool", "a/b", "a b", "ä", "a\n", "a" * 129])
    def test_a_name_that_claude_does_not_take_is_refused(self, name):
        assert "tools[1].function.name" in refusal({"tools": [FUNCTION, function(name=name)]})

    def test_two_tools_of_one_name_are_refused(self):
        assert "tools[1].function.name" in refusal({"tools": [FUNCTION, FUNCTION]})

    def test_a_tool_of_another_type_is_never_taken_for_a_function(self):
        with pytest.raises(UnprocessableRequest, match="unsupported tool type: retrieval"):
            convert_tools([chat.Tool(type="retrieval", function=chat.Function(name="f"))])

    def test_without_tools_nothing_is_said_of_them(self):
        for none in ([], None):
            assert sent({"tools": none, "tool_choice": "required", "parallel_tool_calls": False}) == sent({})


class TestToolChoice:
    @pytest.mark.parametrize("parallel", [None, True, False])
    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("auto", {"type": "auto"}),
            ("required", {"type": "any"}),
            ("any", {"type": "any"}),
            ({"type": "function", "function": {"name": "f"}}, {"name": "f", "type": "tool"}),
        ],
    )
    def test_choices(self, choice, expected, parallel):
        request = {"tools": [FUNCTION], "tool_choice": choice, "parallel_tool_calls": parallel}
        assert sent(request)["tool_choice"] == {**expected, "disable_parallel_tool_use": parallel is False}

    def test_none_keeps_the_tools(self):
        body = sent({"tools": [FUNCTION], "tool_choice": "none", "parallel_tool_calls": False})
        assert body["tool_choice"] == {"type": "none"}
        assert body["tools"]

    @pytest.mark.parametrize(
        ("parallel", "expected"),
        [(False, {"disable_parallel_tool_use": True, "type": "auto"}), (True, None), (None, None)],
    )
    def test_one_call_at_a_time_needs_no_choice(self, parallel, expected):
        assert sent({"tools": [FUNCTION], "parallel_tool_calls": parallel}).get("tool_choice") == expected

    @pytest.mark.parametrize(
        "choice",
        [
            "function",
            "f",
            "",
            {},
            {"type": "function"},
            {"type": "function", "function": {"name": ""}},
            {"type": "function", "function": {"name": "g"}},
            {"type": "auto", "function": {"name": "f"}},
        ],
    )
    def test_other_choices_are_refused(self, choice):
        assert "tool_choice" in refusal({"tools": [FUNCTION], "tool_choice": choice})
