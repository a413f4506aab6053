"""What every test shares."""

import hypothesis
import pytest
import structlog

from tests.support import canaries

# Machines are shared and noisy: how long an example takes says nothing about the code.
hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")

# The default renderer draws tracebacks with every variable, which takes longer than most tests.
structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files from today's output")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """No output of any test shows a credential; one of a failed test may, in what its assertions compare."""
    report = yield
    if report.passed and (where := canaries.shown(report.capstdout + report.capstderr + report.caplog)) is not None:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} ({report.when}) shows a credential: …{where}…"
    return report
