"""What is shown of a request: everything but the credential."""

from __future__ import annotations

import io
import json

import pytest

from deploy.demo.backends import report
from deploy.demo.screen import Screen
from deploy.demo.seen import Seen

SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIASECRETKEY/20260101/us-east-1/bedrock/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=0123abcd"
)
MASKED = {
    "token": ("Bearer ya29.secret", "Bearer ya29.s…"),
    "key": ("sk-ant-secret", "sk-ant…"),
    "signature": (
        SIGNED,
        (
            "AWS4-HMAC-SHA256 Credential=AKIASE…/20260101/us-east-1/bedrock/aws4_request, "
            "SignedHeaders=host;x-amz-date, Signature=…"
        ),
    ),
}
KINDS = {
    "token": (("authorization", "Bearer x"), "Bearer token"),
    "key": (("x-api-key", "x"), "x-api-key"),
    "signature": (("authorization", SIGNED), "SigV4 us-east-1/bedrock"),
    "none": (("host", "x"), "none"),
}


@pytest.mark.parametrize(("value", "shown"), MASKED.values(), ids=MASKED)
def test_a_credential_is_masked(value, shown):
    assert report.masked(value) == shown


@pytest.mark.parametrize(("header", "kind"), KINDS.values(), ids=KINDS)
def test_the_kind_of_a_credential(header, kind):
    assert report.kind_of_credential(Seen(method="POST", path="/", headers=(header,), body=b"")) == kind


def test_a_request_is_shown():
    seen = Seen(
        method="POST",
        path="/a",
        headers=(("host", "h"), ("x-api-key", "sk-secret"), ("anthropic-version", "v")),
        body=b'{"model": "m"}',
    )
    out = io.StringIO()

    report.show_request(Screen(out), seen, "/b")

    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["request", "POST", "/a"],
        ["streamed", "POST", "/b"],
        ["host", "h"],
        ["x-api-key", "sk-sec…"],
        ["anthropic-version", "v"],
        ['{"model":', '"m"}'],
    ]


def test_json_is_broken_into_lines_only_where_it_has_to_be():
    document = {"a": [1, 2], "b": {"c": "x" * 60, "d": ["y" * 60]}}

    shown = report.pretty(document)

    assert json.loads(shown) == document
    assert shown.splitlines() == [
        "{",
        '  "a": [1, 2],',
        '  "b": {',
        f'    "c": "{"x" * 60}",',
        f'    "d": ["{"y" * 60}"]',
        "  }",
        "}",
    ]


def test_a_long_path_loses_its_middle():
    shown = report.shortened("/" + "a" * 100 + "/end")

    assert len(shown) == 56
    assert shown.startswith("/aaa")
    assert shown.endswith("aaa/end")
    assert report.shortened("/short") == "/short"


def test_a_table_is_as_wide_as_what_is_in_it():
    out = io.StringIO()

    report.show_table(Screen(out), [{"a": "1", "long": "2"}, {"a": "333", "long": "4"}])

    assert out.getvalue() == "   a    long\n   ---  ----\n   1    2\n   333  4\n"
