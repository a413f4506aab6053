"""The reference page of endpoints and backends, written from the tables that decide it.

``python -m extproc.translate.matrix`` prints ``docs/reference/endpoints.md``; ``make check`` compares.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from extproc.endpoints.base import Operation
from extproc.endpoints.table import EndpointTable
from extproc.translate.base import Factory, Target
from extproc.translate.table import BY_OPERATION
from extproc.translate.via_chat.translator import ViaChat
from filter_config.model import VersionedAPISchema

_HEAD: Final = """\
<!-- Written by `make golden` from the tables in extproc; do not edit. -->

# Endpoints, and the backends that can serve them

Rows are what clients may ask for, columns are the schemas of backends:

- **as is**: the backend speaks the client's API. Its path, its model's name and its credentials are put in; everything
  else passes as bytes, so that members and types that this gateway does not know work as well.
- **translated**: the backend speaks another API; requests, answers, streams and errors are translated.
- **via chat**: the request becomes a chat completion, and that is translated for the backend; what the backend's chat
  API cannot express is refused. See [chat completions](chat-backends.md) for what each backend makes of those.
- *: a backend whose schema is marked `chatOnly` has it via chat, or, of `input_tokens`, not at all.
- -: not possible; the client gets a 501 that names the endpoint and the backend's schema.

Usage is measured on every endpoint whose answers report any. Lists of models (`/v1/models`, `/anthropic/v1/models`) are
answered by the gateway itself.
"""

_SCHEMAS: Final = (
    "OpenAI",
    "AzureOpenAI",
    "AWSBedrock",
    "GCPVertexAI",
    "Anthropic",
    "AWSAnthropic",
    "GCPAnthropic",
    "Cohere",
)


_DEPEND_ON_CHAT_ONLY: Final = frozenset({Operation.RESPONSES, Operation.RESPONSES_INPUT_TOKENS})


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *_rows(), *_paths()]) + "\n"


def _rows() -> Iterator[str]:
    yield "| endpoint | " + " | ".join(_SCHEMAS) + " |"
    yield "|---" * (len(_SCHEMAS) + 1) + "|"
    for operation, paths in _paths_of().items():
        factories = BY_OPERATION[operation]
        yield f"| `{paths[0]}` | " + " | ".join(_cell(operation, schema, factories) for schema in _SCHEMAS) + " |"


def _cell(operation: Operation, schema: str, factories: Mapping[str, Factory]) -> str:
    factory = factories.get(schema)
    if factory is None:
        return "-"
    translator = factory(
        Target(schema=VersionedAPISchema(name=schema), model_override="", now=lambda: 0.0, new_id=lambda: "")
    )
    if isinstance(translator, ViaChat):
        return "via chat"
    if operation in _DEPEND_ON_CHAT_ONLY:
        return "as is *"
    return "translated" if translator.rebuilds_body else "as is"


def _paths() -> Iterator[str]:
    """The paths that an endpoint has beside its own."""
    yield from ("", "## Paths", "")
    yield "With the default prefixes; `--root-prefix` and `--endpoint-prefixes` move them; aliases go with OpenAI's."
    yield from ("", "| endpoint | also at |", "|---|---|")
    for own, *aliases in _paths_of().values():
        if aliases:
            yield f"| `{own}` | " + ", ".join(f"`{path}`" for path in aliases) + " |"


def _paths_of() -> dict[Operation, list[str]]:
    """Every operation's paths, its own first."""
    found: dict[Operation, list[str]] = defaultdict(list)
    for path, endpoint in EndpointTable.build().endpoints.items():
        found[endpoint.operation].append(path)
    return {operation: found[operation] for operation in Operation}


if __name__ == "__main__":
    sys.stdout.write(page())
