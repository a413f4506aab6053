"""What every test shares."""

import hypothesis
import pytest
import structlog

# Machines are shared and noisy: how long an example takes says nothing about the code.
hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")

# The default renderer draws tracebacks with every variable, which takes longer than most tests.
structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files from today's output")
