"""Replies are encoded by hand; the wire library says whether they are what they should be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.errors import MalformedRequest, MissingCredential
from extproc.exchange import names, replies
from protos.ext_proc_pb2 import STREAMED, CommonResponse, HeaderMutation, HeaderValueOption, ProcessingResponse

TEXT = st.text(max_size=8) | st.sampled_from(["x" * 120, "x" * 123, "x" * 130, "ü" * 70, "x" * 20_000])
NAME = TEXT | st.sampled_from([":path", "content-length", "x-ai-eg-model", "Authorization"])
HEADERS = st.lists(st.tuples(NAME, TEXT), max_size=4)
METADATA = st.dictionaries(TEXT, TEXT | st.integers(0, 2**53) | st.floats(allow_nan=False), max_size=4)
BODY = st.none() | st.binary(max_size=300) | st.sampled_from([b"x" * 127, b"x" * 128, b"x" * 70_000])
MESSAGES = ("request_headers", "request_body", "response_headers", "response_body")


def parsed(reply: replies.Reply) -> ProcessingResponse:
    return ProcessingResponse.FromString(reply.SerializeToString())


def mutate(mutation: HeaderMutation, sets: list[tuple[str, str]], removes: list[str]) -> None:
    for name, value in sets:
        option = mutation.set_headers.add(append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD)
        option.header.key = name
        option.header.raw_value = value.encode()
    mutation.remove_headers.extend(removes)


def add_metadata(message: ProcessingResponse, metadata: replies.Metadata) -> None:
    if metadata:
        struct = message.dynamic_metadata.fields[names.METADATA_NAMESPACE].struct_value
        for key, value in metadata.items():
            struct[key] = value


@given(
    st.sampled_from(MESSAGES),
    HEADERS,
    st.lists(NAME, max_size=3),
    BODY,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    METADATA,
)
def test_common_replies_are_those_of_the_wire_library(  # noqa: PLR0917 - one argument each
    kind, sets, removes, body, replace, clear, stream, metadata
):
    message = ProcessingResponse()
    getattr(message, kind).SetInParent()
    common = CommonResponse(status=CommonResponse.CONTINUE_AND_REPLACE if replace else CommonResponse.CONTINUE)
    if sets or removes:
        mutate(common.header_mutation, sets, removes)
    if body is not None:
        common.body_mutation.body = body
    common.clear_route_cache = clear
    if common != CommonResponse():
        getattr(message, kind).response.CopyFrom(common)
    add_metadata(message, metadata)
    if stream:
        message.mode_override.response_body_mode = STREAMED

    reply = replies.common(
        kind,
        sets=sets,
        removes=removes,
        body=body,
        replace=replace,
        clear_route_cache=clear,
        stream_response_body=stream,
        metadata=metadata,
    )

    assert parsed(reply) == message


@given(st.sampled_from(MESSAGES), NAME, st.lists(TEXT, min_size=1, max_size=3), st.lists(NAME, max_size=2))
def test_a_reply_with_one_header_is_the_common_one(kind, name, values, removes):
    for value in values:
        reply = replies.one_header(kind, name, value, removes=tuple(removes))
        common = replies.common(kind, sets=[(name, value)], removes=removes)
        assert reply.SerializeToString() == common.SerializeToString()


@given(st.sampled_from(MESSAGES), st.lists(st.binary(max_size=300), min_size=1, max_size=3))
def test_a_reply_with_a_piece_is_the_common_one(kind, bodies):
    for body in [*bodies, b"", b"x" * 70_000]:
        assert replies.piece(kind, body).SerializeToString() == replies.common(kind, body=body).SerializeToString()


@given(st.sampled_from(["request_trailers", "response_trailers"]), METADATA)
def test_replies_to_trailers_are_those_of_the_wire_library(kind, metadata):
    message = ProcessingResponse()
    getattr(message, kind).SetInParent()
    add_metadata(message, metadata)
    assert parsed(replies.neutral(kind, metadata)) == message


@given(
    st.sampled_from([200, 400, 401, 404, 413, 422, 500, 502, 599]),
    st.binary(max_size=300),
    st.none() | TEXT,
    st.sampled_from([0, 3, 5, 13, 16]),
)
def test_answers_of_ours_are_those_of_the_wire_library(status, body, content_type, grpc_status):
    message = ProcessingResponse()
    message.immediate_response.status.code = status
    message.immediate_response.body = body
    message.immediate_response.grpc_status.status = grpc_status
    if content_type is not None:
        headers = [("content-type", content_type), ("content-length", str(len(body)))]
        mutate(message.immediate_response.headers, headers, [])
    reply = replies.immediate(status, body, content_type=content_type, grpc_status=grpc_status)
    assert parsed(reply) == message


@pytest.mark.parametrize("error", [MalformedRequest("x"), MissingCredential()])
def test_a_client_error_has_the_status_of_its_class(error):
    immediate = parsed(replies.client_error(error, b"{}")).immediate_response
    assert immediate.status.code == error.status
    assert immediate.grpc_status.status == error.grpc_status


@pytest.mark.parametrize("kind", [*MESSAGES, "request_trailers", "response_trailers"])
def test_the_neutral_reply_is_empty(kind):
    message = ProcessingResponse()
    getattr(message, kind).SetInParent()
    assert parsed(replies.neutral(kind)) == message


def test_sizes_of_large_messages_are_not_kept():
    sizes = replies._Sizes()
    for number in (0, 127, 128, 300, 16_384, 2**31):
        assert (
            sizes[number]
            == ProcessingResponse(
                immediate_response={"grpc_status": {"status": number}}
            ).immediate_response.grpc_status.SerializeToString()[1:]
            or not number
        )
    assert max(sizes) < replies._KNOWN_SIZES
