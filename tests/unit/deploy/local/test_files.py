from __future__ import annotations

import io
import threading

import pytest

from deploy.local.files import Files
from filter_config.sources.envoy_ai_gateway.documents import Text


def test_files_directories_and_standard_input(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.yaml").write_text("b")
    (folder / "a.yml").write_text("a")
    (folder / "notes.txt").write_text("n")
    single = tmp_path / "single"
    single.write_text("s")

    files = Files([str(folder), str(single), "-"], stdin=io.BytesIO(b"in"))

    wanted = {"-": b"in", str(folder / "a.yml"): b"a", str(folder / "b.yaml"): b"b", str(single): b"s"}
    assert files.read().by_name == wanted
    assert files.read().by_name == wanted
    assert files.directories() == (folder, tmp_path)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    content = Files([str(tmp_path / "none.yaml")]).read()

    assert content.texts == ()
    assert [fault.origin.file for fault in content.faults.closed()] == [str(tmp_path / "none.yaml")]


def test_a_standard_input_that_was_closed_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    (tmp_path / "r.yaml").write_text("r")
    files = Files([str(tmp_path / "r.yaml"), "-"])
    content = files.read()

    assert content.by_name == {str(tmp_path / "r.yaml"): b"r"}
    assert list(map(str, content.faults.closed())) == ["-: there is no standard input here; name a file"]
    assert files.directories() == (tmp_path,)


def test_a_text_in_no_file():
    files = Files.of_text(Text(name="environment", data=b"e"))

    assert (files.read().by_name, files.directories()) == ({"environment": b"e"}, ())


@pytest.mark.parametrize("lose", ["empty", "move"])
def test_what_an_editor_loses_for_a_moment_is_waited_for(tmp_path, lose, monkeypatch):
    file = tmp_path / "r.yaml"
    file.write_text("old")
    files = Files([str(file)])
    before = files.read()
    waited = threading.Event()

    def come_back(_):
        waited.set()
        file.write_text("new")

    monkeypatch.setattr("deploy.local.files.time.sleep", come_back)
    if lose == "empty":
        file.write_text("")
    else:
        file.rename(tmp_path / "r.yaml~")

    assert files.read_settled(before).by_name == {str(file): b"new"}
    assert waited.is_set()


def test_what_is_there_is_not_waited_for(tmp_path, monkeypatch):
    file = tmp_path / "r.yaml"
    file.write_text("old")
    files = Files([str(file)])
    before = files.read()
    monkeypatch.setattr("deploy.local.files.time.sleep", None)

    file.write_text("new")

    assert files.read_settled(before).by_name == {str(file): b"new"}
