"""Every request and every answer of the golden files has a view, with what it says, however it is cut."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from extproc.endpoints.base import Operation
from extproc.telemetry.tracing.base import TracedRequest
from extproc.telemetry.tracing.readers.table import READERS
from extproc.telemetry.tracing.views import AnswerView, RequestView
from tests.support.golden import GOLDEN

# Folder of an API, or of a part of it → operation.
OPERATIONS = {
    "chat": Operation.CHAT,
    "completions": Operation.COMPLETION,
    "embeddings": Operation.EMBEDDINGS,
    "responses": Operation.RESPONSES,
    "responses_input_tokens": Operation.RESPONSES_INPUT_TOKENS,
    "messages": Operation.MESSAGES,
    "count_tokens": Operation.COUNT_TOKENS,
    "tokenize": Operation.TOKENIZE,
    "rerank": Operation.RERANK,
    "speech": Operation.SPEECH,
    "transcriptions": Operation.TRANSCRIPTION,
    "translations": Operation.TRANSLATION,
    "generations": Operation.IMAGE_GENERATION,
    "edits": Operation.IMAGE_EDIT,
}
FOLDERS = sorted(
    {path.parents[1] for api in (*OPERATIONS, "audio", "images") for path in (GOLDEN / api).glob("*/*/request.*")}
)

# Requests that have nothing but a file, token ids or a reference, or are refused for having nothing.
WITHOUT_CONTENT = {
    "completions/openai/stream",
    "embeddings/openai/override",
    "images/edits-openai/refused-without-end",
    "responses/chat-only/refused-item-reference",
    "tokenize/openai/refused-without-a-model",
}

# Answers with status 200 that end before they say anything, or are none.
SAYS_NOTHING = {
    "chat/bedrock/stream-error-of-the-framing",
    "chat/bedrock/stream-not-a-stream",
    "chat/gemini/stream-array",
    "images/generations-openai/answer-not-json",
    "images/generations-openai/answer-of-null",
    "images/generations-openai/stream-error-in-the-middle",
    "images/generations-openai/usage-of-another-shape",
    "messages/aws-anthropic/stream-with-an-error-of-the-model",
    "messages/bedrock/stream-error-of-the-framing",
    "messages/gcp-anthropic/stream-that-breaks-off",
    "messages/openai/stream-document-error",
    "messages/openai/stream-empty",
    "messages/openai/stream-error-of-vllm",
    "responses/openai/background",
    "responses/openai/document-failed",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    operation: Operation
    request: TracedRequest
    answer: bytes | None

    @property
    def streams(self) -> bool:
        return any(line.startswith((b"data:", b"event:")) for line in (self.answer or b"").splitlines()[:3])

    def read(self, size: int) -> AnswerView:
        reader = READERS[self.operation].answer(self.request, stream=self.streams)
        assert self.answer is not None
        for at in range(0, len(self.answer), size):
            reader.feed(self.answer[at : at + size])
        return reader.close()


def read_case(path: Path) -> Case:
    name = str(path.relative_to(GOLDEN))
    api, backend, _ = name.split("/")
    operation = OPERATIONS.get(api) or OPERATIONS[backend.split("-")[0]]
    headers = json.loads(text) if (text := _text(path / "headers.json")) else {}
    [request] = path.glob("request.*")
    traced = TracedRequest(
        operation=operation,
        model="m",
        stream=False,
        body=request.read_bytes(),
        content_type=headers.get("content-type", "application/json"),
        headers=headers,
    )
    return Case(name=name, operation=operation, request=traced, answer=_answer(_text(path / "reply.txt")))


def _text(path: Path) -> str:
    return path.read_bytes().decode() if path.exists() else ""


def _answer(reply: str) -> bytes | None:
    head, _, body = reply.partition("\n\n")
    return body[: body.rindex("\n-- usage: ") + 1].encode() if head.startswith("HTTP 200") else None


def _cases(folder: Path) -> list[Case]:
    cases = [read_case(path.parent) for path in sorted(folder.glob("*/request.*"))]
    assert cases
    return cases


each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=[str(each.relative_to(GOLDEN)) for each in FOLDERS])


@each_folder
def test_every_request_has_its_content(folder):
    for case in _cases(folder):
        view = READERS[case.operation].request(case.request)

        assert view.text, case.name
        # A transcript is of a file, which is not shown.
        if case.operation not in {Operation.TRANSCRIPTION, Operation.TRANSLATION}:
            assert bool(_content(view)) is not (case.name in WITHOUT_CONTENT), case.name


def _content(view: RequestView) -> tuple[object, ...]:
    return (*view.messages, *view.prompts, *view.texts, *view.documents)


@each_folder
def test_every_answer_says_what_it_says_however_it_is_cut(folder):
    for case in (each for each in _cases(folder) if each.answer is not None):
        whole = case.read(1 << 20)

        assert _said(whole) is not (case.name in SAYS_NOTHING), case.name
        assert case.read(1) == case.read(7) == whole, case.name


def _said(view: AnswerView) -> bool:
    counts = view.token_count is not None or view.audio_bytes is not None
    transcript = view.mime == "text/plain" and view.text
    return bool(_spoken(view) or view.choices or view.vectors or view.scores or counts or transcript)


def _spoken(view: AnswerView) -> bool:
    return any(each.text or each.parts or each.tool_calls or each.finish for each in view.messages)


@each_folder
def test_a_stream_has_the_text_of_a_document_that_is_read_alike(folder):
    for case in (each for each in _cases(folder) if each.streams):
        view = case.read(1 << 20)
        if view.mime == "application/json" and case.name not in SAYS_NOTHING:
            reader = READERS[case.operation].answer(case.request, stream=False)
            reader.feed(view.text.encode())
            again = reader.close()

            assert (again.text, again.messages, again.choices) == (view.text, view.messages, view.choices), case.name
            assert json.loads(view.text)
