"""The SDK reads the environment of the process: these tests have one without its variables, and its loggers back."""

from __future__ import annotations

import logging
import os

import pytest
from opentelemetry.sdk._shared_internal import DuplicateFilter

from extproc.telemetry.otel import libraries


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """``environment(**variables)`` sets variables of the process; gives them as ``build`` and the like want them."""
    for name in [name for name in os.environ if name.startswith(("OTEL_", "OPENINFERENCE_", "AI_GATEWAY_"))]:
        monkeypatch.delenv(name)

    def set_variables(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return variables

    return set_variables


@pytest.fixture
def adopted():
    """The SDK's lines come as ours, for one test."""
    names = ("opentelemetry", *libraries._ABOUT_CLIENTS)
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    libraries.adopt()
    _forget_what_was_logged()
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def _forget_what_was_logged():
    """The SDK has a filter of its own for what it has said within the last seconds, by another test."""
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("opentelemetry")]:
        for own in logging.getLogger(name).filters:
            if isinstance(own, DuplicateFilter):
                own.last_log = None
