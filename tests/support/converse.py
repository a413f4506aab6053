"""Judges Converse requests as the service would: by botocore's model of it, and by its rules for conversations."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import botocore.session
from botocore.model import Shape
from botocore.validate import ParamValidator

_PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream)")
_OPERATIONS = {"converse": "Converse", "converse-stream": "ConverseStream"}
_DOCUMENT_NAME = re.compile(r"(?! )(?!.* {2})[A-Za-z0-9 ()\[\]-]{1,200}")
_MAX_CACHE_POINTS = 4


def accept(path: str, body: bytes) -> dict[str, Any]:
    """The request, as the service reads it.

    Raises:
        AssertionError: the service would answer 400; the text says why.
    """
    match = _PATH.fullmatch(path)
    assert match, f"no such path: {path}"
    request = json.loads(body)
    shape = _input_shape(_OPERATIONS[match[2]])
    params = _typed(request, shape, "")
    params["modelId"] = unquote(match[1]) or "-"
    report = ParamValidator().validate(params, shape)
    assert not report.has_errors(), report.generate_report()
    _check_conversation(request)
    return dict(request)


@lru_cache
def _input_shape(operation: str) -> Shape:
    return botocore.session.get_session().get_service_model("bedrock-runtime").operation_model(operation).input_shape


def _typed(value: Any, shape: Any, where: str) -> Any:
    """JSON as the types of the model: base64 becomes bytes. Checks what the validator leaves out: names and values."""
    match shape.type_name:
        case "structure" if not getattr(shape, "is_document_type", False):
            assert isinstance(value, dict), where
            unknown = value.keys() - shape.members.keys()
            assert not unknown, f"{where}: unknown members {unknown}"
            return {name: _typed(each, shape.members[name], f"{where}.{name}") for name, each in value.items()}
        case "list":
            assert isinstance(value, list), where
            return [_typed(each, shape.member, f"{where}[{number}]") for number, each in enumerate(value)]
        case "blob":
            return base64.b64decode(value, validate=True)
        case "string" if shape.enum:
            assert value in shape.enum, f"{where}: {value!r} is none of {shape.enum}"
    return value


def _check_conversation(request: Mapping[str, Any]) -> None:
    messages = request["messages"]
    roles = [message["role"] for message in messages]
    assert all(one != other for one, other in pairwise(roles)), f"roles do not alternate: {roles}"
    for message in messages:
        assert message["content"], "a message without content"
        assert "cachePoint" not in message["content"][0], "a cache point with nothing before it"
        kinds = [next(iter(block)) for block in message["content"]]
        results = kinds.count("toolResult")
        assert "toolResult" not in [kind for kind in kinds if kind != "cachePoint"][results:], "results after others"
        assert "document" not in kinds or "text" in kinds, "a document without a text"
    texts = [value for name, value in _members(request) if name == "text" and isinstance(value, str)]
    assert all(text.strip() for text in [*texts, *_system_texts(request)] if text is not None), "a blank text"
    names = [document["name"] for name, document in _members(messages) if name == "document"]
    assert all(map(_DOCUMENT_NAME.fullmatch, names)), names
    assert len(set(names)) == len(names), f"names of documents must differ: {names}"
    assert sum(name == "cachePoint" for name, _ in _members(request)) <= _MAX_CACHE_POINTS, "too many cache points"
    if any(name in {"toolUse", "toolResult"} for name, _ in _members(messages)):
        assert request.get("toolConfig"), "the toolConfig field must be defined"


def _system_texts(request: Mapping[str, Any]) -> list[str | None]:
    return [block.get("text") for block in request.get("system", [])]


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member at every depth, but for free-form JSON and reasoning, where a text may be empty."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield name, each
            if name not in {"input", "json", "reasoningContent", "additionalModelRequestFields"}:
                yield from _members(each)
    elif isinstance(value, list):
        for each in value:
            yield from _members(each)
