"""Messages → contents (contract, chat 9.4 and 17.9)."""

from typing import Any

import pytest

from extproc.errors import UnprocessableRequest
from extproc.translate.chat.gemini.messages import SKIP_VALIDATION
from tests.unit.translate.chat.gemini.attempts import USER, attempt, sent, sent_parts

HI = [{"text": "Hi"}]


def assistant(content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def call(identity: str | None = "1", name: str = "f", arguments: str = '{"x":1}') -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(identity: str, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def thinking_block(**members: str) -> list[dict[str, Any]]:
    return [{"type": "thinking", **members}]


def function_call(name: str = "f", signature: str | None = SKIP_VALIDATION, **args: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name}}
    if args:
        part["functionCall"]["args"] = args
    if signature:
        part["thoughtSignature"] = signature
    return part


def response(name: str, output: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}}}


def test_the_contracts_example_with_the_text_before_the_call():
    contents = sent(
        messages=[
            {"role": "user", "content": "a"},
            assistant("b", tool_calls=[call()]),
            result("1", "c"),
            {"role": "user", "content": "d"},
        ]
    )["contents"]
    assert contents == [
        {"parts": [{"text": "a"}], "role": "user"},
        {"parts": [{"text": "b"}, function_call(x=1)], "role": "model"},
        {"parts": [response("f", "c"), {"text": "d"}], "role": "user"},
    ]


def test_without_a_conversation_the_contents_are_null():
    body = sent(messages=[{"role": "system", "content": "s"}])
    assert body["contents"] is None
    assert body["systemInstruction"] == {"parts": [{"text": "s"}]}


def test_system_and_developer_texts_are_one_instruction_in_their_order():
    body = sent(
        messages=[
            {"role": "developer", "content": "a"},
            USER,
            {"role": "system", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": ""}]},
            {"role": "system", "content": ""},
        ]
    )
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert body["contents"] == [{"parts": HI, "role": "user"}]


def test_no_instruction_is_sent_where_there_is_none():
    assert "systemInstruction" not in sent(messages=[{"role": "system", "content": ""}, USER])


ASSISTANTS = {
    "text": (assistant("a"), [{"text": "a"}]),
    "parts": (assistant([{"type": "text", "text": "a"}, {"type": "text", "text": ""}]), [{"text": "a"}]),
    "a part that stands alone": (assistant({"type": "text", "text": "a"}), [{"text": "a"}]),
    "a refusal is not told": (
        assistant([{"type": "refusal", "refusal": "no"}, {"type": "text", "text": "a"}]),
        [{"text": "a"}],
    ),
    "calls": (
        assistant(tool_calls=[call(), call("2", "g", "{}")]),
        [function_call(x=1), function_call("g", None)],
    ),
    "arguments that are empty": (assistant(tool_calls=[call(arguments="")]), [function_call()]),
    "arguments that are null": (assistant(tool_calls=[call(arguments="null")]), [function_call()]),
    "an unnamed call": (
        assistant(tool_calls=[call(name="", arguments="")]),
        [{"functionCall": {}, "thoughtSignature": SKIP_VALIDATION}],
    ),
    "a thought": (
        assistant([{"type": "thinking", "text": "t"}, {"type": "text", "text": "a"}]),
        [{"text": "t", "thought": True}, {"text": "a"}],
    ),
    "a signed thought": (
        assistant([{"type": "thinking", "text": "t", "signature": "AAEC"}, {"type": "text", "text": "a"}]),
        [{"text": "t", "thought": True, "thoughtSignature": "AAEC"}, {"text": "a"}],
    ),
    "a signed thought before a call": (
        assistant([{"type": "thinking", "text": "t", "signature": "AAEC"}], tool_calls=[call()]),
        [{"text": "t", "thought": True}, function_call(signature="AAEC", x=1)],
    ),
    "a thought without text": (
        assistant([{"type": "thinking", "signature": "AAEC"}], tool_calls=[call()]),
        [function_call(signature="AAEC", x=1)],
    ),
    "the signature of the content before that of the blocks": (
        assistant(
            [{"type": "thinking", "text": "t", "signature": "AAEC"}],
            tool_calls=[call()],
            thinking_blocks=thinking_block(thinking="t", signature="BBBB"),
        ),
        [{"text": "t", "thought": True}, function_call(signature="AAEC", x=1)],
    ),
    "a block's signature is the call's": (
        assistant("a", tool_calls=[call()], thinking_blocks=thinking_block(thinking="t", signature="AAEC")),
        [{"text": "t", "thought": True}, {"text": "a"}, function_call(signature="AAEC", x=1)],
    ),
    "a block's signature is the text's": (
        assistant("a", thinking_blocks=thinking_block(thinking="t", signature="AAEC")),
        [{"text": "t", "thought": True}, {"text": "a", "thoughtSignature": "AAEC"}],
    ),
    "a block's signature is the last text's": (
        assistant(
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            thinking_blocks=thinking_block(signature="AAEC"),
        ),
        [{"text": "a"}, {"text": "b", "thoughtSignature": "AAEC"}],
    ),
    "a block without text of its own": (
        assistant("a", reasoning_content="t", thinking_blocks=thinking_block(signature="AAEC")),
        [{"text": "t", "thought": True}, {"text": "a", "thoughtSignature": "AAEC"}],
    ),
    "a block and nothing else": (
        assistant(thinking_blocks=thinking_block(thinking="t", signature="AAEC")),
        [{"text": "t", "thought": True, "thoughtSignature": "AAEC"}],
    ),
    "a block that is not signed": (
        assistant("a", thinking_blocks=thinking_block(thinking="t")),
        [{"text": "t", "thought": True}, {"text": "a"}],
    ),
    "a redacted block": (
        assistant("a", thinking_blocks=[{"type": "redacted_thinking", "data": "AAEC"}]),
        [{"text": "a"}],
    ),
}


@pytest.mark.parametrize(("message", "parts"), ASSISTANTS.values(), ids=ASSISTANTS.keys())
def test_an_answer_of_the_model(message, parts):
    assert sent_parts(USER, message) == [HI, parts]


EMPTY = {
    "null": assistant(),
    "an empty text": assistant(""),
    "no parts": assistant([]),
    "a refusal alone": assistant([{"type": "refusal", "refusal": "no"}]),
    "a signature alone": assistant(thinking_blocks=thinking_block(signature="AAEC")),
    "reasoning alone": assistant(reasoning_content="t"),
    "no calls": assistant(tool_calls=[]),
}


@pytest.mark.parametrize("message", EMPTY.values(), ids=EMPTY.keys())
def test_an_answer_of_nothing_is_left_out(message):
    assert sent_parts(USER, message, USER) == [HI, HI]


def test_answers_in_a_row_stay_apart():
    assert sent_parts(assistant("a"), assistant("b")) == [[{"text": "a"}], [{"text": "b"}]]


def test_numbers_of_arguments_keep_their_spelling():
    arguments = '{"b": 1.0, "a": 12345678901234567890, "c": {"z": 1e2, "y": 0.10}}'
    _, _, body = attempt({"messages": [assistant(tool_calls=[call(arguments=arguments)])]})
    assert b'"args":{"a":12345678901234567890,"b":1.0,"c":{"y":0.10,"z":1e2}}' in body


def test_results_stand_in_the_order_of_the_calls_and_before_what_the_user_says():
    parts = sent_parts(
        assistant(tool_calls=[call("1", "f"), call("2", "g"), call("3", "f")]),
        {"role": "user", "content": "u"},
        result("3", "three"),
        result("1", "one"),
        result("2", [{"type": "text", "text": "tw"}, {"type": "text", "text": "o"}]),
    )
    assert parts[1] == [response("f", "one"), response("g", "two"), response("f", "three"), {"text": "u"}]


def test_ids_may_be_used_again_in_a_later_turn():
    parts = sent_parts(
        assistant(tool_calls=[call("1", "f")]),
        result("1", "a"),
        assistant(tool_calls=[call("1", "g")]),
        result("1", "b"),
    )
    assert parts[1] == [response("f", "a")]
    assert parts[3] == [response("g", "b")]


def test_the_result_is_text_whatever_it_looks_like():
    parts = sent_parts(assistant(tool_calls=[call()]), result("1", '{"a":1}'))
    assert parts[1] == [response("f", '{"a":1}')]


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def image(url: str, **more: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def inline(mime_type: str, data: str = "AAEC") -> dict[str, Any]:
    return {"inlineData": {"data": data, "mimeType": mime_type}}


def at(uri: str, mime_type: str) -> dict[str, Any]:
    return {"fileData": {"fileUri": uri, "mimeType": mime_type}}


def file(**members: str) -> dict[str, Any]:
    return {"type": "file", "file": members}


def audio(data: str, audio_format: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}


MEDIA = {
    "bytes of an image": (image("data:image/png;base64,AAEC"), inline("image/png")),
    "bytes of anything": (image("data:application/pdf;base64,AAEC"), inline("application/pdf")),
    "a scheme in capitals": (image("DATA:image/png;base64,AAEC"), inline("image/png")),
    "a parameter of the type": (image("data:image/png;a=b;base64,AAEC"), inline("image/png")),
    "bytes without a type": (image("data:;base64,AAEC"), inline("image/jpeg")),
    "base64 that is not called so": (image("data:image/png,AAEC"), inline("image/png")),
    "percent signs": (image("data:image/svg+xml,%3Csvg/%3E"), inline("image/svg+xml", "PHN2Zy8+")),
    "text": (image("data:text/plain,a%20b"), inline("text/plain", "YSBi")),
    "an address": (image("https://example.com/a.jpg"), at("https://example.com/a.jpg", "image/jpeg")),
    "an address with a query": (
        image("https://example.com/a.png?x=1.gif#f"),
        at("https://example.com/a.png?x=1.gif#f", "image/png"),
    ),
    "an address in capitals": (image("https://example.com/A.WEBP"), at("https://example.com/A.WEBP", "image/webp")),
    "an address without an extension": (image("https://example.com/a"), at("https://example.com/a", "image/jpeg")),
    "an address with an unknown extension": (image("gs://bucket/a.xyz"), at("gs://bucket/a.xyz", "image/jpeg")),
    "an extension of the host": (image("https://example.gif"), at("https://example.gif", "image/jpeg")),
    "a dot in a folder": (image("https://example.com/a.gif/b"), at("https://example.com/a.gif/b", "image/jpeg")),
    "a bucket": (image("gs://bucket/a.pdf"), at("gs://bucket/a.pdf", "application/pdf")),
    "no scheme": (image("a.png"), at("a.png", "image/png")),
    "sound as wav": (audio("AAEC", "wav"), inline("audio/wav")),
    "sound as mp3": (audio("AAEC", "mp3"), inline("audio/mpeg")),
    "sound as flac": (audio("AAEC", "FLAC"), inline("audio/flac")),
    "sound by address": (
        {"type": "audio_url", "audio_url": {"url": "https://example.com/a.ogg"}},
        at("https://example.com/a.ogg", "audio/ogg"),
    ),
    "sound by an address that says nothing": (
        {"type": "audio_url", "audio_url": {"url": "https://example.com/a"}},
        at("https://example.com/a", "audio/mpeg"),
    ),
    "sound inline": ({"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,AAEC"}}, inline("audio/wav")),
    "video by address": (
        {"type": "video_url", "video_url": {"url": "https://www.youtube.com/watch?v=a"}},
        at("https://www.youtube.com/watch?v=a", "video/mp4"),
    ),
    "video inline": ({"type": "video_url", "video_url": {"url": "data:video/webm;base64,AAEC"}}, inline("video/webm")),
    "a document": (file(file_data="data:application/pdf;base64,AAEC", filename="a.txt"), inline("application/pdf")),
    "a document by its name": (file(file_data="AAEC", filename="a.txt"), inline("text/plain")),
    "a document without a name": (file(file_data="AAEC"), inline("application/pdf")),
    "a document with a type of its name": (file(file_data="data:;base64,AAEC", filename="a.csv"), inline("text/csv")),
}


@pytest.mark.parametrize(("part", "expected"), MEDIA.values(), ids=MEDIA.keys())
def test_media_of_the_user(part, expected):
    assert sent_parts(user(part)) == [[expected]]


NOTHING = {
    "an empty text": {"type": "text", "text": ""},
    "an image without an address": image(""),
    "sound without an address": {"type": "audio_url", "audio_url": {"url": ""}},
    "video without an address": {"type": "video_url", "video_url": {}},
}


@pytest.mark.parametrize("part", NOTHING.values(), ids=NOTHING.keys())
def test_parts_of_nothing_are_left_out(part):
    assert sent_parts(user(part, {"type": "text", "text": "Hi"})) == [HI]


def test_users_that_say_nothing_are_left_out():
    assert (
        sent(messages=[user(), {"role": "user", "content": ""}, {"role": "user", "content": None}])["contents"] is None
    )


DETAILS = {
    "low": "MEDIA_RESOLUTION_LOW",
    "medium": "MEDIA_RESOLUTION_MEDIUM",
    "high": "MEDIA_RESOLUTION_HIGH",
    "auto": "MEDIA_RESOLUTION_UNSPECIFIED",
}


@pytest.mark.parametrize(("detail", "level"), DETAILS.items(), ids=DETAILS.keys())
def test_detail_is_the_resolution_on_gemini_3(detail, level):
    message = user(image("data:image/png;base64,AAEC", detail=detail))
    assert sent_parts(message, model="gemini-3-pro") == [[{"mediaResolution": {"level": level}, **inline("image/png")}]]
    assert sent_parts(message, model="gemini-1.5-pro-003") == [[inline("image/png")]]


REFUSED = {
    "a system message without content": ([{"role": "system"}], "messages[0]: message 'content' must be"),
    "a user without content": ([{"role": "user"}], "messages[0]: message 'content' must be"),
    "a result without content": (
        [assistant(tool_calls=[call()]), {"role": "tool", "tool_call_id": "1"}],
        "messages[1]: message 'content' must be",
    ),
    "a result of no call": ([result("x")], "messages[0].tool_call_id: no assistant message before it"),
    "a result without an id": ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
    "an image in a result": (
        [assistant(tool_calls=[call()]), result("1", [{"type": "image_url", "image_url": {"url": "x"}}])],
        "messages.system, developer, tool: parts that are not text is not supported",
    ),
    "a call without an id": (
        [assistant(tool_calls=[call(None)])],
        "tool_call at index 0 is missing required field 'id'",
    ),
    "arguments that are no JSON": (
        [assistant(tool_calls=[call(arguments="{")])],
        "messages[0].tool_calls[0].function.arguments: function arguments must be valid JSON",
    ),
    "arguments that are no object": (
        [assistant(tool_calls=[call(), call("2", arguments="[]")])],
        "messages[0].tool_calls[1].function.arguments",
    ),
    "arguments nested too deep": (
        [assistant(tool_calls=[call(arguments='{"a":' + "[" * 10_000 + "]" * 10_000 + "}")])],
        "function.arguments",
    ),
    "arguments with half a character": (
        [assistant(tool_calls=[call(arguments='{"a":"\\ud800"}')])],
        "function.arguments",
    ),
    "a redacted thought": (
        [assistant([{"type": "redacted_thinking", "redactedContent": "x"}])],
        "messages.assistant.redacted_thinking is not supported",
    ),
    "an unknown part of an answer": (
        [assistant([{"type": "text", "text": "a"}, {"type": "video"}])],
        "messages[0].content[1]: unsupported content type in assistant message: video",
    ),
    "a signature that is not base64": (
        [assistant([{"type": "thinking", "text": "t", "signature": "!"}])],
        "messages[0].content[0].signature: failed to decode thought signature",
    ),
    "a block's signature that is not base64": (
        [assistant("a", thinking_blocks=thinking_block(signature="ä"))],
        "messages[0].thinking_blocks: failed to decode thought signature",
    ),
    "an address that is none": (
        [user(image(":%invalid-url%:"))],
        "messages[0].content[0].image_url.url: invalid image URL",
    ),
    "an address with a space": ([user(image("https://a b/c.png"))], "invalid image URL"),
    "an address of half a host": ([user(image("https://[::1/a.png"))], "invalid image URL"),
    "a data URI without data": ([user(image("data:image/png;base64,"))], "it has no data"),
    "a text URI without data": ([user(image("data:text/plain,"))], "it has no data"),
    "a data URI without a comma": ([user(image("data:image/png;base64"))], "data uri does not have a valid format"),
    "a data URI that is not base64": ([user(image("data:image/png;base64,A"))], "the data is not base64"),
    "sound in an unknown format": (
        [user(audio("AAEC", "pcm16"))],
        "messages[0].content[0].input_audio.format: unsupported",
    ),
    "sound without a format": ([user(audio("AAEC", ""))], "unsupported audio format (none)"),
    "sound that is not base64": (
        [user(audio("!", "wav"))],
        "messages[0].content[0].input_audio.data: the data is not base64",
    ),
    "a file that was uploaded": ([user(file(file_id="x"))], "messages[0].content[0].file.file_id"),
    "a file without data": (
        [user(file(filename="x"))],
        "messages[0].content[0].file.file_data: there is no data",
    ),
}


@pytest.mark.parametrize(("messages", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_gemini_cannot_be_told_is_refused(messages, reason):
    with pytest.raises(UnprocessableRequest) as refused:
        attempt({"messages": messages})
    assert reason in str(refused.value)


def test_an_unknown_detail_is_refused_where_it_counts():
    message = user({"type": "text", "text": "a"}, image("https://example.com/a.png", detail="sharp"))
    with pytest.raises(
        UnprocessableRequest, match=r"messages\[0\]\.content\[1\]\.image_url\.detail: invalid detail sharp"
    ):
        sent_parts(message, model="gemini-3-pro")
    assert sent_parts(message) == [[{"text": "a"}, at("https://example.com/a.png", "image/png")]]
