"""Views of requests and answers by hand and by chance, for the conventions that name what is in them."""

from __future__ import annotations

from hypothesis import strategies as st

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import Attributes
from extproc.telemetry.tracing.views import AnswerView, Message, Parameters, Part, RequestView, Tokenization, ToolCall
from extproc.usage import TokenUsage

WORD = "correct horse"
"""What stands in every text of ``spoken_request`` and ``spoken_answer``."""

_SPOKEN_PARTS = (
    Part(type="text", text=f"{WORD} part"),
    Part(type="reasoning", text=f"{WORD} thought"),
    Part(type="image", url=f"https://example.com/{WORD}.png"),
    Part(type="image", url=f"data:image/png;base64,{WORD}"),
    Part(type="search_result", text=f"{WORD} found"),
)
_SPOKEN_MESSAGES = (
    Message(role="user", text=f"{WORD} message", finish=WORD),
    Message(
        role="assistant",
        parts=_SPOKEN_PARTS,
        tool_calls=(ToolCall(id=f"{WORD} id", name=f"{WORD} name", arguments=f'{{"{WORD}": 1}}'),),
    ),
    Message(role="tool", text=f"{WORD} result", answers=f"{WORD} id"),
)


def spoken_request(operation: str) -> RequestView:
    """A request of this operation that says ``WORD`` wherever a client can say something."""
    return RequestView(
        operation=operation,
        model="m",
        text=f'{{"said": "{WORD}"}}',
        invocation=f'{{"user": "{WORD}"}}',
        system=_SPOKEN_PARTS,
        messages=_SPOKEN_MESSAGES,
        tools=(f'{{"type": "function", "name": "{WORD}"}}',),
        prompts=(f"{WORD} prompt",),
        texts=(f"{WORD} text",),
        query=f"{WORD} query",
        documents=(f"{WORD} document",),
    )


def spoken_answer() -> AnswerView:
    """An answer that says ``WORD`` wherever a model can say something."""
    return AnswerView(
        text=f'{{"said": "{WORD}"}}',
        messages=_SPOKEN_MESSAGES,
        choices=(f"{WORD} choice",),
        vectors=((0.5, 0.25),),
        scores=(0.75,),
        language=WORD,
    )


def said(attributes: Attributes, word: str = WORD) -> list[str]:
    """Keys of the attributes that have the word, in the key or in the value."""
    return [key for key, value in attributes.items() if word in key or word in str(value)]


def illegal(attributes: Attributes) -> list[str]:
    """Keys of the attributes that OTLP has no value for, or whose value says nothing."""
    return [key for key, value in attributes.items() if not key or not _exportable(value)]


def _exportable(value: object) -> bool:
    match value:
        case bool() | float():
            return True
        case int():
            return -(2**63) <= value < 2**63
        case str():
            return value != ""
        case list() | tuple():
            return len({type(element) for element in value}) == 1 and isinstance(value[0], str | float)
    return False


# --- any view ---

_texts = st.text(st.characters(codec="utf-8"), max_size=12)
_json = _texts | st.sampled_from(
    ["{}", "[", "1", '{"a": 1e400}', "[" * 2000, '{"type": "function"}', '{"function": {}, "type": "function"}']
)
_counts = st.none() | st.integers()
_numbers = st.none() | st.floats()


def _tuples(elements: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(elements, max_size=2).map(tuple)


_parts = st.builds(
    Part,
    type=st.sampled_from(["text", "image", "audio", "file", "reasoning", "other", ""]),
    text=_texts,
    url=_texts | st.sampled_from(["data:image/png;base64,AAAA", "data:,x", "https://example.com/a.png"]),
)
_calls = st.builds(ToolCall, id=_texts, name=_texts, arguments=_json)
_messages = st.builds(
    Message,
    role=_texts,
    text=st.none() | _texts,
    parts=_tuples(_parts),
    tool_calls=_tuples(_calls),
    answers=_texts,
    finish=_texts,
)
_parameters = st.builds(
    Parameters,
    **dict.fromkeys(("max_tokens", "seed", "choices", "dimensions"), _counts),
    **dict.fromkeys(("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty"), _numbers),
    **dict.fromkeys(("stop", "encoding_formats"), _tuples(_texts)),
    conversation=_texts,
)
_flags = st.none() | st.booleans()
_tokenizations = st.builds(
    Tokenization,
    kind=st.sampled_from(["chat", "completion"]),
    add_special_tokens=_flags,
    return_token_strs=_flags,
    add_generation_prompt=_flags,
    continue_final_message=_flags,
    message_count=_counts,
)

requests = st.builds(
    RequestView,
    operation=st.sampled_from(list(Operation)),
    stream=st.booleans(),
    **dict.fromkeys(("model", "text", "mime", "query"), _texts),
    invocation=_json,
    parameters=_parameters,
    system=_tuples(_parts),
    messages=_tuples(_messages),
    tools=_tuples(_json),
    **dict.fromkeys(("prompts", "texts", "documents"), _tuples(_texts)),
    top_n=_counts,
    tokenization=st.none() | _tokenizations,
)
answers = st.builds(
    AnswerView,
    **dict.fromkeys(("text", "id", "model", "language"), _texts),
    mime=st.sampled_from(["application/json", "text/plain", "audio/mpeg"]),
    finish_reasons=_tuples(_texts),
    messages=_tuples(_messages),
    choices=_tuples(_texts),
    vectors=_tuples(_tuples(st.floats())),
    scores=_tuples(st.floats()),
    **dict.fromkeys(
        (
            "audio_bytes", "token_count", "max_model_len", "tokens", "token_strings",
            "prompt_audio_tokens", "completion_audio_tokens",
        ),
        _counts,
    ),
    audio_duration=_numbers,
    completed=st.booleans(),
)  # fmt: skip
usages = st.builds(TokenUsage, **dict.fromkeys(TokenUsage.__struct_fields__, _counts))
