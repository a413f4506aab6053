"""Items of the responses API as messages of chat completions.

There, what the model says is one message with its calls, and the results of the calls follow it at once. Here they are
items in any order, so they are collected into turns: an item of the model continues its turn until something else
comes, and a result belongs to the turn that has its call.

Left out is what has no words for another model: its reasoning, unless it can take that back, and the searches in the
web that OpenAI has run, of which the answer that follows tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from extproc.endpoints.responses_request import (
    CallOutputItem,
    Content,
    CustomCallItem,
    FunctionCallItem,
    ItemHead,
    LocalShellCallItem,
    LocalShellOutputItem,
    MessageItem,
    Part,
    ReasoningItem,
    read_head,
    read_item,
)
from extproc.errors import MalformedRequest, UnprocessableRequest
from extproc.translate.responses import chat
from extproc.translate.responses.refusal import unsupported
from extproc.translate.responses.thoughts import unseal
from extproc.translate.responses.tools import LOCAL_SHELL, custom_arguments, function_name, shell_arguments
from extproc.translate.via_chat import attachments
from extproc.translate.via_chat import wire as common


class _Turn:
    """What the model said in one go, and what came of its calls."""

    def __init__(self) -> None:
        self.parts: list[chat.Part] = []
        self.calls: dict[str, common.ToolCall] = {}
        self.thoughts: list[Raw] = []
        self.results: list[chat.ToolResult] = []
        self.attached: list[chat.Part] = []

    def messages(self) -> Iterator[chat.ChatMessage]:
        if self.parts or self.calls:
            yield chat.AssistantMessage(
                content=_simplest(self.parts) if self.parts else None,
                tool_calls=list(self.calls.values()) or UNSET,
                thinking_blocks=self.thoughts or UNSET,
            )
        yield from self.results
        if self.attached:
            yield chat.Message(content=self.attached, role="user")


class Conversation:
    """Collects the items of one request.

    Args:
        family: of the models whose thoughts are given back to them.
    """

    def __init__(self, *, family: str) -> None:
        self._family = family
        self._said: list[chat.Message | _Turn] = []
        # The turn that the next item of the model continues.
        self._open: _Turn | None = None
        self._callers: dict[str, _Turn] = {}
        # By the ids of their items, as their results name those.
        self._shell_calls: dict[str, str] = {}

    def instruct(self, text: str) -> None:
        self._said.append(chat.Message(content=text, role="system"))

    def ask(self, text: str) -> None:
        self._said.append(chat.Message(content=text, role="user"))

    def add(self, item: Raw, where: str) -> None:
        """Add an item.

        Raises:
            MalformedRequest: it is none of the API.
            UnprocessableRequest: chat completions cannot say it; the text names it.
        """
        head = read_head(item, where)
        kind = _kind(head, where)
        add = _ADD.get(kind)
        if add is None:
            raise unsupported(f"{where}.type: an item of type {kind}")
        add(self, item, where)

    def messages(self) -> list[chat.ChatMessage]:
        messages: list[chat.ChatMessage] = []
        for each in self._said:
            messages += each.messages() if isinstance(each, _Turn) else [each]
        return messages

    def _turn(self) -> _Turn:
        if self._open is None:
            self._open = _Turn()
            self._said.append(self._open)
        return self._open

    def _add_message(self, item: Raw, where: str) -> None:
        message = read_item(_MESSAGE, item, where)
        where = f"{where}.content"
        match message.role:
            case "assistant":
                self._turn().parts.extend(_parts(message.content, _SPOKEN, where))
            case "user":
                self._end_turn(chat.Message(content=_content(message.content, _HEARD, where), role="user"))
            case "system" | "developer":
                # Every server of chat completions knows this role, and means the same by it.
                self._end_turn(chat.Message(content=_content(message.content, _TEXTS, where), role="system"))
            case _:
                raise unsupported(f"{where.removesuffix('.content')}.role: {message.role!r}")

    def _end_turn(self, message: chat.Message) -> None:
        self._open = None
        self._said.append(message)

    def _add_call(self, item: Raw, where: str) -> None:
        call = read_item(_FUNCTION_CALL, item, where)
        self._called(call.call_id, function_name(call.name, call.namespace), call.arguments, where)

    def _add_custom_call(self, item: Raw, where: str) -> None:
        call = read_item(_CUSTOM_CALL, item, where)
        self._called(call.call_id, function_name(call.name, call.namespace), custom_arguments(call.input), where)

    def _add_shell_call(self, item: Raw, where: str) -> None:
        call = read_item(_SHELL_CALL, item, where)
        self._called(call.call_id, LOCAL_SHELL, shell_arguments(call.action), where)
        if call.id:
            self._shell_calls[call.id] = call.call_id

    def _called(self, call_id: str, name: str, arguments: str, where: str) -> None:
        if call_id in self._callers:
            raise UnprocessableRequest(f"{where}.call_id: {call_id!r} is the id of another call")
        turn = self._turn()
        turn.calls[call_id] = common.ToolCall(id=call_id, function=common.FunctionCall(arguments=arguments, name=name))
        self._callers[call_id] = turn

    def _add_output(self, item: Raw, where: str) -> None:
        output = read_item(_CALL_OUTPUT, item, where)
        self._resulted(output.call_id, output.output, where)

    def _add_shell_output(self, item: Raw, where: str) -> None:
        output = read_item(_SHELL_OUTPUT, item, where)
        given = output.call_id or output.id or ""
        self._resulted(self._shell_calls.get(given, given), output.output, where)

    def _resulted(self, call_id: str, output: Content, where: str) -> None:
        turn = self._callers.get(call_id)
        if turn is None:
            raise UnprocessableRequest(f"{where}.call_id: no call before it has the id {call_id!r}")
        parts = _parts(output, _RESULTS, f"{where}.output")
        attached = [part for part in parts if not isinstance(part, common.TextPart)]
        content = _simplest(parts)
        if attached:
            text = "".join(part.text for part in parts if isinstance(part, common.TextPart))
            content = attachments.noted(text, len(attached))
            turn.attached += [common.TextPart(text=attachments.label(call_id)), *attached]
        turn.results.append(chat.ToolResult(content=content, tool_call_id=call_id))
        if turn is self._open:
            self._open = None

    def _leave_out(self, item: Raw, where: str) -> None:
        """See above."""

    def _add_reasoning(self, item: Raw, where: str) -> None:
        thoughts = unseal(read_item(_REASONING, item, where).encrypted_content, self._family)
        if thoughts:
            self._turn().thoughts.extend(thoughts)


_Add = Callable[[Conversation, Raw, str], None]

_ADD: Final[Mapping[str, _Add]] = {
    "message": Conversation._add_message,  # noqa: SLF001 - the table of this class
    "function_call": Conversation._add_call,  # noqa: SLF001
    "function_call_output": Conversation._add_output,  # noqa: SLF001
    "custom_tool_call": Conversation._add_custom_call,  # noqa: SLF001
    "custom_tool_call_output": Conversation._add_output,  # noqa: SLF001
    "local_shell_call": Conversation._add_shell_call,  # noqa: SLF001
    "local_shell_call_output": Conversation._add_shell_output,  # noqa: SLF001
    "reasoning": Conversation._add_reasoning,  # noqa: SLF001
    "web_search_call": Conversation._leave_out,  # noqa: SLF001
}

_MESSAGE: Final = msgspec.json.Decoder(MessageItem)
_FUNCTION_CALL: Final = msgspec.json.Decoder(FunctionCallItem)
_CUSTOM_CALL: Final = msgspec.json.Decoder(CustomCallItem)
_SHELL_CALL: Final = msgspec.json.Decoder(LocalShellCallItem)
_CALL_OUTPUT: Final = msgspec.json.Decoder(CallOutputItem)
_SHELL_OUTPUT: Final = msgspec.json.Decoder(LocalShellOutputItem)
_REASONING: Final = msgspec.json.Decoder(ReasoningItem)


def _kind(head: ItemHead, where: str) -> str:
    if head.type:
        return head.type
    if head.role is not None:
        return "message"
    if head.id is not None:
        return "item_reference"
    raise MalformedRequest(f"{where}: an item needs a type, or a role and content")


# --- content ---


def _text(part: Part, _where: str) -> chat.Part:
    return common.TextPart(text=part.text or "")


def _refusal(part: Part, _where: str) -> chat.Part:
    return chat.RefusalPart(refusal=part.refusal or "")


def _image(part: Part, where: str) -> chat.Part:
    if not part.image_url:
        raise unsupported(f"{where}.file_id" if part.file_id else f"{where}: an image without image_url")
    return common.ImagePart(image_url=common.ImageURL(url=part.image_url, detail=part.detail or UNSET))


def _file(part: Part, where: str) -> chat.Part:
    if part.file_url:
        raise unsupported(f"{where}.file_url")
    if not (part.file_data or part.file_id):
        raise UnprocessableRequest(f"{where}: a file needs file_data or file_id")
    source = chat.FileSource(
        file_data=part.file_data or UNSET, file_id=part.file_id or UNSET, filename=part.filename or UNSET
    )
    return chat.File(file=source)


def _audio(part: Part, where: str) -> chat.Part:
    if part.input_audio is None:
        raise UnprocessableRequest(f"{where}.input_audio is required")
    return chat.Audio(input_audio=chat.AudioData(data=part.input_audio.data, format=part.input_audio.format))


_Readers = Mapping[str, Callable[[Part, str], chat.Part]]

_TEXTS: Final[_Readers] = {"input_text": _text, "output_text": _text, "text": _text}
_SPOKEN: Final[_Readers] = {**_TEXTS, "refusal": _refusal}
_RESULTS: Final[_Readers] = {**_TEXTS, "input_image": _image, "input_file": _file}
_HEARD: Final[_Readers] = {**_RESULTS, "input_audio": _audio}


def _content(content: Content, readers: _Readers, where: str) -> str | list[chat.Part]:
    return content if isinstance(content, str) else _simplest(_parts(content, readers, where))


def _simplest(parts: list[chat.Part]) -> str | list[chat.Part]:
    """One text as text alone, the form that every server takes."""
    if not parts:
        return ""
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], common.TextPart) else parts


def _parts(content: Content, readers: _Readers, where: str) -> list[chat.Part]:
    if isinstance(content, str):
        return [common.TextPart(text=content)]
    return [_part(part, readers, f"{where}[{index}]") for index, part in enumerate(content)]


def _part(part: Part, readers: _Readers, where: str) -> chat.Part:
    read = readers.get(part.type)
    if read is None:
        raise unsupported(f"{where}.type: {part.type!r} in this place")
    return read(part, where)
