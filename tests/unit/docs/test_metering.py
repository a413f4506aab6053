"""What the page on metering promises holds."""

import re
from pathlib import Path

import pytest

from filter_config.cel import compile_cost

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "metering.md"
RECIPES = re.findall(r"^\| [^|`]+ \| `([^`]+tokens[^`]*)` \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("expression", RECIPES)
def test_recipes_compile(expression):
    assert compile_cost(expression) is not None


def test_every_recipe_is_found():
    assert len(RECIPES) == 5
