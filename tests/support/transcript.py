"""Exchanges as text that one can read: what Envoy sent (``>>``), and what it was told (``<<``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

from extproc.exchange.headers import listed_headers
from protos.ext_proc_pb2 import HeaderMutation, ProcessingRequest, ProcessingResponse
from tests.support.playbook import Exchange, Reply


class Transcript(Exchange):
    """An exchange that writes down what is said."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lines: list[str] = []

    def send(self, stream: Any, message: ProcessingRequest) -> Reply:
        level = "router" if stream is self.router else f"attempt {len(self.attempts)}"
        self.lines += [f">> {level}: {message.WhichOneof('request')}", *_said(message)]
        reply = super().send(stream, message)
        self.lines += [f"<< {reply.kind}", *_answered(reply.message), ""]
        return reply

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _said(message: ProcessingRequest) -> Iterator[str]:
    kind = message.WhichOneof("request") or ""
    content = getattr(message, kind)
    if kind.endswith("_headers"):
        headers = listed_headers(content.headers)
        yield from (f"   {header.key}: {header.raw_value.decode()}" for header in headers)
    if kind.endswith("_body"):
        yield from _body(content.body)
    for encoded in message.attributes.values():
        attributes = MessageToDict(Struct.FromString(encoded))
        yield from (f"   attribute {name} = {json.dumps(value)}" for name, value in sorted(attributes.items()))
    if not kind.endswith("_trailers") and content.end_of_stream:
        yield "   (end of stream)"


def _answered(reply: ProcessingResponse) -> Iterator[str]:
    kind = reply.WhichOneof("response") or ""
    if kind == "immediate_response":
        yield f"   status {reply.immediate_response.status.code}"
        yield from _mutation(reply.immediate_response.headers)
        yield from _body(reply.immediate_response.body)
    elif not kind.endswith("_trailers"):
        common = getattr(reply, kind).response
        if common.status:
            yield "   CONTINUE_AND_REPLACE"
        yield from _mutation(common.header_mutation)
        if common.body_mutation.WhichOneof("mutation") == "body":
            yield "   body:"
            yield from _body(common.body_mutation.body)
        if common.clear_route_cache:
            yield "   clear_route_cache"
    if reply.HasField("mode_override"):
        yield f"   mode_override {json.dumps(MessageToDict(reply.mode_override, preserving_proto_field_name=True))}"
    if reply.HasField("dynamic_metadata"):
        for namespace, values in sorted(MessageToDict(reply.dynamic_metadata).items()):
            yield from (
                f"   metadata {namespace}: {key} = {json.dumps(value)}" for key, value in sorted(values.items())
            )


def _mutation(mutation: HeaderMutation) -> Iterator[str]:
    yield from (f"   set {option.header.key}: {option.header.raw_value.decode()}" for option in mutation.set_headers)
    yield from (f"   remove {name}" for name in mutation.remove_headers)


def _body(body: bytes) -> Iterator[str]:
    text = body.decode("utf-8", "backslashreplace")
    yield from (f"   | {line}" for line in text.splitlines() or ["(empty)"])
