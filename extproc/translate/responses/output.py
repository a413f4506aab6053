"""The items of an answer, collected from what chat completions say, piece by piece or all at once.

An answer has at most one reasoning item and one message, and an item for each call. Texts are parts of the first two
and end when something else begins; items stay open to the end, as a call's arguments may come interleaved with
another's and a thought's signature comes last, and are then done in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from extproc.translate.responses import wire
from extproc.translate.responses.details import citations, logprobs
from extproc.translate.responses.thoughts import Thoughts
from extproc.translate.responses.tools import Kind, Offered, called
from extproc.translate.via_chat.answers import Choice, Message, ToolCall, reasoning_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PartKind:
    """The events of one kind of text.

    Attributes:
        of: the type of item that it is a part of.
        part: the part as the client reads it.
        has_logprobs: its events tell the probabilities of tokens.
        index: the member that says which part of its item it is.
        whole: the member that holds the whole text when it is done.
    """

    of: str
    part: Callable[[OpenPart], wire.Part]
    added: Callable[..., wire.Event]
    delta: Callable[..., wire.Event]
    whole_done: Callable[..., wire.Event]
    done: Callable[..., wire.Event]
    index: str = "content_index"
    whole: str = "text"
    has_logprobs: bool = False


class OpenPart:
    """A text that is being said."""

    def __init__(self, kind: PartKind, place: dict[str, object]) -> None:
        self.kind = kind
        self.place = place
        self.logprobs: list[wire.Logprob] = []
        self.annotations: list[wire.URLCitation] = []
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def value(self) -> wire.Part:
        return self.kind.part(self)


MESSAGE: Final = "message"
REASONING: Final = "reasoning"

TEXT: Final = PartKind(
    of=MESSAGE,
    part=lambda part: wire.OutputText(
        # As they are now: an event is written later.
        annotations=list(part.annotations),
        logprobs=list(part.logprobs),
        text=part.text,
    ),
    added=wire.PartAdded,
    delta=wire.TextDelta,
    whole_done=wire.TextDone,
    done=wire.PartDone,
    has_logprobs=True,
)
REFUSAL: Final = PartKind(
    of=MESSAGE,
    part=lambda part: wire.Refusal(refusal=part.text),
    added=wire.PartAdded,
    delta=wire.RefusalDelta,
    whole_done=wire.RefusalDone,
    done=wire.PartDone,
    whole="refusal",
)
THOUGHT: Final = PartKind(
    of=REASONING,
    part=lambda part: wire.ReasoningText(text=part.text),
    added=wire.PartAdded,
    delta=wire.ReasoningDelta,
    whole_done=wire.ReasoningDone,
    done=wire.PartDone,
)
SUMMARY: Final = PartKind(
    of=REASONING,
    part=lambda part: wire.SummaryText(text=part.text),
    added=wire.SummaryPartAdded,
    delta=wire.SummaryDelta,
    whole_done=wire.SummaryDone,
    done=wire.SummaryPartDone,
    index="summary_index",
)


class _TextItem:
    """A message, or reasoning."""

    def __init__(self, item_id: str, kind: str, output_index: int) -> None:
        self.id = item_id
        self.kind = kind
        self.output_index = output_index
        self.parts: list[OpenPart] = []
        self.sealed: str | None = None

    def value(self, status: str, *, bare: bool = False) -> wire.Item:
        """The item; a ``bare`` one without its content, as it is at its begin."""
        parts: list[wire.Part] = [] if bare else [part.value() for part in self.parts]
        if self.kind == MESSAGE:
            return wire.Message(id=self.id, status=status, content=parts)
        summarized = bool(parts) and isinstance(parts[0], wire.SummaryText)
        return wire.Reasoning(
            id=self.id,
            summary=parts if summarized else [],
            content=UNSET if summarized else parts or UNSET,
            encrypted_content=self.sealed or UNSET,
            status=status,
        )


class _Call:
    """A call; it has its place among the items once its name is known.

    Attributes:
        given: the id that the backend gave it; it may come late.
        call_id: the one that the client is told.
    """

    def __init__(self, item_id: str) -> None:
        self.id = item_id
        self.given = ""
        self.call_id = ""
        self.name = ""
        self.output_index: int | None = None
        self.pieces: list[str] = []
        self.tool: Offered | None = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_function(self) -> bool:
        """Whether the client reads the arguments as they are; those of a tool that nobody offered as well."""
        return self.tool is None or self.tool.kind is Kind.FUNCTION

    def value(self, status: str, *, bare: bool = False) -> wire.Item:
        return called(
            self.tool,
            item_id=self.id,
            call_id=self.call_id,
            status=status,
            name=self.name,
            arguments="" if bare else self.arguments,
        )


class Output:
    """Collects an answer.

    Args:
        new_id: an id with this prefix, another one each time.
        number: the next number of the sequence of events.
        family: of the model, whose thoughts it may want back.
        tools: that the model is offered, by the names of their functions.
        summarized: the client asked for a summary of the reasoning, and reads it there.
        with_logprobs: it asked for the probabilities of tokens.
    """

    def __init__(
        self,
        *,
        new_id: Callable[[str], str],
        number: Callable[[], int],
        family: str,
        tools: Mapping[str, Offered],
        summarized: bool,
        with_logprobs: bool,
    ) -> None:
        self._new_id = new_id
        self._number = number
        self._thought_kind = SUMMARY if summarized else THOUGHT
        self._with_logprobs = with_logprobs
        self._thoughts = Thoughts(family)
        self._tools = tools
        self._items: list[_TextItem | _Call] = []
        self._texts: dict[str, _TextItem] = {}
        self._calls: list[_Call] = []
        self._numbered: dict[int, _Call] = {}
        self._part: OpenPart | None = None
        self._events: list[wire.Event] = []

    def take(self) -> list[wire.Event]:
        """The events since it was last asked."""
        events, self._events = self._events, []
        return events

    def add(self, choice: Choice, said: Message) -> None:
        """Add what the model says, or a piece of it."""
        blocks = said.thinking_blocks or ()
        if thought := self._thoughts.add(reasoning_text(said), blocks):
            self._say(self._thought_kind, thought)
        elif blocks and not self._items:
            # Thoughts that only their provider can read come before what was made of them.
            self._text_item(REASONING)
        probabilities = logprobs(choice.logprobs) if self._with_logprobs else []
        if said.content or probabilities:
            self._say(TEXT, said.content or "", probabilities)
        if said.refusal:
            self._say(REFUSAL, said.refusal)
        for citation in citations(said.annotations):
            self._annotate(citation)
        for position, call in enumerate(said.tool_calls or ()):
            self._add_call(call, position)

    def close(self, status: str) -> list[wire.Item]:
        """The answer is at its end: close what is open; a ``status`` that is not completed is that of the last item."""
        self._end_part()
        for call in self._calls:
            self._place(call)
        last = len(self._items) - 1
        sealed = self._thoughts.sealed()
        if sealed is not None:
            self._text_item(REASONING).sealed = sealed
        values = []
        for index, item in enumerate(self._items):
            value = item.value(status if index == last else wire.COMPLETED)
            if isinstance(item, _Call):
                self._end_call(item, value)
            self._emit(wire.ItemDone, output_index=index, item=value)
            values.append(value)
        return values

    def so_far(self) -> list[wire.Item]:
        """The items of an answer that has broken off."""
        return [item.value(wire.INCOMPLETE) for item in self._items]

    def _emit(self, event: Callable[..., wire.Event], **members: object) -> None:
        self._events.append(event(sequence_number=self._number(), **members))

    # --- texts ---

    def _say(self, kind: PartKind, piece: str, probabilities: list[wire.Logprob] | None = None) -> None:
        part = self._open_part(kind)
        part.add(piece)
        extras: dict[str, object] = {}
        if kind.has_logprobs:
            part.logprobs += probabilities or []
            extras["logprobs"] = probabilities or []
        self._emit(kind.delta, **part.place, delta=piece, **extras)

    def _open_part(self, kind: PartKind) -> OpenPart:
        """The part that is being said, a new one where another kind was."""
        if self._part is not None and self._part.kind is kind:
            return self._part
        self._end_part()
        item = self._text_item(kind.of)
        place = {"item_id": item.id, "output_index": item.output_index, kind.index: len(item.parts)}
        part = self._part = OpenPart(kind, place)
        item.parts.append(part)
        self._emit(kind.added, **place, part=part.value())
        return part

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        kind = part.kind
        extras: dict[str, object] = {"logprobs": part.logprobs} if kind.has_logprobs else {}
        self._emit(kind.whole_done, **part.place, **{kind.whole: part.text}, **extras)
        self._emit(kind.done, **part.place, part=part.value())

    def _text_item(self, kind: str) -> _TextItem:
        item = self._texts.get(kind)
        if item is None:
            prefix = "msg" if kind == MESSAGE else "rs"
            item = self._texts[kind] = _TextItem(self._new_id(prefix), kind, len(self._items))
            self._items.append(item)
            self._emit(wire.ItemAdded, output_index=item.output_index, item=item.value(wire.IN_PROGRESS, bare=True))
        return item

    def _annotate(self, citation: wire.URLCitation) -> None:
        part = self._open_part(TEXT)
        part.annotations.append(citation)
        number = len(part.annotations) - 1
        self._emit(wire.AnnotationAdded, **part.place, annotation_index=number, annotation=citation)

    # --- calls ---

    def _add_call(self, piece: ToolCall, position: int) -> None:
        call = self._call(piece, position)
        call.name = call.name or piece.function.name or ""
        if call.name:
            self._place(call)
        if arguments := piece.function.arguments:
            call.pieces.append(arguments)
            if call.output_index is not None:
                self._emit_arguments(call, arguments)

    def _call(self, piece: ToolCall, position: int) -> _Call:
        """The call that a piece belongs to. Some servers number all calls alike, or none; then the id tells."""
        key = position if piece.index is None else piece.index
        call = self._numbered.get(key)
        if call is not None and call.given and piece.id and piece.id != call.given:
            call = next((each for each in self._calls if each.given == piece.id), None)
        if call is None:
            call = _Call(self._new_id("fc"))
            self._calls.append(call)
        call.given = call.given or piece.id or ""
        self._numbered[key] = call
        return call

    def _place(self, call: _Call) -> None:
        """Give a call its place among the items, if it has none yet."""
        if call.output_index is not None:
            return
        self._end_part()
        # Results are told apart by it, so it must not be another call's.
        taken = any(each.call_id == call.given for each in self._calls)
        call.call_id = self._new_id("call") if taken or not call.given else call.given
        call.output_index = len(self._items)
        call.tool = self._tools.get(call.name)
        self._items.append(call)
        self._emit(wire.ItemAdded, output_index=call.output_index, item=call.value(wire.IN_PROGRESS, bare=True))
        if arguments := call.arguments:
            self._emit_arguments(call, arguments)

    def _emit_arguments(self, call: _Call, delta: str) -> None:
        """Tell a piece of the arguments; what other tools take is told when it is whole, as it is wrapped in them."""
        if call.is_function:
            self._emit(wire.ArgumentsDelta, output_index=call.output_index, item_id=call.id, delta=delta)

    def _end_call(self, call: _Call, value: wire.Item) -> None:
        place: dict[str, object] = {"output_index": call.output_index, "item_id": call.id}
        match value:
            case wire.FunctionCall():
                self._emit(wire.ArgumentsDone, **place, name=value.name, arguments=value.arguments)
            case wire.CustomToolCall():
                self._emit(wire.InputDelta, **place, delta=value.input)
                self._emit(wire.InputDone, **place, input=value.input)
