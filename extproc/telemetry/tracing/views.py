"""What a span can show of a request and its answer, said in words of no client API.

Texts of JSON are kept as the client or the backend wrote them. Everything is optional: a view holds what was there.
"""

from __future__ import annotations

from msgspec import Struct

JSON = "application/json"
TEXT = "text/plain"


class Part(Struct, frozen=True, kw_only=True):
    """A piece of a message.

    Attributes:
        type: ``text``, ``image``, ``audio``, ``file``, ``reasoning``, or what the API calls another one.
        text: its text, empty for others.
        url: where an image is, which may be a data URI.
    """

    type: str
    text: str = ""
    url: str = ""


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call of a tool. ``arguments`` are JSON as text."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class Message(Struct, frozen=True, kw_only=True):
    """A message of a conversation.

    Attributes:
        role: as the API has it.
        text: the content where that is one text; else ``parts`` have it.
        answers: the id of the tool call whose result this is, or empty.
        finish: why the model ended it; of messages in an answer.
    """

    role: str
    text: str | None = None
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    finish: str = ""


class Parameters(Struct, frozen=True, kw_only=True):
    """What steers generation, under the names of the GenAI conventions; ``None`` where the request does not say."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    choices: int | None = None
    encoding_formats: tuple[str, ...] = ()
    dimensions: int | None = None
    conversation: str = ""


class Tokenization(Struct, frozen=True, kw_only=True):
    """A request to count or list tokens. ``kind`` is ``completion`` or ``chat``."""

    kind: str
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    message_count: int | None = None


class RequestView(Struct, frozen=True, kw_only=True):
    """A request.

    Attributes:
        operation: a value of ``endpoints.base.Operation``.
        model: as in its body.
        stream: whether it asks for a stream.
        text: the body as text; of a form, its fields without the files, as JSON.
        mime: media type of ``text``.
        invocation: its members other than the content (messages, prompt, input, documents, tools …), as JSON.
        system: what the API says apart from the messages to the model as a whole.
        tools: each tool's definition, as JSON.
        prompts: texts to complete.
        texts: texts to embed, to speak, or to draw from.
        query, documents, top_n: of a rerank request.
    """

    operation: str
    model: str
    stream: bool = False
    text: str = ""
    mime: str = JSON
    invocation: str = "{}"
    parameters: Parameters = Parameters()
    system: tuple[Part, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    query: str = ""
    documents: tuple[str, ...] = ()
    top_n: int | None = None
    tokenization: Tokenization | None = None


class AnswerView(Struct, frozen=True, kw_only=True):
    """A successful answer, or as much of it as came.

    Attributes:
        text: the body; of a stream, the document that the same answer would be if it were not streamed.
        mime: media type of ``text``.
        finish_reasons: one for each choice, in the API's words.
        choices: completed texts.
        vectors: embeddings as numbers; those in base64 are decoded.
        scores: relevance scores of the documents, in the order of the answer.
        audio_bytes: length of the audio, or ``None``.
        audio_duration: seconds of it, as far as the answer says.
        token_count, max_model_len, tokens, token_strings: of a tokenize answer; of the lists only their lengths.
        prompt_audio_tokens, completion_audio_tokens: counts that token usage does not have.
        completed: a stream of the Responses API has told of its completion.
    """

    text: str = ""
    mime: str = JSON
    id: str = ""
    model: str = ""
    finish_reasons: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    choices: tuple[str, ...] = ()
    vectors: tuple[tuple[float, ...], ...] = ()
    scores: tuple[float, ...] = ()
    audio_bytes: int | None = None
    audio_duration: float | None = None
    language: str = ""
    token_count: int | None = None
    max_model_len: int | None = None
    tokens: int | None = None
    token_strings: int | None = None
    prompt_audio_tokens: int | None = None
    completion_audio_tokens: int | None = None
    completed: bool = False
