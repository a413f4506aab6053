"""Fixtures of the tests that run a real Envoy: factories whose products live as long as the test module.

A test module starts what it needs once, in a module fixture of its own, and scripts the upstreams in each test.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.envoy.model import RateLimitService, SocketAddress
from deploy.ratelimit import budgets
from deploy.ratelimit.service import RateLimiter, RateLimitServer
from tests.dataplane.harness.upstream import StrictUpstream
from tests.support import canaries

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    from tests.dataplane.harness.stack import Stack

_STACKS = pytest.StashKey[list[Stack]]()
_UPSTREAMS = pytest.StashKey[list[StrictUpstream]]()


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.dataplane)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        module = item.getparent(pytest.Module)
        for stack in module.stash.get(_STACKS, []):
            for name, text in stack.logs().items():
                report.sections.append((f"{stack.directory.name}/{name}", text))
    return report


@pytest.fixture(scope="module")
def socket_directory():
    """A directory whose path is short enough for a unix socket."""
    directory = Path(tempfile.mkdtemp(prefix="dp-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def _parts():
    with ExitStack() as parts:
        yield parts


@pytest.fixture(scope="module")
def start_upstream(_parts, request):
    """``start_upstream(name, tls=None) -> StrictUpstream``, emptied before every test."""

    def start(name="upstream", **arguments):
        upstream = StrictUpstream(name, **arguments)
        _parts.callback(upstream.stop)
        request.node.stash.setdefault(_UPSTREAMS, []).append(upstream)
        return upstream

    return start


@pytest.fixture(scope="module")
def start_rate_limit(_parts):
    """``start_rate_limit(document) -> (RateLimiter, RateLimitService)``: what decides, and where Envoy finds it."""

    def start(document):
        limiter = RateLimiter(budgets.parse(document))
        server = RateLimitServer(limiter)
        server.start()
        _parts.callback(server.stop)
        address = SocketAddress(host="127.0.0.1", port=server.port)
        return limiter, RateLimitService(address=address, domain=document["domain"])

    return start


@pytest.fixture(scope="module")
def start_stack(_parts, request, tmp_path_factory, socket_directory):
    """``start_stack(config=…, routes=…, …) -> Stack``, running; the arguments are those of ``Stack``."""

    def start(**arguments):
        directory = tmp_path_factory.mktemp("stack")
        stack = Stack(directory, socket_directory=socket_directory, **arguments)
        request.node.stash.setdefault(_STACKS, []).append(stack)
        # Called when everything has ended and the logs are whole.
        _parts.callback(_assert_no_credential_shown, directory)
        return _parts.enter_context(stack)

    return start


def _assert_no_credential_shown(directory):
    leaks = list(canaries.shown_in_logs(directory))
    assert not leaks, leaks


@pytest.fixture(autouse=True)
def _fresh_upstreams(request):
    for upstream in request.node.getparent(pytest.Module).stash.get(_UPSTREAMS, []):
        upstream.reset()
