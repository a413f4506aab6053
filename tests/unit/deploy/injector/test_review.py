"""AdmissionReview on the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.injector import review
from deploy.injector.review import Answer, MalformedReview, Result
from tests.unit.deploy.injector.cluster import asks, pod

WHOLE = json.loads(asks(pod()))

MALFORMED = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"apiVersion": "\xff"}',
    "a list": b"[]",
    "no request": json.dumps({**WHOLE, "request": None}).encode(),
    "no uid": json.dumps({**WHOLE, "request": {"operation": "CREATE"}}).encode(),
    "an empty uid": json.dumps({**WHOLE, "request": {**WHOLE["request"], "uid": ""}}).encode(),
    "a number for a text": json.dumps({**WHOLE, "request": {**WHOLE["request"], "namespace": 3}}).encode(),
    "another version": json.dumps({**WHOLE, "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
    "another kind": json.dumps({**WHOLE, "kind": "Pod\nEvil"}).encode(),
    "deeper than the parser goes": b'{"request": {"object": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_review_is_said_in_one_line(body):
    with pytest.raises(MalformedReview) as caught:
        review.read(body)

    assert str(caught.value).startswith("no AdmissionReview")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@given(st.binary())
def test_any_bytes_are_read_or_refused(body):
    with pytest.raises(MalformedReview):
        review.read(body)


def test_fields_that_are_not_known_are_passed_over():
    given_review = {**WHOLE, "tomorrow": 1, "request": {**WHOLE["request"], "tomorrow": {"a": []}}}

    assert review.read(json.dumps(given_review).encode()).object == pod()


def test_a_warning_is_a_line_that_a_header_can_carry():
    answer = Answer(uid="1", result=Result.PASSED, warnings=("two\r\nlines\x00", "x" * 5000))

    warnings = json.loads(review.write(answer))["response"]["warnings"]

    assert warnings[0] == "two  lines "
    assert len(warnings[1]) == 250


def test_an_answer_without_a_patch_has_no_patch_type():
    response = json.loads(review.write(Answer(uid="1", result=Result.UNCHANGED)))["response"]

    assert response == {"uid": "1", "allowed": True}
