"""The JSON Schema of the filter config, for editors; generated from :mod:`filter_config.model`.

It is a little stricter than the loader, on purpose: an unknown key or cost type, which the loader ignores with a
warning, is marked while it is typed. ``python -m filter_config.schema`` writes the file, ``--check`` says if it is
stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from filter_config.model import Config, Model
from filter_config.redact import Secret

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA_FILE: Final = Path(__file__).with_name("schema.json")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema as builtins."""
    (root,), components = msgspec.json.schema_components(
        (Config,),
        ref_template="#/$defs/{name}",
        schema_hook=_schema_hook,
    )
    for definition in components.values():
        definition["additionalProperties"] = False
        if not definition.get("required"):
            definition.pop("required", None)
        for field in definition["properties"].values():
            # Every default is a zero value, which an editor need not offer.
            field.pop("default", None)
    _any_case(components[Model.__name__])
    return {
        "$schema": DIALECT,
        "title": "Filter config of the LLM external processor",
        **root,
        "$defs": dict(sorted(components.items())),
    }


def _schema_hook(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"type": "string"}
    raise NotImplementedError


def _any_case(model: dict[str, Any]) -> None:
    """A model's keys may be written in any letter case (contract, filter config 2.3)."""
    for name, field in model["properties"].items():
        pattern = "".join(f"[{letter.lower()}{letter.upper()}]" for letter in name)
        model.setdefault("patternProperties", {})[f"^{pattern}$"] = field


def schema_text() -> str:
    """The schema as JSON text."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the schema file, or checks it."""
    parser = argparse.ArgumentParser(
        prog="python -m filter_config.schema", description="JSON Schema of the filter config"
    )
    parser.add_argument("--check", action="store_true", help="say if the file is stale and do not write it")
    options = parser.parse_args(arguments)
    text = schema_text()
    if not options.check:
        SCHEMA_FILE.write_text(text, encoding="utf-8")
        return 0
    if SCHEMA_FILE.exists() and SCHEMA_FILE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{SCHEMA_FILE} is stale: run python -m filter_config.schema\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
