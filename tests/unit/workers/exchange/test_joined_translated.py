"""See ``conftest``."""

from tests.unit.exchange.test_translated import *  # noqa: F403 - its tests are what this module is
