"""Which endpoint answers which path (contract, prefix rules 5.2 and registered paths 5.3)."""

import pytest

from extproc.endpoints.base import Operation
from extproc.endpoints.models import ModelListForm
from extproc.endpoints.table import EndpointTable
from extproc.paths import EndpointPrefixes

# The contract's table, and the edits of images, which it does not have.
REGISTERED = {
    "/v1/chat/completions": Operation.CHAT,
    "/v1/completions": Operation.COMPLETION,
    "/v1/embeddings": Operation.EMBEDDINGS,
    "/v1/responses": Operation.RESPONSES,
    "/v1/responses/input_tokens": Operation.RESPONSES_INPUT_TOKENS,
    "/v1/audio/speech": Operation.SPEECH,
    "/v1/audio/transcriptions": Operation.TRANSCRIPTION,
    "/v1/audio/translations": Operation.TRANSLATION,
    "/v1/images/generations": Operation.IMAGE_GENERATION,
    "/v1/images/edits": Operation.IMAGE_EDIT,
    "/cohere/v2/rerank": Operation.RERANK,
    "/anthropic/v1/messages": Operation.MESSAGES,
    "/anthropic/v1/messages/count_tokens": Operation.COUNT_TOKENS,
    "/tokenize": Operation.TOKENIZE,
}
ALIASES = {
    "/v1-openai/chat/completions": Operation.CHAT,
    "/v1-openai/completions": Operation.COMPLETION,
    "/v1-openai/responses": Operation.RESPONSES,
    "/v1-openai/embeddings": Operation.EMBEDDINGS,
    "/v1-openai/audio/transcriptions": Operation.TRANSCRIPTION,
    "/v1-openai/audio/speech": Operation.SPEECH,
    "/v1-openai/images/generations": Operation.IMAGE_GENERATION,
    "/v1-openai/images/edits": Operation.IMAGE_EDIT,
    "/v1/rerank": Operation.RERANK,
    "/v2/rerank": Operation.RERANK,
    "/v1/messages": Operation.MESSAGES,
    "/v1/messages/count_tokens": Operation.COUNT_TOKENS,
}


def operations(table):
    return {path: endpoint.operation for path, endpoint in table.endpoints.items()}


def test_without_configuration():
    assert operations(EndpointTable.build()) == REGISTERED | ALIASES


def test_below_a_root():
    expected = {f"/gate/way{path}": operation for path, operation in (REGISTERED | ALIASES).items()}
    assert operations(EndpointTable.build(root="/gate//way/")) == expected


@pytest.mark.parametrize("key", ["openai", "cohere", "anthropic"])
def test_a_prefix_moves_only_its_own_family(key):
    table = EndpointTable.build(EndpointPrefixes(**{key: "/x"}))
    of_family = {
        "openai": {path for path in REGISTERED if path[1:3] in {"v1", "to"}},
        "cohere": {"/cohere/v2/rerank"},
        "anthropic": {"/anthropic/v1/messages", "/anthropic/v1/messages/count_tokens"},
    }[key]
    moved = {f"/x{path.removeprefix(f'/{key}')}": REGISTERED[path] for path in of_family}
    stay = {path: operation for path, operation in REGISTERED.items() if path not in of_family}
    aliases = {f"/x{path}": op for path, op in ALIASES.items()} if key == "openai" else ALIASES
    assert operations(table) == aliases | moved | stay


def test_prefixes_that_meet_give_each_path_to_one_endpoint():
    table = EndpointTable.build(EndpointPrefixes(openai="", cohere="", anthropic=""))
    assert operations(table)["/v1/messages"] is Operation.MESSAGES
    assert operations(table)["/v2/rerank"] is Operation.RERANK
    assert table.model_list("/v1/models", {}) is ModelListForm.OPENAI
    assert table.model_list("/v1/models", {"anthropic-version": "2023-06-01"}) is ModelListForm.ANTHROPIC
