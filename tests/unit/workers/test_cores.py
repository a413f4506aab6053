"""``auto`` is what the container may use, not what the machine has."""

import os

import pytest

from extproc.settings import Settings
from extproc.workers import cores
from extproc.workers.cores import available_cores

MACHINE = 8
QUOTAS = {
    "none": ({}, MACHINE),
    "version 2, no quota": ({"cpu.max": "max 100000\n"}, MACHINE),
    "version 2": ({"cpu.max": "200000 100000\n"}, 2),
    "version 2, a part of a core": ({"cpu.max": "50000 100000\n"}, 1),
    "version 2, rounded up": ({"cpu.max": "250000 100000\n"}, 3),
    "version 2, more than there is": ({"cpu.max": "6400000 100000\n"}, MACHINE),
    "version 2, unreadable": ({"cpu.max": "?\n"}, MACHINE),
    "version 1": ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    "version 1, no quota": ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, MACHINE),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_cores_within_the_quota(name, tmp_path, monkeypatch):
    files, expected = QUOTAS[name]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MACHINE)))
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert available_cores(tmp_path) == expected


def test_auto_is_that_many(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(cores, "_quota", lambda _: None)
    settings = Settings.parse(["-configPath", "x", "-transport", "http2", "-workers", "auto"], {})
    assert settings.workers == 3
