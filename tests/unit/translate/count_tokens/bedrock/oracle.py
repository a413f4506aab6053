"""What Amazon would say to a CountTokens request: botocore's model of it, and the rules of what it holds."""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import unquote

import botocore.session
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from botocore.validate import ParamValidator
from pydantic import TypeAdapter

from tests.support import converse

_PATH = re.compile(r"/model/([^/]+)/count-tokens")
_INPUT = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("CountTokens").input_shape
_COUNTED: TypeAdapter[Any] = TypeAdapter(MessageCountTokensParams)
_OF_INVOKE_MODEL = {"anthropic_version", "anthropic_beta", "max_tokens"}


def accept(path: str, body: bytes) -> dict[str, Any]:
    """What is counted: the body of InvokeModel, or of Converse.

    Raises:
        AssertionError: Amazon would answer 400; the text says why.
        pydantic_core.ValidationError: Claude would.
    """
    match = _PATH.fullmatch(path)
    assert match, f"no such path: {path}"
    model = unquote(match[1])
    assert re.fullmatch(_INPUT.members["modelId"].metadata["pattern"], model), model
    request = json.loads(body)
    assert request.keys() == {"input"}
    (kind,) = request["input"]
    if kind == "invokeModel":
        inner = base64.b64decode(request["input"]["invokeModel"]["body"], validate=True)
        _validate({"modelId": model, "input": {"invokeModel": {"body": inner}}})
        return _accept_inner(json.loads(inner))
    counted: dict[str, Any] = request["input"]["converse"]
    # It knows fewer members than Converse, whose rules for conversations hold for the others.
    assert set(counted) <= set(_INPUT.members["input"].members["converse"].members), counted.keys()
    converse.accept("/model/m/converse", json.dumps(counted).encode())
    return counted


def _validate(parameters: dict[str, Any]) -> None:
    report = ParamValidator().validate(parameters, _INPUT)
    assert not report.has_errors(), report.generate_report()


def _accept_inner(inner: dict[str, Any]) -> dict[str, Any]:
    assert inner["anthropic_version"].startswith("bedrock-")
    assert "model" not in inner
    assert "stream" not in inner
    budget = inner.get("thinking", {}).get("budget_tokens", 0)
    assert inner["max_tokens"] > budget, "max_tokens must be greater than thinking.budget_tokens"
    typed = {name: value for name, value in inner.items() if name not in _OF_INVOKE_MODEL}
    _COUNTED.validate_python({**typed, "model": "in the path"})
    return inner
