"""Files of a volume: bounded, regular, and the directories that decide what a path leads to."""

from __future__ import annotations

import pickle

import pytest

from filter_config.volume import ConfigUnavailable, Reason, inside, link_directories, read_file


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path, limit=5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_file(path, limit=4)


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing")
    with pytest.raises(OSError, match="not a regular file"):
        read_file(tmp_path)


@pytest.mark.parametrize("name", ["..data/x", "...", "a..b", ".hidden"])
def test_dots_in_names_are_no_way_out(tmp_path, name):
    assert inside(tmp_path, name) == tmp_path / name


def test_directories_of_a_plain_file(tmp_path):
    (tmp_path / "file").touch()
    assert link_directories(tmp_path / "file") == (tmp_path,)


def test_directories_of_a_kubernetes_volume(tmp_path):
    (tmp_path / "..a").mkdir()
    (tmp_path / "..a" / "file").touch()
    (tmp_path / "..data").symlink_to("..a")
    (tmp_path / "file").symlink_to("..data/file")
    assert link_directories(tmp_path / "file") == (tmp_path, tmp_path / "..a")


def test_directories_of_links_elsewhere(tmp_path):
    for name in ("releases/1", "current-of", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "releases/1/file").touch()
    (tmp_path / "current-of/current").symlink_to(tmp_path / "releases/1")
    (tmp_path / "etc/file").symlink_to("../current-of/current/file")
    assert link_directories(tmp_path / "etc/file") == (
        tmp_path / "etc",
        tmp_path / "current-of",
        tmp_path / "releases/1",
    )


def test_directories_of_what_is_not_there(tmp_path):
    assert link_directories(tmp_path / "a/b/file") == (tmp_path,)
    (tmp_path / "dangling").symlink_to("gone/file")
    assert link_directories(tmp_path / "dangling") == (tmp_path,)


def test_links_in_a_circle_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert tmp_path in link_directories(tmp_path / "a")


def test_an_unavailable_config_crosses_processes():
    error = pickle.loads(pickle.dumps(ConfigUnavailable("gone", Reason.MISSING)))
    assert (str(error), error.reason) == ("gone", Reason.MISSING)
