"""Facts of the Messages API that more than one translation needs."""

from typing import get_args

import pytest
from anthropic.types import StopReason
from msgspec import UNSET

from extproc.translate.anthropic import (
    ERROR_TYPES,
    FINISH_REASONS,
    MessageUsage,
    error_status,
    error_type,
    finish_reason,
    read_message_usage,
    read_messages_error,
)
from extproc.usage import NO_USAGE, TokenUsage


def test_every_stop_reason_of_the_sdk_has_a_finish_reason():
    assert set(get_args(StopReason)) == set(FINISH_REASONS)
    assert set(FINISH_REASONS.values()) == {"stop", "length", "tool_calls", "content_filter"}


@pytest.mark.parametrize("reason", [None, "", "brand_new", 7, ["end_turn"]])
def test_an_unknown_stop_reason_is_judged_by_the_answer(reason):
    native = "brand_new" if reason == "brand_new" else UNSET
    assert finish_reason(reason, has_tool_calls=False) == ("stop", native)
    assert finish_reason(reason, has_tool_calls=True) == ("tool_calls", native)


def test_a_paused_turn_can_be_told_from_one_that_is_over():
    assert finish_reason("pause_turn", has_tool_calls=False) == ("stop", "pause_turn")


def test_a_known_stop_reason_is_what_it_says():
    assert finish_reason("max_tokens", has_tool_calls=True) == ("length", UNSET)


@pytest.mark.parametrize("status", ERROR_TYPES)
def test_types_and_statuses_of_errors_belong_together(status):
    assert error_status(error_type(str(status))) == str(status)


@pytest.mark.parametrize("status", ["503", "418", "", "abc", "²", "-1"])
def test_other_statuses_are_errors_of_the_api(status):
    assert error_type(status) == "api_error"


def test_an_error_of_unknown_type_is_a_fault_of_the_server():
    assert error_status("brand_new_error") == "500"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"null", b'{"error":null}', b'{"error":"x"}', b"\xff", b"[" * 99999]
)
def test_what_is_no_error_is_none(body):
    assert read_messages_error(body) is None


def test_members_of_an_error_that_are_no_text_are_empty():
    error = read_messages_error(b'[{"error":{"type":7,"message":[]}}]')
    assert error is not None
    assert (error.type, error.message) == ("", "")


class TestUsage:
    def test_no_report_is_no_usage(self):
        for nothing in (None, {}, [], "x", {"input_tokens": "7"}, {"output_tokens_details": 3}):
            assert read_message_usage(nothing).total() is NO_USAGE

    def test_every_count_is_read(self):
        usage = {
            "input_tokens": 1,
            "cache_read_input_tokens": 2,
            "cache_creation_input_tokens": 3,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 4},
        }
        expected = MessageUsage(input=1, cache_read=2, cache_creation=3, output=5, thinking=4)
        assert read_message_usage(usage) == expected
        assert expected.total() == TokenUsage(
            input=6, output=5, total=11, cached_input=2, cache_creation_input=3, reasoning=4
        )

    def test_a_newer_report_replaces_what_it_has_and_keeps_the_rest(self):
        old = MessageUsage(input=1, cache_read=2, cache_creation=3, output=5, thinking=4)
        assert old.merge(MessageUsage()) == old
        assert MessageUsage().merge(old) == old
        newer = old.merge(MessageUsage(cache_read=0, output=9))
        assert newer == MessageUsage(input=1, cache_read=0, cache_creation=3, output=9, thinking=4)

    def test_output_alone_has_no_input(self):
        assert MessageUsage(output=5).total() == TokenUsage(
            input=0, output=5, total=5, cached_input=0, cache_creation_input=0
        )
