"""A clock that is wrong: what an answer that refuses a signature teaches (field report BR-99)."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.auth.aws import BedrockScheme
from extproc.auth.base import ConfiguredCredential, FixedCell
from extproc.auth.override import AWS_FORM, CredentialOverride
from extproc.auth.sigv4 import AWSCredentials
from extproc.auth.skew import ClockSkew
from filter_config.redact import Secret

NOW = 1_440_938_160.0
CREDENTIALS = AWSCredentials(access_key_id=Secret("AKIA"), secret_access_key=Secret("s"))


def refusal(seconds, status="403"):
    return {":status": status, "date": formatdate(NOW + seconds, usegmt=True)}


LEARNT = {
    "behind": (refusal(400), 400),
    "ahead": (refusal(-3600), -3600),
    "too little to matter": (refusal(60), 0),
    "too much to be believed": (refusal(90_000), 0),
    "another refusal": (refusal(400, "400"), 0),
    "no date": ({":status": "403"}, 0),
    "no date that can be read": ({":status": "403", "date": "yesterday"}, 0),
}


@pytest.mark.parametrize(("headers", "expected"), LEARNT.values(), ids=LEARNT)
def test_what_a_refusal_teaches(headers, expected):
    skew = ClockSkew()
    skew.refused(headers, NOW)
    assert skew.seconds == expected


def test_a_clock_that_is_set_right_is_believed_again():
    skew = ClockSkew()
    skew.refused(refusal(400), NOW)
    skew.refused(refusal(420), NOW)
    assert skew.seconds == 400
    skew.refused(refusal(0), NOW)
    assert skew.seconds == 0


@given(st.text())
def test_no_date_breaks_anything(date):
    ClockSkew().refused({":status": "403", "date": date}, NOW)


AUTHENTICATORS = {
    "configured": lambda scheme: ConfiguredCredential(cell=FixedCell(CREDENTIALS), scheme=scheme),
    "of the request, with a fallback": lambda scheme: CredentialOverride(
        form=AWS_FORM,
        scheme=scheme,
        headers=(),
        namespace="",
        key="",
        fallback=ConfiguredCredential(cell=FixedCell(CREDENTIALS), scheme=scheme),
    ),
}


@pytest.mark.parametrize("make", AUTHENTICATORS.values(), ids=AUTHENTICATORS)
def test_signatures_after_a_refusal_carry_their_time(call, make):
    authenticator = make(BedrockScheme(region="us-east-1", skew=ClockSkew()))
    assert dict(authenticator.authenticate(call()))["X-Amz-Date"] == "20150830T123600Z"
    authenticator.refused(refusal(600), NOW)
    assert dict(authenticator.authenticate(call()))["X-Amz-Date"] == "20150830T124600Z"
