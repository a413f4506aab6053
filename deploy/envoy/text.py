"""Envoy configuration as text: JSON for a machine, YAML for a person. Both carry the same document."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import yaml
from betterproto2 import Casing

if TYPE_CHECKING:
    from betterproto2 import Message


def to_document(message: Message) -> object:
    """The message as plain lists and mappings, in the proto3 JSON form with Envoy's own field names."""
    return _without_empty_types(message.to_dict(casing=Casing.SNAKE))


def to_json(message: Message) -> str:
    return json.dumps(to_document(message), indent=2) + "\n"


def to_yaml(message: Message) -> str:
    """Block style, keys in the order of the message definition, no anchors."""
    return yaml.dump(to_document(message), Dumper=_Dumper, sort_keys=False, width=120, default_flow_style=False)


def _without_empty_types(node: object) -> object:
    """An empty ``Any`` is ``{}``; Envoy refuses the ``{"@type": ""}`` that the encoder makes of it."""
    if isinstance(node, dict):
        if node == {"@type": ""}:
            return {}
        return {key: _without_empty_types(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_empty_types(value) for value in node]
    return node


class _Dumper(yaml.SafeDumper):
    """Repeats a shared value rather than naming it: a reader of an Envoy file does not expect anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


# Words of YAML 1.1 that Envoy's reader takes for truth values and PyYAML writes without quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
