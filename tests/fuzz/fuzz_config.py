"""Fuzz target of the filter config: any bytes are a config, or problems of one; never an exception.

The unit tests drive :func:`one_input` as well, for a moment.
"""

from __future__ import annotations

from filter_config.bundle import parse_index
from filter_config.load import decode, version_problem
from filter_config.redact import redacted
from filter_config.volume import ConfigUnavailable
from tests.fuzz.driver import drive

SEEDS = (
    b"version: dev\nuuid: u\nbackends:\n- name: b\n  schema: {name: OpenAI, prefix: v1}\n  auth: {apiKey: {key: k}}\n",
    b'{"version": "dev", "models": [{"Name": "m", "CreatedAt": "2024-01-02T03:04:05Z"}], "modelsByHost": {"*.a": []}}',
    b"llmRequestCosts: [{metadataKey: k, type: CEL, cel: 'input_tokens * 2u', routeName: ns/r}]",
    b"backends: [{httpHeaderMutation: {set: [{name: A, value: b}]}, httpBodyMutation: {set: [{value: 1-2}]}}]",
    b"a: &x {k: y, 010: 1.10}\nb: {<<: *x}\n--- second",
    b"checksum: ab\nparts: [{name: n, path: parts/000, sizeBytes: 5}]\n",
    b"mcpConfig: {routes: [{name: r, authorization: {rules: [{source: {jwt: {claims: [{name: a}]}}}]}}]}",
)


def one_input(data: bytes) -> None:
    """Reads the bytes as a config and as a bundle's index, and checks what must hold of the results."""
    decoded = decode(data)
    refused = any(problem.severity == "error" for problem in decoded.problems)
    assert refused == (decoded.config is None)
    for problem in decoded.problems:
        assert (problem.severity == "fault") == (problem.backend is not None)
    if decoded.config is not None:
        redacted(decoded.config)
        assert version_problem(decoded.config, decoded.config.version, relaxed=False) is None
    try:
        index = parse_index(data)
    except ConfigUnavailable:
        return
    assert index.checksum
    assert index.parts


if __name__ == "__main__":
    drive(one_input, name="config", package="filter_config", seeds=SEEDS)
