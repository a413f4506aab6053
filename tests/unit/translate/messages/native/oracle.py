"""What the three places would say to a request: the strict types of Anthropic's SDK, and the rules of each place."""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import unquote

from anthropic.types.beta.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from tests.unit.translate.chat.anthropic.oracle import RefusedError

_VERTEX = re.compile(r"publishers/anthropic/models/([^/]+):(rawPredict|streamRawPredict)")
_BEDROCK = re.compile(r"/model/[^/]+/(invoke|invoke-with-response-stream)")
_BEDROCK_COUNT = re.compile(r"/model/([^/]+)/count-tokens")


def accepts(path: str, body: bytes) -> dict[str, Any]:
    """Take a request of either endpoint as the place would whose path it is; gives the parameters.

    Raises:
        RefusedError: the place would refuse it.
        pydantic_core.ValidationError: it is not what the SDK lets its users send.
    """
    path, _, _ = path.partition("?")
    params = _object(body)
    if counted := _BEDROCK_COUNT.fullmatch(path):
        return _accepts_bedrock_count(unquote(counted[1]), params)
    if vertex := _VERTEX.fullmatch(path):
        return _accepts_vertex(vertex[1], vertex[2], params)
    if _BEDROCK.fullmatch(path):
        return _accepts_bedrock(params)
    _demand("anthropic_version" not in params, "anthropic_version: Extra inputs are not permitted")
    _demand(bool(params.get("model")), "model: Field required")
    if path.endswith("/messages/count_tokens"):
        _validated(_COUNT, params)
    else:
        _demand(path.endswith("/messages"), f"{path} is not found")
        _validated(_CREATE, {name: value for name, value in params.items() if name != "stream"})
    return params


def _object(body: bytes) -> dict[str, Any]:
    """The object, of which no member is there twice: which of them counts, nobody knows."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        _demand(len(set(names)) == len(names), f"duplicate members: {names}")
        return dict(pairs)

    found: dict[str, Any] = json.loads(body, object_pairs_hook=unique)
    return found


def _accepts_vertex(model: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    told = dict(params)
    _demand(str(told.pop("anthropic_version", "")).startswith("vertex-"), "anthropic_version")
    _demand("anthropic_beta" not in told, "anthropic_beta: flags go into the header")
    if model == "count-tokens":
        _demand(bool(told.get("model")), "model: Field required")
        _demand("@default" not in told["model"] and "@latest" not in told["model"], "model: not found")
        _validated(_COUNT, told)
        return params
    _demand("model" not in told, "model: Extra inputs are not permitted")
    stream = told.pop("stream", None)
    _demand((stream is True) == (method == "streamRawPredict"), "stream")
    _validated(_CREATE, {**told, "model": "in the path"})
    return params


def _accepts_bedrock(params: dict[str, Any]) -> dict[str, Any]:
    told = dict(params)
    _demand(str(told.pop("anthropic_version", "")).startswith("bedrock-"), "anthropic_version")
    _demand("model" not in told, "model: Extra inputs are not permitted")
    _demand("stream" not in told, "stream: Extra inputs are not permitted")
    betas = told.pop("anthropic_beta", ["none"])
    _demand(isinstance(betas, list) and bool(betas), "anthropic_beta: has to be a list with something in it")
    _demand("prompt-caching-2024-07-31" not in betas, "invalid beta flag")
    _validated(_CREATE, {**told, "model": "in the path"})
    return params


def _accepts_bedrock_count(model: str, params: dict[str, Any]) -> dict[str, Any]:
    """By the service model: ``{"input": {"invokeModel": {"body": blob}}}``; profiles of regions cannot be counted."""
    _demand(not re.match(r"(us|eu|apac|global|us-gov)\.", model), "the provided model identifier is invalid")
    inner = _object(base64.b64decode(params["input"]["invokeModel"]["body"], validate=True))
    _demand(params == {"input": {"invokeModel": params["input"]["invokeModel"]}}, "unknown members")
    _demand(params["input"]["invokeModel"].keys() == {"body"}, "unknown members")
    return _accepts_bedrock(inner)


def _demand(condition: bool, complaint: str) -> None:  # noqa: FBT001 - an assertion with another exception
    if not condition:
        raise RefusedError(complaint)


def _strict(node: Any) -> Any:
    """The schema with unknown members forbidden, and iterables read to their end."""
    if isinstance(node, dict):
        node = {key: _strict(value) for key, value in node.items()}
        closed = "extras_schema" not in node and "extra_fields_behavior" not in node.get("config", {})
        if node.get("type") == "typed-dict" and closed:
            node["extra_behavior"] = "forbid"
        if node.get("type") == "generator":
            node = {**node, "type": "list"}
        return node
    if isinstance(node, list | tuple):
        return type(node)(_strict(each) for each in node)
    return node


_CREATE = SchemaValidator(_strict(TypeAdapter(MessageCreateParamsNonStreaming).core_schema))
_COUNT = SchemaValidator(_strict(TypeAdapter(MessageCountTokensParams).core_schema))


def _validated(schema: SchemaValidator, params: dict[str, Any]) -> None:
    # The API takes them, for models that do; the types of the SDK follow a later one.
    typed = {name: value for name, value in params.items() if name not in {"temperature", "top_p", "top_k"}}
    schema.validate_json(json.dumps(typed))
