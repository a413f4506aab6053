from __future__ import annotations

import pytest

from filter_config.sources.envoy_ai_gateway.documents import Text
from filter_config.sources.envoy_ai_gateway.variables import substituted
from filter_config.sources.faults import Faults

ENVIRON = {"HOST": "example.com", "PORT": "8080", "EMPTY": "", "KEY": "a\nb", "NAME": "käse"}

CASES = {
    "a value": ("h: ${HOST}", "h: example.com", []),
    "a number stays one": ("port: ${PORT}", "port: 8080", []),
    "two in a line": ("${HOST}:${PORT}", "example.com:8080", []),
    "not ASCII": ("n: ${NAME}", "n: käse", []),
    "default of a variable that is not set": ("h: ${OTHER:-localhost}", "h: localhost", []),
    "default of an empty one": ("h: ${EMPTY:-localhost}", "h: localhost", []),
    "empty default": ("h: ${OTHER:-}", "h: ", []),
    "default that is not needed": ("h: ${HOST:-localhost}", "h: example.com", []),
    "not set": ("a\nh: ${OTHER}", "a\nh: ${OTHER}", ["f:2: warning: the variable OTHER is not set"]),
    "set and empty": ("h: ${EMPTY}", "h: ${EMPTY}", ["f:1: warning: the variable EMPTY is not set"]),
    "several lines": ("k: ${KEY}", "k: ${KEY}", ["f:1: warning: the variable KEY has several lines"]),
    "comment": ("  # ${OTHER}", "  # ${OTHER}", []),
    "no name": ("r: ^a${1}$", "r: ^a${1}$", []),
    "no braces": ("r: $HOST", "r: $HOST", []),
}


@pytest.mark.parametrize(("given", "wanted", "told"), CASES.values(), ids=CASES)
def test_references_to_variables(given, wanted, told):
    faults = Faults()

    text = substituted(Text(name="f", data=given.encode()), ENVIRON, faults)

    assert text == Text(name="f", data=wanted.encode())
    assert [str(fault).startswith(start) for fault, start in zip(faults.closed(), told, strict=True)] == [True] * len(
        told
    )
