"""Reading a log that is being written."""

from __future__ import annotations

import threading

import pytest

from deploy.demo.access_log import AccessLogReader


def test_lines_come_as_they_are_completed(tmp_path):
    path = tmp_path / "access.log"
    reader = AccessLogReader(path)
    assert reader.entries() == []
    with path.open("a") as log:
        log.write('{"request_id": "a", "n": 1}\n{"request_id": "b", "n"')
        log.flush()
        assert reader.entries() == [{"request_id": "a", "n": 1}]
        log.write(": 2}\n\n")
        log.flush()
        assert [entry["n"] for entry in reader.entries()] == [1, 2]


def test_waiting_for_a_request(tmp_path):
    path = tmp_path / "access.log"
    writer = threading.Timer(0.05, path.write_text, ['{"request_id": "a", "status": 200}\n'])
    writer.start()

    entry = AccessLogReader(path).wait_for("a")

    writer.join()
    assert entry["status"] == 200


def test_a_request_that_is_not_logged(tmp_path):
    with pytest.raises(TimeoutError, match="no access log entry for request 'a'"):
        AccessLogReader(tmp_path / "access.log").wait_for("a", timeout=0.02)
