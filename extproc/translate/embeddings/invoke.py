"""What the families of models behind Bedrock's InvokeModel share: the count of tokens, and errors."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.translate.aws import model_path, read_aws_error
from extproc.translate.chat.translator import BackendError
from extproc.usage import as_count


class _OpenAIError(msgspec.Struct, frozen=True):
    error: dict[str, object]


_openai_error = msgspec.json.Decoder(_OpenAIError)


def invoke_path(model: str) -> str:
    return model_path(model, "invoke")


def counted_tokens(headers: Mapping[str, str]) -> int | None:
    """The count in the header that every model on Bedrock answers with; ``None`` when it cannot be read."""
    count = headers.get("x-amzn-bedrock-input-token-count", "").strip()
    return as_count(int(count)) if count.isascii() and count.isdigit() and len(count) < 20 else None


def invoke_error(headers: Mapping[str, str], body: bytes) -> BackendError | None:
    """Read an error; ``None`` for one in the client's own shape, which a gateway on the way has written."""
    if not headers.get("x-amzn-errortype"):
        try:
            body.decode()
            _openai_error.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
        else:
            return None
    return read_aws_error("", headers, body)
