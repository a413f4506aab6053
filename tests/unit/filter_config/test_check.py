"""Checking offline: every problem as a line, and an exit code."""

from __future__ import annotations

import io

import pytest

from filter_config.bundle import write_bundle
from filter_config.check import FINDINGS, OK, USAGE, check_files

GOOD = b"version: dev\nbackends: [{name: b, schema: {name: OpenAI}}]\nmodels: [{name: m}]\n"
WARNING = GOOD + b"weight: 1\n"
FAULT = b"version: dev\nbackends: [{name: b, schema: {name: OpenAI}, auth: {}}]\n"
ERRORS = b"""
version: [1]
backends:
- {name: b, schema: {name: OpenAI}, auth: {azureAPIKey: {}}}
llmRequestCosts:
- {metadataKey: k, type: CEL, cel: input_tokens * 2}
models: [{name: m, createdAt: 2024-01-02}]
"""


@pytest.fixture
def check(tmp_path):
    def run(*contents: bytes, own_version=None, relaxed_version=False):
        out, paths = io.StringIO(), []
        for number, content in enumerate(contents):
            paths.append(tmp_path / f"{number}.yaml")
            paths[-1].write_bytes(content)
        code = check_files(paths, own_version=own_version, relaxed_version=relaxed_version, out=out)
        return code, out.getvalue().replace(f"{tmp_path}/", "").splitlines()

    return run


def test_a_good_file_is_one_line(check):
    assert check(GOOD) == (OK, ["0.yaml: ok (1 backend, 0 cost rules, 1 model)"])


def test_warnings_are_told_and_do_not_fail(check):
    code, lines = check(WARNING)
    assert code == OK
    assert lines == [
        "0.yaml:weight: warning: unknown key 'weight' is ignored; remove it",
        "0.yaml: ok (1 backend, 0 cost rules, 1 model)",
    ]


def test_a_fault_fails(check):
    code, lines = check(FAULT)
    assert code == FINDINGS
    assert lines == [
        (
            "0.yaml:backends[0].auth: fault: no backend auth handler found; "
            "give one of aws, apiKey, azureAPIKey, azure, gcp, anthropicAPIKey, or remove auth"
        ),
    ]


def test_all_faults_of_a_file_are_lines_of_their_own(check):
    code, lines = check(ERRORS)
    assert code == FINDINGS
    assert [line.split(": ")[0] for line in lines] == [
        "0.yaml:version",
        "0.yaml:models[0].createdAt",
        "0.yaml:llmRequestCosts[0].routeName",
        "0.yaml:llmRequestCosts[0].cel",
        "0.yaml:backends[0].auth.azureAPIKey.key",
    ]


def test_no_document(check):
    code, lines = check(b"a: [")
    assert code == FINDINGS
    assert lines == [
        (
            "0.yaml: line 2, column 1: while parsing a flow node: did not find expected node content; "
            "write one YAML or JSON document"
        ),
    ]


def test_several_files_and_the_worst_code(check):
    code, lines = check(GOOD, FAULT, GOOD)
    assert code == FINDINGS
    assert [line.partition(":")[0] for line in lines] == ["0.yaml", "1.yaml", "2.yaml"]


VERSIONS = {
    "unchecked": (None, False, OK),
    "the same": ("dev", False, OK),
    "another": ("v1", False, FINDINGS),
    "another, relaxed": ("v1", True, OK),
}


@pytest.mark.parametrize(("own", "relaxed", "code"), VERSIONS.values(), ids=VERSIONS)
def test_version(check, own, relaxed, code):
    found, lines = check(GOOD, own_version=own, relaxed_version=relaxed)
    assert found == code
    assert ("config version mismatch" in lines[0]) == (own == "v1")


def test_the_version_of_a_refused_file_is_not_judged(check):
    assert len(check(b"version: [1]", own_version="v1")[1]) == 1


def test_a_path_that_is_not_there(tmp_path):
    out = io.StringIO()
    path = tmp_path / "nothing.yaml"
    assert check_files([path], own_version=None, relaxed_version=False, out=out) == USAGE
    assert out.getvalue() == (
        f"{path}: config file does not exist: {path}; name a config file, or a directory with a bundle\n"
    )


def test_a_directory_is_a_bundle(tmp_path):
    out = io.StringIO()
    write_bundle(tmp_path, GOOD, "dev", "u")
    assert check_files([tmp_path], own_version="dev", relaxed_version=False, out=out) == OK
    (tmp_path / "parts/000").write_bytes(b"other")
    assert check_files([tmp_path], own_version="dev", relaxed_version=False, out=out) == FINDINGS
    assert "bundle checksum mismatch" in out.getvalue()
    (tmp_path / "index.yaml").write_text("checksum: x\nparts: [{path: ../x}]")
    assert check_files([tmp_path], own_version="dev", relaxed_version=False, out=out) == FINDINGS
    (tmp_path / "index.yaml").unlink()
    assert check_files([tmp_path], own_version="dev", relaxed_version=False, out=out) == USAGE


def test_no_files_are_no_findings():
    assert check_files([], own_version=None, relaxed_version=False, out=io.StringIO()) == OK


@pytest.mark.parametrize("data", [b"", b" \n"])
def test_an_empty_document_is_a_finding(check, data):
    code, lines = check(data)
    assert code == FINDINGS
    assert "the document is empty" in lines[0]


def test_backends_that_nothing_serves_are_named(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        '{"backends":[{"name":"a","schema":{"name":"OpenAI"}},{"name":"b","schema":{"name":"AWSBedrock"}}]}'
    )
    out = io.StringIO()
    served = frozenset({"OpenAI"})
    assert check_files([path], own_version=None, relaxed_version=False, out=out, served_schemas=served) == OK
    named = [line for line in out.getvalue().splitlines() if "schema.name" in line]
    assert len(named) == 1
    assert "backends[1].schema.name" in named[0]
    assert "AWSBedrock" in named[0]
