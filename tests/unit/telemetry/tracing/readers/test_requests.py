"""Requests of every client API, as views."""

from __future__ import annotations

import json

import pytest

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.readers.table import READERS
from extproc.telemetry.tracing.views import Message, Parameters, Part, Tokenization, ToolCall
from tests.fuzz.fuzz_trace_readers import read_request

MUCH = {
    "too long": (b'{"messages":[{"role":"user","content":"' + b"x" * (8 * 1024 * 1024) + b'"}]}', False),
    "long": (b'{"messages":[{"role":"user","content":"' + b"x" * (4 * 1024 * 1024) + b'"}]}', True),
    "many messages": (b'{"messages":[' + b",".join([b'{"role":"user","content":"x"}'] * 60_000) + b"]}", False),
    "many strings": (b'{"stop":[' + b",".join([b'"x"'] * 110_000) + b"]}", False),
    "many empty objects": (b'{"messages":[' + b",".join([b"{ }  "] * 60_000) + b"]}", False),
    "many arrays": (b'{"messages":[' + b",".join([b"[  ]  "] * 60_000) + b"]}", False),
    "a long program": (
        json.dumps({"messages": [{"role": "user", "content": '{"a": [{}, "\\"]}' * 50_000}]}).encode(),
        True,
    ),
}


@pytest.mark.parametrize("name", MUCH)
def test_a_request_is_read_unless_it_would_hold_up_others(name):
    body, is_read = MUCH[name]
    view = read_request(Operation.CHAT, body)
    assert bool(view.text) is is_read
    assert bool(view.messages) is is_read
    assert (view.operation, view.model) == (Operation.CHAT, "m")


def test_every_operation_has_a_reader():
    assert set(READERS) == set(Operation)


def text(value: str) -> Part:
    return Part(type="text", text=value)


WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
SEEN_CALL = ToolCall(id="call_1", name="get_weather", arguments='{"city":"Paris"}')

CHAT_MESSAGES = {
    "a text": ({"role": "user", "content": "Hi"}, Message(role="user", text="Hi")),
    "an empty text": ({"role": "user", "content": ""}, Message(role="user", text="")),
    "parts": (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                {"type": "image_url", "image_url": "data:image/png;base64,AA=="},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "audio_url", "audio_url": {"url": "https://x/y.wav"}},
                {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "hologram"},
            ],
        },
        Message(
            role="user",
            parts=(
                text("What is this?"),
                Part(type="image", url="https://x/y.png"),
                Part(type="image", url="data:image/png;base64,AA=="),
                Part(type="audio"),
                Part(type="audio", url="https://x/y.wav"),
                Part(type="video", url="https://x/y.mp4"),
                Part(type="file"),
                Part(type="hologram"),
            ),
        ),
    ),
    "calls without a content": (
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        Message(role="assistant", tool_calls=(SEEN_CALL,)),
    ),
    "a call with its arguments as an object": (
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]},
        Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments='{"a":1}'),)),
    ),
    "a call of a custom tool": (
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
        Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments="x"),)),
    ),
    "a call of the first kind": (
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        Message(role="assistant", tool_calls=(ToolCall(name="f", arguments="{}"),)),
    ),
    "a result": (
        {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
        Message(role="tool", text="18 degrees", answers="call_1"),
    ),
    "reasoning beside a content": (
        {"role": "assistant", "content": "Paris.", "reasoning_content": "France, so"},
        Message(role="assistant", text="Paris.", parts=(Part(type="reasoning", text="France, so"),)),
    ),
    "thinking blocks": (
        {"role": "assistant", "content": "Paris.", "thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
        Message(role="assistant", text="Paris.", parts=(Part(type="reasoning", text="hm"),)),
    ),
    "a refusal": (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        Message(role="assistant", parts=(Part(type="refusal", text="No."),)),
    ),
    "members of wrong types": (
        {
            "role": 1,
            "content": [1, None, {"type": ["text"], "text": {}}, {"type": "text", "text": "x"}],
            "tool_calls": {},
        },
        Message(role="", parts=(text(""), text("x"))),
    ),
}


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.TOKENIZE, Operation.EMBEDDINGS])
@pytest.mark.parametrize(("message", "expected"), CHAT_MESSAGES.values(), ids=CHAT_MESSAGES)
def test_a_message_of_a_chat_is_read(operation, message, expected):
    body = json.dumps({"model": "m", "messages": [message, 7]}).encode()

    assert read_request(operation, body).messages == (expected,)


def test_the_content_is_no_part_of_the_invocation_which_keeps_its_order_and_its_spelling():
    body = b"""{"top_p" : 1.0, "messages": [{"role": "user", "content": "Hi"}], "model": "m", "tools": [{"a": 1.50}],
      "response_format": {"type" : "json_object"}, "seed": 123456789012345678901234567890, "functions": [{"b": 2}]}"""

    view = read_request(Operation.CHAT, body)

    assert view.invocation == (
        '{"top_p":1.0,"model":"m","response_format":{"type":"json_object"},"seed":123456789012345678901234567890}'
    )
    assert view.tools == ('{"a":1.50}', '{"b":2}')
    assert view.text == body.decode()
    assert view.mime == "application/json"


PARAMETERS = {
    "limits by age": (
        {"max_tokens": 5, "max_completion_tokens": 7},
        Parameters(max_tokens=7),
    ),
    "the older limit": ({"max_tokens": 5, "max_completion_tokens": None}, Parameters(max_tokens=5)),
    "a limit of responses": ({"max_output_tokens": 9.0}, Parameters(max_tokens=9)),
    "sampling": (
        {
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 40,
            "frequency_penalty": 1,
            "presence_penalty": -1,
            "seed": 3,
            "n": 2,
        },
        Parameters(
            temperature=0,
            top_p=0.5,
            top_k=40,
            frequency_penalty=1,
            presence_penalty=-1,
            seed=3,
            choices=2,
        ),
    ),
    "one stop sequence": ({"stop": "END"}, Parameters(stop=("END",))),
    "stop sequences": ({"stop": ["a", 1, "b"]}, Parameters(stop=("a", "b"))),
    "stop sequences of messages": ({"stop_sequences": ["a"]}, Parameters(stop=("a",))),
    "vectors": (
        {"encoding_format": "base64", "dimensions": 256},
        Parameters(encoding_formats=("base64",), dimensions=256),
    ),
    "the response before": ({"previous_response_id": "resp_1"}, Parameters()),
    "a conversation": ({"conversation": {"id": "conv_1"}}, Parameters(conversation="conv_1")),
    "a conversation's id": (
        {"conversation": "conv_1", "previous_response_id": "resp_1"},
        Parameters(conversation="conv_1"),
    ),
    "wrong types": (
        {"max_tokens": "many", "temperature": True, "top_p": [1], "stop": 1, "n": 1.5, "dimensions": {}, "seed": 4},
        Parameters(seed=4),
    ),
    "numbers that no attribute holds": ({"seed": 2**63, "n": 10**30, "top_k": 1}, Parameters(top_k=1)),
    "a number as text": ({"temperature": "0.2"}, Parameters(temperature=0.2)),
}


@pytest.mark.parametrize(("members", "expected"), PARAMETERS.values(), ids=PARAMETERS)
@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.RESPONSES, Operation.MESSAGES])
def test_parameters_have_one_name_in_all_apis(operation, members, expected):
    assert read_request(operation, json.dumps(members).encode()).parameters == expected


def test_a_number_beyond_doubles_spoils_only_its_own_member():
    assert read_request(Operation.CHAT, b'{"temperature":1e400,"top_p":0.5}').parameters == Parameters(top_p=0.5)


MESSAGES = {
    "a text": ({"role": "user", "content": "Hi"}, (Message(role="user", text="Hi"),)),
    "blocks": (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
                {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "more"}]}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "hit"}]},
            ],
        },
        (
            Message(
                role="user",
                parts=(
                    text("Look:"),
                    Part(type="image", url="data:image/png;base64,AA=="),
                    Part(type="image", url="https://x/y.png"),
                    Part(type="file", text="words"),
                    Part(type="file", text="more"),
                    Part(type="file"),
                    Part(type="search_result", text="hit"),
                ),
            ),
        ),
    ),
    "calls": (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
            ],
        },
        (
            Message(
                role="assistant",
                parts=(Part(type="reasoning", text="hm"), Part(type="redacted_thinking"), text("Let me see.")),
                tool_calls=(ToolCall(id="toolu_1", name="f", arguments='{"a":1}'),),
            ),
        ),
    ),
    "a result between parts": (
        {
            "role": "user",
            "content": ["a", 1, {"type": "tool_result", "tool_use_id": "t", "content": "r"}, {"type": "tool_use"}],
        },
        (
            Message(role="user", parts=(text("a"),)),
            Message(role="user", text="r", answers="t"),
            Message(role="user", tool_calls=(ToolCall(),)),
        ),
    ),
    "results, which are messages of their own": (
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 degrees"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "25"}]},
                {"type": "tool_result", "tool_use_id": "toolu_3"},
                {"type": "text", "text": "Which is warmer?"},
            ],
        },
        (
            Message(role="user", text="18 degrees", answers="toolu_1"),
            Message(role="user", parts=(text("25"),), answers="toolu_2"),
            Message(role="user", answers="toolu_3"),
            Message(role="user", parts=(text("Which is warmer?"),)),
        ),
    ),
}


@pytest.mark.parametrize("operation", [Operation.MESSAGES, Operation.COUNT_TOKENS])
@pytest.mark.parametrize(("message", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_of_anthropics_api_is_read(operation, message, expected):
    assert read_request(operation, json.dumps({"messages": [message, None]}).encode()).messages == expected


def test_a_request_of_the_messages_api_is_read():
    view = read_request(
        Operation.MESSAGES,
        b'{"model":"m","max_tokens":5,"system":[{"type":"text","text":"Be brief.","cache_control":{}}],'
        b'"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a" : 1.0}}]}],'
        b'"tools":[{"name":"f","input_schema":{}}],"thinking":{"type":"adaptive"},'
        b'"mcp_servers":[{"url":"https://x","authorization_token":"planted"}]}',
    )

    assert view.system == (text("Be brief."),)
    assert view.messages[0].tool_calls[0].arguments == '{"a":1.0}'
    assert view.tools == ('{"name":"f","input_schema":{}}',)
    assert view.invocation == '{"model":"m","max_tokens":5,"thinking":{"type":"adaptive"}}'
    assert view.parameters == Parameters(max_tokens=5)


def test_a_count_of_messages_says_how_many_there_are():
    view = read_request(Operation.COUNT_TOKENS, b'{"system":"s","messages":[{"role":"user","content":"a"},{}]}')

    assert view.tokenization == Tokenization(kind="chat", message_count=2)
    assert view.system == (text("s"),)


ITEMS = {
    "a message": ({"role": "user", "content": "Hi"}, Message(role="user", text="Hi")),
    "parts": (
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look:"},
                {"type": "input_image", "image_url": "https://x/y.png"},
                {"type": "input_file", "file_url": "https://x/y.pdf"},
                {"type": "input_audio", "input_audio": {"data": "AA=="}},
            ],
        },
        Message(
            role="user",
            parts=(
                text("Look:"),
                Part(type="image", url="https://x/y.png"),
                Part(type="file", url="https://x/y.pdf"),
                Part(type="audio"),
            ),
        ),
    ),
    "what the model said": (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
        Message(role="assistant", parts=(text("Hi"),)),
    ),
    "a call": (
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="f", arguments="{}"),)),
    ),
    "a call of a custom tool": (
        {"type": "custom_tool_call", "call_id": "call_1", "name": "f", "input": "x"},
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="f", arguments="x"),)),
    ),
    "a call of the shell": (
        {"type": "local_shell_call", "call_id": "call_1", "action": {"command": ["ls"]}},
        Message(
            role="assistant",
            tool_calls=(ToolCall(id="call_1", name="local_shell_call", arguments='{"command":["ls"]}'),),
        ),
    ),
    "a result": (
        {"type": "function_call_output", "call_id": "call_1", "output": "18"},
        Message(role="tool", text="18", answers="call_1"),
    ),
    "a result in parts": (
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "18"}]},
        Message(role="tool", parts=(text("18"),), answers="call_1"),
    ),
    "a summary of reasoning": (
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        Message(role="assistant", parts=(Part(type="reasoning", text="hm"),)),
    ),
    "something else": ({"type": "mcp_list_tools"}, Message(role="assistant", parts=(Part(type="mcp_list_tools"),))),
}


@pytest.mark.parametrize("operation", [Operation.RESPONSES, Operation.RESPONSES_INPUT_TOKENS])
@pytest.mark.parametrize(("item", "expected"), ITEMS.values(), ids=ITEMS)
def test_an_item_is_read(operation, item, expected):
    body = json.dumps({"input": [{"type": "item_reference", "id": "msg_1"}, item, 1, {}]}).encode()

    assert read_request(operation, body).messages == (expected,)


def test_a_request_of_the_responses_api_is_read():
    view = read_request(
        Operation.RESPONSES,
        b'{"model":"m","instructions":"Be brief.","input":"Hi","tools":[{"type":"web_search"}],"store":false,'
        b'"prompt":{"id":"p","variables":{"name":"x"}},"previous_response_id":"resp_1"}',
    )

    assert view.system == (text("Be brief."),)
    assert view.messages == (Message(role="user", text="Hi"),)
    assert view.tools == ('{"type":"web_search"}',)
    assert view.invocation == '{"model":"m","store":false,"previous_response_id":"resp_1"}'


def test_a_count_of_an_input_says_how_many_messages_there_are():
    view = read_request(Operation.RESPONSES_INPUT_TOKENS, b'{"input":"Hi"}')

    assert view.tokenization == Tokenization(kind="chat", message_count=1)


TEXTS = {
    "one": (b'"a"', ("a",)),
    "several": (b'["a","b"]', ("a", "b")),
    "none": (b"[]", ()),
    "token ids": (b"[1,2,3]", ()),
    "lists of token ids": (b"[[1],[2,3]]", ()),
    "null": (b"null", ()),
}


@pytest.mark.parametrize(("given", "expected"), TEXTS.values(), ids=TEXTS)
def test_token_ids_are_no_texts(given, expected):
    assert read_request(Operation.COMPLETION, b'{"prompt":%b}' % given).prompts == expected
    assert read_request(Operation.EMBEDDINGS, b'{"input":%b}' % given).texts == expected
    assert read_request(Operation.TOKENIZE, b'{"prompt":%b}' % given).prompts == expected


ITEMS_TO_EMBED = {
    "an item": (b'{"content":"a","task_type":"RETRIEVAL_QUERY"}', ("a",)),
    "items": (b'[{"content":["a","b"]},{"content":"c"},"d",{}]', ("a", "b", "c", "d")),
    "parts": (b'[{"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}]', ("a",)),
}


@pytest.mark.parametrize(("given", "expected"), ITEMS_TO_EMBED.values(), ids=ITEMS_TO_EMBED)
def test_an_item_to_embed_is_its_texts(given, expected):
    view = read_request(Operation.EMBEDDINGS, b'{"model":"m","input":%b,"dimensions":3}' % given)

    assert view.texts == expected
    assert view.invocation == '{"model":"m","dimensions":3}'


def test_a_query_and_its_documents_are_read_in_their_places():
    view = read_request(
        Operation.RERANK,
        b'{"model":"m","query":{"text":"q"},"documents":["a",{"text":"b","id":1},{"image": "x"},null],"top_n":2}',
    )

    assert view.query == "q"
    assert view.documents == ("a", "b", '{"image":"x"}', "")
    assert view.top_n == 2
    assert view.invocation == '{"model":"m","top_n":2}'


def test_a_single_document_may_stand_alone():
    assert read_request(Operation.RERANK, b'{"query":"q","documents":"a"}').documents == ("a",)


def test_a_tokenize_request_says_which_form_it_has():
    prompt = read_request(
        Operation.TOKENIZE, b'{"prompt":"p","add_special_tokens":false,"return_token_strs":true,"max_tokens":1}'
    )
    chat = read_request(
        Operation.TOKENIZE,
        b'{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false,"continue_final_message":true}',
    )

    assert prompt.tokenization == Tokenization(kind="completion", add_special_tokens=False, return_token_strs=True)
    assert chat.tokenization == Tokenization(
        kind="chat", add_generation_prompt=False, continue_final_message=True, message_count=1
    )


def test_what_is_to_be_spoken_is_a_text():
    view = read_request(Operation.SPEECH, b'{"model":"tts","input":"Hello.","instructions":"Whisper.","voice":"alloy"}')

    assert view.texts == ("Hello.",)
    assert view.system == (text("Whisper."),)
    assert view.invocation == '{"model":"tts","voice":"alloy"}'


@pytest.mark.parametrize("operation", [Operation.IMAGE_GENERATION, Operation.IMAGE_EDIT])
def test_what_is_to_be_drawn_is_a_text(operation):
    view = read_request(operation, b'{"prompt":"A cat.","n":2,"images":[{"image_url":"data:image/png;base64,AA=="}]}')

    assert view.texts == ("A cat.",)
    assert view.invocation == '{"n":2}'
    assert view.parameters == Parameters(choices=2)


def form(*parts: tuple[str, bytes]) -> bytes:
    fields = (
        b'--q\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), content)
        for name, content in parts
    )
    return b"".join(fields) + b"--q--\r\n"


def test_a_form_is_shown_without_its_files():
    body = form(
        ("file", b"RIFF\x00\xff"),
        ("model", b"whisper"),
        ("prompt", b"Names: Zo\xc3\xab"),
        ("temperature", b"0.2"),
        ("timestamp_granularities[]", b"word"),
        ("timestamp_granularities[]", b"segment"),
        ("upload", b"\xff\xfe"),
        ("model", b"whisper-1"),
    )

    view = read_request(Operation.TRANSCRIPTION, body, content_type="multipart/form-data; boundary=q")

    assert json.loads(view.text) == {
        "model": "whisper-1",
        "prompt": "Names: Zoë",
        "temperature": "0.2",
        "timestamp_granularities[]": ["word", "segment"],
    }
    assert view.prompts == ("Names: Zoë",)
    assert view.parameters == Parameters(temperature=0.2)
    assert "prompt" not in view.invocation


@pytest.mark.parametrize("name", ["image", "image[]", "mask"])
def test_the_images_of_a_form_are_not_shown_even_if_they_are_text(name):
    body = form(("prompt", b"A cat."), (name, b"<svg/>"))

    view = read_request(Operation.IMAGE_EDIT, body, content_type="multipart/form-data; boundary=q")

    assert view.text == '{"prompt":"A cat."}'
    assert view.texts == ("A cat.",)


def test_a_form_that_is_none_has_no_fields():
    view = read_request(Operation.TRANSLATION, b"--q\r\ncut off", content_type="multipart/form-data; boundary=q")

    assert view.text == "{}"
    assert view.invocation == "{}"


BROKEN = {
    "octets that are not UTF-8": (b'{"messages":[{"role":"user","content":"a\xffb"}],"seed":1}', "a\ufffdb"),
    "half of a surrogate pair": (b'{"messages":[{"role":"user","content":"a\\ud83db"}],"seed":1}', "a\ufffdb"),
    "the other half": (b'{"messages":[{"role":"user","content":"a\\uDE00b"}],"seed":1}', "a\ufffdb"),
    "an escaped backslash before it": (
        b'{"messages":[{"role":"user","content":"\\\\ud83d\\ud83d"}],"seed":1}',
        "\\ud83d\ufffd",
    ),
    "a pair beside it": (b'{"messages":[{"role":"user","content":"\\ud83d\\ude00\\ud83d"}],"seed":1}', "😀\ufffd"),
}


@pytest.mark.parametrize(("body", "expected"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_unicode_is_replaced(body, expected):
    view = read_request(Operation.CHAT, body)

    assert view.messages == (Message(role="user", text=expected),)
    assert view.parameters == Parameters(seed=1)
    assert view.text.encode()


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"{", b"[" * 100_000, b'{"messages":' + b"[" * 100_000])
def test_what_is_no_request_has_a_view_all_the_same(operation, body):
    view = read_request(operation, body)

    assert view.text == body.decode()
    assert (view.messages, view.texts, view.prompts, view.documents) == ((), (), (), ())


def test_a_message_that_cannot_be_read_does_not_spoil_the_others():
    view = read_request(Operation.CHAT, b'{"messages":[{"role":"user","content":1e400},{"role":"user","content":"b"}]}')

    assert view.messages == (Message(role="user", text="b"),)
