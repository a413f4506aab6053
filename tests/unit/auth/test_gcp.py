"""Vertex AI: project and location in the path, a token in the header (contract 6.3, 10.9)."""

import pytest

from extproc.auth.build import build_authenticator
from extproc.auth.sources import Cells
from extproc.errors import BackendFault
from filter_config.model import BackendAuth, GCPAuth
from filter_config.redact import Secret


def authenticator(token: str = "ya29.token", project: str = "test-project", region: str = "us-central1"):
    gcp = GCPAuth(access_token=Secret(token), project_name=project, region=region)
    return build_authenticator(BackendAuth(gcp=gcp), Cells())


MODEL = "publishers/google/models/gemini-pro:generateContent"
PREFIX = "/v1/projects/test-project/locations/us-central1/"

PATHS = {
    "a relative path": (MODEL, {}, PREFIX + MODEL),
    "an absolute path": (f"/{MODEL}", {}, PREFIX + MODEL),
    "more slashes": (f"///{MODEL}", {}, PREFIX + MODEL),
    "a query": (f"{MODEL}?alt=sse", {}, f"{PREFIX}{MODEL}?alt=sse"),
    "nothing": ("", {}, PREFIX),
    "the global location": (
        MODEL,
        {"region": "global"},
        f"/v1/projects/test-project/locations/global/{MODEL}",
    ),
    "a project of a domain": (
        MODEL,
        {"project": "example.com:project"},
        f"/v1/projects/example.com:project/locations/us-central1/{MODEL}",
    ),
    "characters that would leave the segment": (
        MODEL,
        {"project": "a/b?c#d e", "region": "../é%"},
        f"/v1/projects/a%2Fb%3Fc%23d%20e/locations/..%2F%C3%A9%25/{MODEL}",
    ),
}


@pytest.mark.parametrize(("path", "place", "expected"), PATHS.values(), ids=PATHS)
def test_the_path_names_project_and_location(call, path, place, expected):
    assert authenticator(**place).authenticate(call({":path": path})) == [
        (":path", expected),
        ("Authorization", "Bearer ya29.token"),
    ]


def test_a_call_without_a_path_is_a_fault_of_ours(call):
    made = call()
    del made.headers[":path"]
    with pytest.raises(KeyError, match=":path"):
        authenticator().authenticate(made)


def test_the_token_is_used_as_it_is(call):
    assert dict(authenticator(" t ").authenticate(call()))["Authorization"] == "Bearer  t "


FAULTS = {
    "no project": ({"project": ""}, "auth.gcp has no projectName"),
    "no region": ({"region": ""}, "auth.gcp has no region"),
    "neither": ({"project": " ", "region": ""}, "auth.gcp has no projectName and no region"),
    "a token that no header can carry": ({"token": "canary\n"}, "control character"),
}


@pytest.mark.parametrize(("config", "fault"), FAULTS.values(), ids=FAULTS)
def test_faults(config, fault):
    with pytest.raises(BackendFault, match=fault) as caught:
        authenticator(**config)
    assert "canary" not in str(caught.value)
