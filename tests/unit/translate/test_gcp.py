"""Paths of models on Vertex AI, and Google's errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.translate.gcp import GoogleError, model_path, read_google_error

PATHS = {
    "a model": ("google", "gemini-2.5-flash", "publishers/google/models/gemini-2.5-flash:act"),
    "a version keeps its sign": ("anthropic", "claude-3@20240620", "publishers/anthropic/models/claude-3@20240620:act"),
    "a colon is kept": ("google", "tuned:1", "publishers/google/models/tuned:1:act"),
    "the publisher before it is dropped": ("google", "google/gemini-3", "publishers/google/models/gemini-3:act"),
    "a resource name of the publisher": (
        "google",
        "publishers/google/models/gemini-3",
        "publishers/google/models/gemini-3:act",
    ),
    "another publisher is part of the name": ("google", "meta/llama", "publishers/google/models/meta%2Fllama:act"),
    "another project cannot be reached": (
        "google",
        "projects/p/locations/l/publishers/google/models/m",
        "publishers/google/models/projects%2Fp%2Flocations%2Fl%2Fpublishers%2Fgoogle%2Fmodels%2Fm:act",
    ),
    "dots do not climb": ("google", "../../x", "publishers/google/models/..%2F..%2Fx:act"),
    "a query does not begin": ("google", "m?alt=x#y", "publishers/google/models/m%3Falt=x%23y:act"),
    "letters beyond ASCII": ("google", "modèle 1", "publishers/google/models/mod%C3%A8le%201:act"),
    "no name": ("google", "", "publishers/google/models/:act"),
}


@pytest.mark.parametrize(("publisher", "model", "path"), PATHS.values(), ids=PATHS.keys())
def test_a_model_is_one_segment_of_the_path(publisher, model, path):
    assert model_path(publisher, model, "act") == path


ERRORS = {
    "whole": (
        b'{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}',
        GoogleError(status="INVALID_ARGUMENT", code=400, message="bad"),
    ),
    "in an array": (b'[{"error":{"message":"bad"}}]', GoogleError(status="", code=None, message="bad")),
    "details as they are written": (
        b'{"error":{"message":"m","details":[ {"a":\n1} ]}}',
        GoogleError(status="", code=None, message='Error: m\nDetails: [ {"a":\n1} ]'),
    ),
    "details that are null": (
        b'{"error":{"message":"m","details":null}}',
        GoogleError(status="", code=None, message="m"),
    ),
    "a code that is none": (b'{"error":{"code":"x","message":"m"}}', GoogleError(status="", code=None, message="m")),
    "a code that is a boolean": (b'{"error":{"code":true}}', GoogleError(status="", code=None, message="")),
    "members of other types": (b'{"error":{"message":[],"status":1}}', GoogleError(status="", code=None, message="")),
    "an error that is text": (b'{"error":"invalid_grant"}', None),
    "no error": (b'{"message":"m"}', None),
    "an empty array": (b"[]", None),
    "not JSON": (b"<html>", None),
    "nothing": (b"", None),
    "not UTF-8": (b'{"error":{"details":"\xff"}}', None),
    "nested too deep": (b"[" * 100_000, None),
    "a number without end": (b'{"error":{"code":' + b"9" * 5000 + b"}}", None),
}


@pytest.mark.parametrize(("body", "error"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_read(body, error):
    assert read_google_error(body) == error


@given(st.binary())
def test_reading_an_error_never_raises(body):
    read_google_error(body)
    read_google_error(b'{"error":' + body + b"}")
