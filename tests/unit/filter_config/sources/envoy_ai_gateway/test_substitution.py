"""Secrets from variables and files (contract, control plane 7.4)."""

from __future__ import annotations

import pytest

from filter_config.sources.envoy_ai_gateway import compile_texts
from tests.support.gateway_resources import api_key, faults, gateway, resource, route, rule, served, text

VARIABLE, FILE = "substitution.aigw.run/env/apiKey", "substitution.aigw.run/file/apiKey"


def key_and_faults(annotations, environ, **held):
    held = held or {"stringData": {"apiKey": "held"}}
    secret = resource("v1", "Secret", "k", metadata={"annotations": annotations}, **held)
    resources = gateway(), route("r", rule("b")), *served("b"), api_key("k", "b"), secret
    result = compile_texts([text(*resources)], environ=environ)
    (backend,) = result.gateways[0].config.backends or (None,)
    return backend and backend.auth.api_key.key.reveal(), faults(result)


CASES = {
    "a variable": ({VARIABLE: "KEY"}, {"KEY": "v"}, "v"),
    "a file": ({FILE: "~/key"}, {}, "f"),
    "a variable before a file": ({VARIABLE: "KEY", FILE: "~/key"}, {"KEY": "v"}, "v"),
    "a file where the variable is empty": ({VARIABLE: "KEY", FILE: "~/key"}, {"KEY": ""}, "f"),
    "another key": ({"substitution.aigw.run/env/other": "KEY"}, {"KEY": "v"}, "held"),
    "nothing from outside": ({VARIABLE: "KEY", FILE: "~/key"}, None, "held"),
}


@pytest.mark.parametrize(("annotations", "environ", "expected"), CASES.values(), ids=CASES)
def test_a_key_comes_from_outside(annotations, environ, expected, tmp_path, monkeypatch):
    (tmp_path / "key").write_text("f")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert key_and_faults(annotations, environ) == (expected, [])


def test_encoded_data_are_replaced_as_well():
    assert key_and_faults({VARIABLE: "KEY"}, {"KEY": "v"}, data={"apiKey": "aGVsZA=="}) == ("v", [])


def test_what_cannot_be_had_is_told_and_the_value_stays(tmp_path):
    at = "warning Secret default/k: metadata.annotations"
    assert key_and_faults({VARIABLE: "KEY"}, {}) == (
        "held",
        [f"{at}[{VARIABLE}]: the variable KEY is not set; the value stays as it is"],
    )
    assert key_and_faults({FILE: str(tmp_path / "none")}, {}) == (
        "held",
        [f"{at}[{FILE}]: the file cannot be read: No such file or directory; the value stays as it is"],
    )
