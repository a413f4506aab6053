"""The JSON Schema: it is a schema, it is fresh, and it says of documents what an editor should."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import jsonschema
import pytest

from filter_config import schema as schema_module
from filter_config.document import read_document
from filter_config.load import decode
from filter_config.schema import SCHEMA_FILE, main, schema, schema_text

REFERENCE = Path(__file__).parents[3] / "docs/reference/filter-config.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


def test_there_are_examples():
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_reference_are_accepted_by_schema_and_loader(validator, example):
    assert decode(example.encode()).problems == ()
    assert list(validator.iter_errors(read_document(example.encode()).value)) == []


def test_what_the_control_plane_emits_is_accepted(validator):
    document = {
        "backends": [
            {
                "auth": {
                    "apiKey": {"key": "k"},
                    "credentialOverride": {"fallbackToConfigured": True, "headerName": "x"},
                },
                "modelNameOverride": "",
                "name": "ns/b",
                "schema": {"name": "OpenAI", "prefix": "v1"},
            },
        ],
        "globalLLMRequestCosts": [{"cel": "total_tokens", "metadataKey": "quota_cost", "type": "CEL"}],
        "models": [{"CreatedAt": "2024-01-02T03:04:05Z", "Name": "m", "OwnedBy": "o"}],
        "modelsByHost": {"*.example.com": []},
        "uuid": "u",
        "version": "dev",
    }
    assert list(validator.iter_errors(document)) == []
    assert decode(json.dumps(document).encode()).problems == ()


WRONG = {
    "unknown key": {"weight": 1},
    "unknown key of a model": {"models": [{"created_at": "2024-01-02T03:04:05Z"}]},
    "unknown cost type": {"llmRequestCosts": [{"type": "Input"}]},
    "unknown schema": {"backends": [{"schema": {"name": "OpenAi"}}]},
    "list for a text": {"version": []},
    "text for a boolean": {"backends": [{"auth": {"credentialOverride": {"fallbackToConfigured": "true"}}}]},
    "mapping for a list": {"models": {}},
}


@pytest.mark.parametrize("document", WRONG.values(), ids=WRONG)
def test_marked_while_it_is_typed(validator, document):
    assert list(validator.iter_errors(document))


@pytest.mark.parametrize("key", ["CreatedAt", "createdAt", "createdat", "CREATEDAT"])
def test_keys_of_a_model_in_any_case(validator, key):
    assert list(validator.iter_errors({"models": [{key: "2024-01-02T03:04:05Z", "name": "m"}]})) == []
    assert list(validator.iter_errors({"models": [{key: 5}]}))


def test_everything_is_described():
    definitions = schema()["$defs"]
    assert all(definition.get("description") for definition in definitions.values())
    bare = [
        f"{name}.{key}"
        for name, definition in definitions.items()
        for key, field in definition["properties"].items()
        if "description" not in field and "$ref" not in field and "anyOf" not in field
    ]
    assert bare == []


def test_the_file_is_fresh():
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()
    assert main(["--check"]) == 0


def test_a_stale_file_is_told_and_then_written(tmp_path, monkeypatch, capsys):
    path = tmp_path / "schema.json"
    monkeypatch.setattr(schema_module, "SCHEMA_FILE", path)
    assert main(["--check"]) == 1
    assert "is stale: run python -m filter_config.schema" in capsys.readouterr().err
    assert not path.exists()
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_as_a_module(monkeypatch):
    monkeypatch.setattr("sys.argv", ["schema", "--check"])
    monkeypatch.delitem(__import__("sys").modules, "filter_config.schema")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("filter_config.schema", run_name="__main__")
    assert ended.value.code == 0
