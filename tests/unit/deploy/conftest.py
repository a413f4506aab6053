"""Fixtures of the tests of what attaches the processor to an Envoy."""

from __future__ import annotations

import subprocess
import warnings

import pytest

from deploy.local.envoy_process import binary

with warnings.catch_warnings():
    # betterproto2 declares its messages in a way that pydantic deprecates; nothing to mend on our side.
    warnings.simplefilter("ignore", DeprecationWarning)
    import deploy.envoy.bootstrap  # noqa: F401


@pytest.fixture(scope="session")
def envoy_accepts():
    """``envoy_accepts(path)``: None when the real Envoy takes the configuration, else what it says."""

    def check(path):
        command = [binary(), "--mode", "validate", "--config-path", str(path), "--log-level", "error"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return None if done.returncode == 0 else done.stderr[-2000:]

    return check
