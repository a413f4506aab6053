"""What is read of a tokenize request (contract, 15.1), whatever backend it is for."""

import json

import pytest

from extproc.endpoints.tokenize import Tokenize
from extproc.endpoints.tokenize_request import decode_tokenize_request
from extproc.errors import MalformedRequest

USER = {"role": "user", "content": "hi"}


def parse(body, content_type="application/json"):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Tokenize().parse(text, content_type=content_type, metering=True)


TAKEN = {
    "a prompt": {"model": "m", "prompt": "a"},
    "an empty prompt": {"model": "m", "prompt": ""},
    "prompts": {"model": "m", "prompt": ["a", "b"]},
    "neither prompt nor messages": {"model": "m"},
    "both null": {"model": "m", "prompt": None, "messages": None},
    "a prompt beside messages of null": {"model": "m", "prompt": "a", "messages": None},
    "messages beside a prompt of null": {"model": "m", "prompt": None, "messages": [USER]},
    "no messages": {"model": "m", "messages": []},
    "messages of roles and parts that we do not know": {
        "model": "m",
        "messages": [{"role": "critic", "content": [{"type": "smell"}]}],
    },
    "a final message to continue": {
        "model": "m",
        "messages": [USER],
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "a new answer": {"model": "m", "messages": [USER], "add_generation_prompt": True},
    "flags of a chat on a prompt": {"model": "m", "prompt": "a", "continue_final_message": True},
    "everything else": {"model": "m", "messages": [USER], "tools": 5, "chat_template": {}, "x": 1},
}


@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
def test_what_some_backend_takes_goes_through(body):
    parsed = parse(body)
    assert (parsed.model, parsed.stream, parsed.rewritten) == ("m", False, False)
    assert json.loads(parsed.body) == body


BOTH_FLAGS = "invalid tokenize request: cannot set both continue_final_message and add_generation_prompt to true"
NO_MODEL = "invalid tokenize request: model is required"
NOT_JSON = "failed to parse JSON for /tokenize: "
REFUSED = {
    "nothing": ({}, NO_MODEL),
    "no model": ({"prompt": "a"}, NO_MODEL),
    "an empty model": ({"model": "", "prompt": "a"}, NO_MODEL),
    "a model of null": ({"model": None, "messages": [USER]}, NO_MODEL),
    "a final message to continue, and a new answer": (
        {"model": "m", "messages": [USER], "continue_final_message": True, "add_generation_prompt": True},
        BOTH_FLAGS,
    ),
    "a final message to continue, and the default": (
        {"model": "m", "messages": [USER], "continue_final_message": True},
        BOTH_FLAGS,
    ),
    "a final message to continue, and null": (
        {"model": "m", "messages": [USER], "continue_final_message": True, "add_generation_prompt": None},
        BOTH_FLAGS,
    ),
    "prompt and messages": (
        {"model": "m", "prompt": "", "messages": []},
        f"{NOT_JSON}tokenize request must have either 'prompt' or 'messages', not both",
    ),
    "not JSON": (b"{", NOT_JSON),
    "a prompt that is a number": ({"model": "m", "prompt": 5}, f"{NOT_JSON}Expected"),
    "messages that are none": ({"model": "m", "messages": "hi"}, f"{NOT_JSON}Expected"),
    "a flag that is none": ({"model": "m", "messages": [USER], "continue_final_message": "yes"}, f"{NOT_JSON}Expected"),
    "a control character": ({"model": "\x7f", "prompt": "a"}, "model holds a control character"),
}


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_what_the_api_forbids_is_refused(body, message):
    with pytest.raises(MalformedRequest) as refused:
        parse(body)
    assert str(refused.value).startswith(f"malformed request: {message}")


def test_a_form_is_refused():
    with pytest.raises(MalformedRequest, match="malformed request: multipart body not supported for this endpoint"):
        parse({"model": "m", "prompt": "a"}, "multipart/form-data; boundary=x")


def test_errors_have_openai_s_shape():
    assert json.loads(Tokenize().error_body(MalformedRequest('a "b"\n'))) == {
        "type": "error",
        "error": {"type": "BadRequest", "code": "400", "message": 'malformed request: a "b"\n'},
    }


WRONG = {
    "prompts": {"prompt": ["a", "b"]},
    "a role that is not known": {"messages": [{"role": "critic", "content": "a"}]},
    "tools that are none": {"messages": [], "tools": 5},
    "a resolution that is a number": {"messages": [], "media_resolution": 5},
    "deep nesting": b'{"messages":' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_has_to_be_rebuilt_must_have_the_types_of_the_api(body):
    with pytest.raises(MalformedRequest, match="malformed request: failed to parse JSON for /tokenize: "):
        decode_tokenize_request(body if isinstance(body, bytes) else json.dumps(body).encode())
