"""Requests to Claude, but for messages and tools (contract, chat 11.1, 12, 13)."""

import json

import pytest

from extproc.endpoints.chat_completions import ChatCompletions
from extproc.errors import MalformedRequest, UnprocessableRequest
from tests.support.golden import make_translator
from tests.unit.translate.chat.anthropic.attempts import SCHEMAS, ask, sent

SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "object"}}}


def refusal(request, schema="GCPAnthropic", **backend):
    with pytest.raises(UnprocessableRequest) as caught:
        ask(schema, request, **backend)
    return str(caught.value)


class TestPlaces:
    @pytest.mark.parametrize(
        ("schema", "stream", "path"),
        [
            ("Anthropic", False, "/v1/messages"),
            ("Anthropic", True, "/v1/messages"),
            ("GCPAnthropic", False, "publishers/anthropic/models/claude-x:rawPredict"),
            ("GCPAnthropic", True, "publishers/anthropic/models/claude-x:streamRawPredict"),
            ("AWSAnthropic", False, "/model/claude-x/invoke"),
            ("AWSAnthropic", True, "/model/claude-x/invoke-with-response-stream"),
        ],
    )
    def test_the_path_says_what_is_asked_of_which_model(self, schema, stream, path):
        assert ask(schema, {"stream": stream})[1].path == path

    @pytest.mark.parametrize("prefix", ["", "v1", "/v1/"])
    def test_the_first_party_prefix_is_v1_unless_given(self, prefix):
        assert ask("Anthropic", {}, prefix=prefix)[1].path == "/v1/messages"
        assert ask("Anthropic", {}, prefix="/proxy/claude")[1].path == "/proxy/claude/messages"

    def test_an_override_is_the_model_that_is_asked(self):
        model = "arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.anthropic.claude-v1:0"
        escaped = "arn:aws:bedrock:eu-west-1:111122223333:inference-profile%2Feu.anthropic.claude-v1:0"
        assert ask("AWSAnthropic", {}, model_override=model)[1].path == f"/model/{escaped}/invoke"
        path = ask("GCPAnthropic", {}, model_override="claude-y@20250101")[1].path
        assert path == "publishers/anthropic/models/claude-y@20250101:rawPredict"
        assert sent({}, "Anthropic", model_override="claude-y")["model"] == "claude-y"

    def test_only_the_first_party_has_its_version_in_a_header(self):
        assert ask("Anthropic", {})[1].headers == (("anthropic-version", "2023-06-01"),)
        assert ask("Anthropic", {}, version="2026-10-21")[1].headers == (("anthropic-version", "2026-10-21"),)
        assert ask("GCPAnthropic", {})[1].headers == ask("AWSAnthropic", {})[1].headers == ()

    @pytest.mark.parametrize(
        ("schema", "default", "other"),
        [
            ("GCPAnthropic", "vertex-2023-10-16", "vertex-2030-01-01"),
            ("AWSAnthropic", "bedrock-2023-05-31", "bedrock-2030-01-01"),
        ],
    )
    def test_the_others_have_it_at_the_end_of_the_body(self, schema, default, other):
        assert list(sent({}, schema).items())[-1] == ("anthropic_version", default)
        assert sent({}, schema, version=other)["anthropic_version"] == other

    def test_a_body_has_its_members_in_the_order_of_the_contract(self):
        request = {
            "model": "claude-opus-4-6",
            "max_completion_tokens": 50,
            "temperature": 0.5,
            "stop": "X",
            "reasoning_effort": "low",
            "messages": [
                {"role": "system", "content": "S"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "T"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}},
                    ],
                },
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "parameters": {
                            "type": "object",
                            "properties": {"a": {"type": "string"}},
                            "required": ["a"],
                            "additionalProperties": False,
                        },
                    },
                }
            ],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        }
        assert ask("GCPAnthropic", request)[1].body == (
            b'{"max_tokens":50,'
            b'"messages":[{"content":[{"text":"T","type":"text"},'
            b'{"source":{"data":"AAEC","media_type":"image/png","type":"base64"},"type":"image"}],"role":"user"}],'
            b'"temperature":0.5,"output_config":{"effort":"low"},"stop_sequences":["X"],'
            b'"system":[{"text":"S","type":"text"}],"tool_choice":{"disable_parallel_tool_use":true,"type":"any"},'
            b'"tools":[{"input_schema":{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object",'
            b'"additionalProperties":false},"name":"f","description":""}],"anthropic_version":"vertex-2023-10-16"}'
        )

    def test_a_stream_is_asked_for_where_the_path_does_not_say_it_all(self):
        assert [sent({"stream": True}, schema).get("stream") for schema in SCHEMAS] == [True, True, None]
        assert list(sent({"stream": True}))[-2:] == ["stream", "anthropic_version"]

    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_a_request_without_a_model_is_refused(self, schema):
        assert "model is required" in refusal({"model": ""}, schema)


class TestLimits:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            pytest.param({}, 4096, id="BR-72: without a limit there is a default"),
            pytest.param({"max_tokens": 5}, 5, id="max_tokens"),
            pytest.param({"max_completion_tokens": 7}, 7, id="max_completion_tokens"),
            pytest.param({"max_completion_tokens": 7, "max_tokens": 5}, 7, id="the newer one counts"),
            pytest.param({"max_completion_tokens": 0, "max_tokens": 5}, 0, id="even if it is zero"),
            pytest.param(
                {"thinking": {"type": "enabled", "budget_tokens": 9000}}, 13096, id="room beside the thoughts"
            ),
            pytest.param({"thinking": {"type": "adaptive"}}, 4096, id="thoughts without a budget"),
        ],
    )
    def test_there_is_one_limit(self, given, expected):
        assert sent(given)["max_tokens"] == expected

    @pytest.mark.parametrize("member", ["max_tokens", "max_completion_tokens"])
    @pytest.mark.parametrize("limit", [2048, 2047, 0])
    def test_a_budget_that_leaves_no_room_is_refused(self, member, limit):
        request = {member: limit, "thinking": {"type": "enabled", "budget_tokens": 2048}}
        assert f"thinking.budget_tokens (2048) must be less than {member} ({limit})" in refusal(request)


class TestSampling:
    @pytest.mark.parametrize("value", ["0", "1", "0.0", "1.0", "0.25"])
    def test_numbers_are_written_plainly(self, value):
        body = f'{{"temperature":{value},"top_p":{value}}}'
        plain = value.removesuffix(".0")
        raw = ask("GCPAnthropic", json.loads(body))[1].body
        assert f'"temperature":{plain},"top_p":{plain},'.encode() in raw

    @pytest.mark.parametrize(("value", "shown"), [(2.0, "2.00"), (2.5, "2.50"), (-2.5, "-2.50"), (1.001, "1.00")])
    def test_a_temperature_that_claude_does_not_have_is_refused(self, value, shown):
        expected = (
            f"invalid request body: temperature {shown} is not supported by Anthropic (must be between 0.0 and 1.0)"
        )
        assert refusal({"temperature": value}) == expected

    @pytest.mark.parametrize("value", [1.5, -0.1])
    def test_so_is_a_share_of_more_than_all(self, value):
        assert refusal({"top_p": value}).startswith("invalid request body: top_p ")

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("x", ["x"]),
            (["a", "b"], ["a", "b"]),
            (["a", ""], ["a"]),
            ([1, 2.50], ["1", "2.5"]),
            ([], None),
            ("", None),
            (None, None),
        ],
    )
    def test_stop_sequences(self, given, expected):
        assert sent({"stop": given}).get("stop_sequences") == expected

    @pytest.mark.parametrize("given", ["\n", ["a", " \t"]])
    def test_a_stop_sequence_of_white_space_is_refused(self, given):
        assert "stop: " in refusal({"stop": given})


class TestThinking:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"type": "enabled", "budget_tokens": 1024}, '{"budget_tokens":1024,"type":"enabled"}'),
            (
                {"type": "enabled", "budget_tokens": 1024, "includeThoughts": True, "display": "omitted"},
                '{"budget_tokens":1024,"display":"omitted","type":"enabled"}',
            ),
            ({"type": "disabled"}, '{"type":"disabled"}'),
            ({"type": "adaptive"}, '{"type":"adaptive"}'),
            ({"type": "adaptive", "display": "summarized"}, '{"display":"summarized","type":"adaptive"}'),
        ],
    )
    def test_configurations(self, given, expected):
        assert json.dumps(sent({"thinking": given})["thinking"], separators=(",", ":")) == expected

    def test_a_display_that_does_not_exist_is_refused(self):
        assert "thinking.display" in refusal({"thinking": {"type": "adaptive", "display": "loud"}})

    def test_a_forced_tool_is_for_the_provider_to_judge(self):
        tools = [{"type": "function", "function": {"name": "f"}}]
        thinking = {"type": "enabled", "budget_tokens": 1024}
        body = sent({"tools": tools, "tool_choice": "required", "thinking": thinking})
        assert (body["tool_choice"]["type"], body["thinking"]["type"]) == ("any", "enabled")


EFFORT_MODELS = [
    "opus-4-5",
    "opus-4-6",
    "opus-4-7",
    "opus-4-8",
    "sonnet-4-6",
    "sonnet-5",
    "fable-5",
    "mythos-5",
    "mythos-preview",
]
SCHEMA_MODELS = {
    "AWSAnthropic": ["opus-4-5", "sonnet-4-5", "haiku-4-5", "opus-4-6", "sonnet-4-6"],
    "GCPAnthropic": [*EFFORT_MODELS, "sonnet-4-5", "haiku-4-5"],
    "Anthropic": [*EFFORT_MODELS, "sonnet-4-5", "haiku-4-5"],
}
ALL_MODELS = [*EFFORT_MODELS, "sonnet-4-5", "haiku-4-5", "claude-3-sonnet", "opus-4-1"]


class TestOutput:
    @pytest.mark.parametrize("schema", SCHEMAS)
    @pytest.mark.parametrize("model", ALL_MODELS)
    def test_effort_is_told_to_models_that_have_it(self, schema, model):
        body = sent({"model": f"us.anthropic.CLAUDE-{model.upper()}-v1:0", "reasoning_effort": "max"}, schema)
        assert body.get("output_config") == ({"effort": "max"} if model in EFFORT_MODELS else None)

    @pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
    def test_efforts_keep_their_names(self, effort):
        assert sent({"model": "claude-opus-4-6", "reasoning_effort": effort})["output_config"] == {"effort": effort}

    @pytest.mark.parametrize("effort", ["none", "minimal", "loud"])
    def test_an_effort_that_claude_does_not_have_is_refused_where_there_is_effort(self, effort):
        expected = f'unsupported reasoning effort level: "{effort}" (supported: low, medium, high, xhigh, max)'
        assert refusal({"model": "opus-4-6", "reasoning_effort": effort}) == f"invalid request body: {expected}"
        assert "output_config" not in sent({"model": "claude-3-sonnet", "reasoning_effort": effort})

    @pytest.mark.parametrize("schema", SCHEMAS)
    @pytest.mark.parametrize("model", ALL_MODELS)
    def test_a_schema_is_given_to_models_that_take_one_and_never_dropped(self, schema, model):
        request = {"model": f"claude-{model}", "response_format": SCHEMA_FORMAT}
        if model in SCHEMA_MODELS[schema]:
            expected = {"format": {"schema": {"type": "object"}, "type": "json_schema"}}
            assert sent(request, schema)["output_config"] == expected
        else:
            assert "response_format" in refusal(request, schema)

    def test_the_override_decides_what_a_model_can(self):
        request = {"model": "claude-opus-4-6", "response_format": SCHEMA_FORMAT, "reasoning_effort": "low"}
        assert "response_format" in refusal(request, model_override="claude-3-sonnet")
        body = sent({**request, "model": "claude-3-sonnet"}, model_override="claude-opus-4-6")
        assert list(body["output_config"]) == ["effort", "format"]

    def test_a_schema_keeps_its_numbers_and_is_sorted(self):
        schema = '{"type":"object","properties":{"b":{"maximum":1.0},"a":{"const":12345678901234567890.50}}}'
        request = (
            '{"model":"claude-opus-4-6","messages":[{"role":"user","content":"x"}],'
            f'"response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}}}'
        )
        parsed = ChatCompletions().parse(request.encode(), content_type="application/json", metering=False)
        body = make_translator("GCPAnthropic", {}).request(parsed, query="", force=False).body
        assert b'{"properties":{"a":{"const":12345678901234567890.50},"b":{"maximum":1.0}},"type":"object"}' in body

    @pytest.mark.parametrize("schema", [None, "text", [1], 7])
    def test_what_is_no_schema_is_refused(self, schema):
        given = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        message = refusal({"model": "opus-4-6", "response_format": given})
        assert "response_format.json_schema.schema" in message
        del given["json_schema"]["schema"]
        assert "response_format.json_schema.schema is required" in refusal(
            {"model": "opus-4-6", "response_format": given}
        )

    def test_any_json_is_refused_and_text_is_what_there_is(self):
        assert "response_format" in refusal({"response_format": {"type": "json_object"}})
        assert sent({"response_format": {"type": "text"}}) == sent({})


class TestBadRequests:
    @pytest.mark.parametrize("schema", SCHEMAS)
    @pytest.mark.parametrize(
        "request_",
        [
            {"messages": []},
            {"messages": None},
            {"messages": [{"role": "system", "content": "S"}]},
            {"messages": [{"role": "user", "content": " \n"}]},
            {"messages": [{"role": "assistant", "content": "  "}]},
        ],
    )
    def test_a_request_that_leaves_nothing_to_answer_is_refused(self, schema, request_):
        assert "messages: " in refusal(request_, schema)

    def test_large_numbers_are_the_providers_to_judge(self):
        for member, value in (("max_tokens", 2**70), ("seed", 10**30), ("n", -(2**80))):
            assert sent({member: value})["messages"]

    @pytest.mark.parametrize("member", ["max_tokens", "max_completion_tokens"])
    def test_a_negative_limit_is_refused(self, member):
        assert member in refusal({member: -5})

    @pytest.mark.parametrize("budget", [{}, {"budget_tokens": 0}, {"budget_tokens": -1}])
    def test_thinking_without_a_budget_is_refused(self, budget):
        assert "thinking.budget_tokens" in refusal({"thinking": {"type": "enabled", **budget}})

    def test_a_member_of_a_wrong_type_is_refused(self):
        with pytest.raises(MalformedRequest, match="max_tokens"):
            ask("GCPAnthropic", {"max_tokens": 1.5})
