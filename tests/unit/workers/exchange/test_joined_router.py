"""See ``conftest``. Tests that spell out an internal request id are about a process of its own."""

from tests.unit.exchange import test_router
from tests.unit.exchange.test_router import *  # noqa: F403 - its tests are what this module is

ABOUT_IDS = (
    "test_headers_get_an_id_of_ours_and_nothing_else",
    "test_a_request_without_an_id_gets_a_unique_one",
    "test_internal_headers_of_a_client_are_removed",
)
for name in ABOUT_IDS:
    assert hasattr(test_router, name), name
    del globals()[name]
