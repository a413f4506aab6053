"""Judges requests for images as OpenAI would: by the types of its own SDK."""

from __future__ import annotations

import json

from openai.types import image_edit_params, image_generate_params
from pydantic import TypeAdapter

from tests.support.forms import FormJudge

GENERATION = TypeAdapter(image_generate_params.ImageGenerateParams)
EDIT = FormJudge(image_edit_params.ImageEditParamsBase, "image", "mask", "markup")


def accept_generation(path: str, body: bytes) -> None:
    """Raises when the SDK's types do not know the request, or the path is another one."""
    assert path.partition("?")[0].endswith("/images/generations")
    GENERATION.validate_python(json.loads(body))


def accept_edit(path: str, body: bytes) -> None:
    """The same for edits, of which the SDK has a type for forms only; the boundary is ``q``."""
    assert path.partition("?")[0].endswith("/images/edits")
    if body.startswith(b"--q"):
        EDIT.accept(body, "multipart/form-data; boundary=q")
    else:
        assert json.loads(body).keys() <= {"model", "prompt", "images", "stream"}
