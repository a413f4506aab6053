"""What operators keep out of OpenInference spans (its specification, "Configuration" and "Data Masking").

A hidden value reads ``__REDACTED__``, so that it can be told from one that was not there; where a whole conversation
is hidden there is nothing left to tell apart, and its attributes are left out. A switch for everything hides all that
the finer ones hide. The specification has no word on rerank requests: their query and documents are inputs too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

from extproc.golang import parse_bool

REDACTED: Final = "__REDACTED__"

_PREFIX: Final = "OPENINFERENCE_"
_LONGEST_IMAGE: Final = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceConfig:
    """The switches, each named as its variable without ``OPENINFERENCE_``.

    Attributes:
        hide_inputs: the request as a whole, and all that the switches for parts of it hide, definitions of tools too.
        hide_outputs: the answer as a whole, and all that the switches for parts of it hide.
        hide_embedding_vectors: an older name of ``hide_embeddings_vectors``.
        base64_image_max_length: in characters; a longer image that is part of the request itself is hidden.
    """

    hide_llm_invocation_parameters: bool = False
    hide_llm_tools: bool = False
    hide_inputs: bool = False
    hide_outputs: bool = False
    hide_input_messages: bool = False
    hide_output_messages: bool = False
    hide_input_images: bool = False
    hide_input_text: bool = False
    hide_output_text: bool = False
    hide_embeddings_text: bool = False
    hide_embeddings_vectors: bool = False
    hide_embedding_vectors: bool = False
    hide_prompts: bool = False
    hide_choices: bool = False
    base64_image_max_length: int = _LONGEST_IMAGE

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """The switches in the environment; one that cannot be parsed has its default."""
        hidden = {
            field.name: switch(environ.get(_PREFIX + field.name.upper(), ""))
            for field in fields(cls)
            if field.name.startswith("hide_")
        }
        longest = environ.get(_PREFIX + "BASE64_IMAGE_MAX_LENGTH", "")
        return cls(**hidden, base64_image_max_length=_length(longest))

    @property
    def no_tools(self) -> bool:
        return self.hide_inputs or self.hide_llm_tools

    @property
    def no_input_messages(self) -> bool:
        return self.hide_inputs or self.hide_input_messages

    @property
    def no_output_messages(self) -> bool:
        return self.hide_outputs or self.hide_output_messages

    @property
    def masks_prompts(self) -> bool:
        return self.hide_inputs or self.hide_prompts

    @property
    def masks_choices(self) -> bool:
        return self.hide_outputs or self.hide_choices

    @property
    def masks_texts(self) -> bool:
        return self.hide_inputs or self.hide_embeddings_text

    @property
    def masks_vectors(self) -> bool:
        return self.hide_outputs or self.hide_embeddings_vectors or self.hide_embedding_vectors

    @property
    def inputs(self) -> Mask:
        return Mask(self.hide_input_text, self.hide_input_images, self.base64_image_max_length)

    @property
    def outputs(self) -> Mask:
        return Mask(self.hide_output_text, images=False, longest_image=self.base64_image_max_length)


class Mask(NamedTuple):
    """What is hidden inside of messages that are shown.

    Attributes:
        texts: whether texts are.
        images: whether all images are.
        longest_image: characters of an image in base64 that are still shown.
    """

    texts: bool
    images: bool
    longest_image: int

    def text(self, text: str) -> str:
        return REDACTED if self.texts and text else text

    def image(self, url: str) -> str:
        return REDACTED if url and (self.images or (_embedded(url) and len(url) > self.longest_image)) else url


def _embedded(url: str) -> bool:
    return url.startswith("data:image/") and url.partition(",")[0].endswith("base64")


def switch(text: str) -> bool:
    """A boolean as Go spells it; false for anything else."""
    try:
        return parse_bool(text)
    except ValueError:
        return False


def _length(text: str) -> int:
    # Go's Atoi takes decimal digits only, and no more than an int has.
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else _LONGEST_IMAGE
