"""The gateway of the field reports: whatever a test does with it, its end is checked."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.field_reports import WatchedGateway, watched


@pytest.fixture
def open_gateway() -> Iterator[Callable[..., WatchedGateway]]:
    """Opens gateways; at the end of the test each is checked for what it left behind."""
    with ExitStack() as stack:

        def open_(*arguments: Any, **options: Any) -> WatchedGateway:
            return stack.enter_context(watched(*arguments, **options))

        yield open_


@pytest.fixture
def gateway(open_gateway: Callable[..., WatchedGateway]) -> WatchedGateway:
    """A gateway on the usual config: one backend, costs for input, output and total."""
    return open_gateway()
