"""What names of Gemini models say."""

import pytest

from extproc.translate.chat.gemini.models import GeminiModel

NAMES = {
    "gemini-1.5-pro-003": (1, 5),
    "gemini-2.0-flash-001": (2, 0),
    "gemini-2.5-flash-lite": (2, 5),
    "gemini-2.5-flash-preview-09-2025": (2, 5),
    "gemini-live-2.5-flash": (2, 5),
    "gemini-3-pro-preview": (3, 0),
    "gemini-3.1-flash-lite": (3, 1),
    "google/gemini-3-flash": (3, 0),
    "publishers/google/models/gemini-3-flash": (3, 0),
    "Gemini-3-Flash": (3, 0),
    "our-gemini-3-tuned": (3, 0),
    "gemini-12": (12, 0),
    "gemini-pro": (0, 0),
    "gemini-flash-latest": (0, 0),
    "gemini-exp-1206": (0, 0),
    "gemini-embedding-001": (0, 0),
    "llama-3": (0, 0),
    "": (0, 0),
}


@pytest.mark.parametrize(("name", "version"), NAMES.items(), ids=NAMES.keys())
def test_the_version_is_parsed(name, version):
    assert GeminiModel.named(name).version == version


FEATURES = {
    "gemini-2.0-flash": (False, False),
    "gemini-1.5-pro-003": (False, False),
    "gemini-2.5-pro": (True, False),
    "gemini-3-pro": (True, True),
    "gemini-4": (True, True),
}


@pytest.mark.parametrize(("name", "features"), FEATURES.items(), ids=FEATURES.keys())
def test_the_version_says_what_a_model_can(name, features):
    model = GeminiModel.named(name)
    assert (model.takes_json_schema, model.takes_thinking_level) == features
    assert model.takes_media_resolution == model.takes_thinking_level


def test_flash_is_known_in_any_case():
    assert GeminiModel.named("Gemini-3-FLASH").is_flash
    assert not GeminiModel.named("gemini-3-pro").is_flash
