"""A config in pieces: index, parts, checksum, and what may be wrong with each."""

from __future__ import annotations

import hashlib
import os

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_config import bundle
from filter_config.bundle import (
    CHUNK_BYTES,
    MAX_PARTS,
    encode_index,
    parse_index,
    read_bundle,
    split,
    write_bundle,
)
from filter_config.load import decode
from filter_config.volume import ConfigUnavailable, Reason

PAYLOAD = b"version: dev\nbackends: [{name: b, schema: {name: OpenAI}}]\n"
DIGEST = hashlib.sha256(PAYLOAD).hexdigest()


def write(directory, index: str, **parts: bytes) -> None:
    folder = directory / "parts"
    folder.mkdir(exist_ok=True)
    for name, data in parts.items():
        (folder / name.removeprefix("p")).write_bytes(data)
    (directory / "index.yaml").write_text(index)


def index(checksum: str = DIGEST, *paths: str) -> str:
    parts = ", ".join(f"{{path: '{path}'}}" for path in paths or ("parts/000", "parts/001"))
    return f"checksum: {checksum}\nparts: [{parts}]\n"


# --- reading ---


def test_parts_are_joined_wherever_they_were_cut(tmp_path):
    write(tmp_path, index(), p000=PAYLOAD[:7], p001=PAYLOAD[7:])
    assembled = read_bundle(tmp_path)
    assert (assembled.data, assembled.digest) == (PAYLOAD, DIGEST)
    config = decode(assembled.data).config
    assert (config.version, len(config.backends)) == ("dev", 1)


def test_the_checksum_may_be_in_upper_case(tmp_path):
    write(tmp_path, index(DIGEST.upper()), p000=PAYLOAD, p001=b"")
    assert read_bundle(tmp_path).digest == DIGEST


def test_parts_may_have_any_names_in_the_directory(tmp_path):
    write(tmp_path, index(DIGEST, "parts/b", "parts/a"), pa=PAYLOAD[3:], pb=PAYLOAD[:3])
    assert read_bundle(tmp_path).data == PAYLOAD


INDEX_ERRORS = {
    "not yaml": ("{", "failed to unmarshal config bundle index: line "),
    "not a mapping": ("[]", "failed to unmarshal config bundle index: expected a mapping, got a list"),
    "parts that are none": (
        "checksum: a\nparts: 5",
        "failed to unmarshal config bundle index: parts: expected a list, got a number",
    ),
    "size that is none": (
        "checksum: a\nparts: [{path: a, sizeBytes: x}]",
        "failed to unmarshal config bundle index: parts[0].sizeBytes: expected an integer",
    ),
    "empty": ("", "invalid config bundle index: empty checksum value"),
    "no checksum": ("parts: [{path: a}]", "invalid config bundle index: empty checksum value"),
    "no parts": ("checksum: a", "invalid config bundle index: empty parts"),
    "empty parts": ("checksum: a\nparts: []", "invalid config bundle index: empty parts"),
    "too many parts": (
        "checksum: a\nparts: [" + "{path: a}, " * 1025 + "]",
        "invalid config bundle index: more than 1024 parts",
    ),
}


@pytest.mark.parametrize(("text", "message"), INDEX_ERRORS.values(), ids=INDEX_ERRORS)
def test_index_error(text, message):
    with pytest.raises(ConfigUnavailable) as error:
        parse_index(text.encode())
    assert str(error.value).startswith(message)
    assert error.value.reason is Reason.INDEX
    assert not error.value.transient


def test_index_is_read_by_the_rules_of_the_config():
    found = parse_index(b"Version: 1.0\nCHECKSUM: ab\nparts: [{path: 1, extra: x}]\ncreatedAt: 2024-01-02T03:04:05Z")
    assert (found.version, found.checksum, found.parts[0].path) == ("1", "ab", "1")
    assert found.created_at.year == 2024


def test_no_index(tmp_path):
    with pytest.raises(ConfigUnavailable, match="failed to read config bundle index") as error:
        read_bundle(tmp_path)
    assert error.value.reason is Reason.MISSING


def test_index_that_is_a_directory(tmp_path):
    (tmp_path / "index.yaml").mkdir()
    with pytest.raises(ConfigUnavailable, match="not a regular file") as error:
        read_bundle(tmp_path)
    assert error.value.reason is Reason.UNREADABLE


def test_missing_part(tmp_path):
    write(tmp_path, index(), p000=PAYLOAD)
    with pytest.raises(ConfigUnavailable, match='bundle part not found "parts/001": ') as error:
        read_bundle(tmp_path)
    assert error.value.reason is Reason.PART_MISSING
    assert error.value.transient


def test_wrong_checksum(tmp_path):
    write(tmp_path, index("AB"), p000=PAYLOAD, p001=b"")
    with pytest.raises(ConfigUnavailable) as error:
        read_bundle(tmp_path)
    assert str(error.value) == f"bundle checksum mismatch: expected ab got {DIGEST}"
    assert error.value.reason is Reason.CHECKSUM
    assert error.value.transient


def test_unreadable_part(tmp_path):
    write(tmp_path, index(DIGEST, "parts/000"))
    (tmp_path / "parts" / "000").mkdir()
    with pytest.raises(ConfigUnavailable, match='failed to read bundle part "parts/000": ') as error:
        read_bundle(tmp_path)
    assert not error.value.transient


def test_a_pipe_does_not_block(tmp_path):
    write(tmp_path, index(DIGEST, "parts/000"))
    os.mkfifo(tmp_path / "parts" / "000")
    with pytest.raises(ConfigUnavailable, match="not a regular file"):
        read_bundle(tmp_path)


def test_parts_are_bounded_together(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_CONFIG_BYTES", 10)
    write(tmp_path, index(), p000=b"123456", p001=b"12345")
    with pytest.raises(ConfigUnavailable, match='failed to read bundle part "parts/001": larger than 4 bytes'):
        read_bundle(tmp_path)


OUTSIDE = ["../secret", "parts/../../secret", "/etc/passwd", "", ".", "parts//000", "parts/./000", "a\0b"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_leave_the_directory(tmp_path, path):
    directory = tmp_path / "volume"
    directory.mkdir()
    (tmp_path / "secret").write_bytes(PAYLOAD)
    document = yaml.safe_dump({"checksum": DIGEST, "parts": [{"path": path}]})
    write(directory, document)
    with pytest.raises(ConfigUnavailable, match=r"the path leads out of the bundle directory|control characters"):
        read_bundle(directory)


def test_a_link_that_leaves_the_directory(tmp_path):
    directory = tmp_path / "volume"
    directory.mkdir()
    (tmp_path / "secret").write_bytes(PAYLOAD)
    write(directory, index(DIGEST, "parts/000"))
    (directory / "parts" / "000").symlink_to("../../secret")
    with pytest.raises(ConfigUnavailable, match="the path leads out of the bundle directory"):
        read_bundle(directory)


def test_links_of_a_kubernetes_volume(tmp_path):
    generation = tmp_path / "..2026_01_01"
    generation.mkdir()
    write(generation, index(DIGEST, "parts/000"), p000=PAYLOAD)
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / "index.yaml").symlink_to("..data/index.yaml")
    (tmp_path / "parts").symlink_to("..data/parts")
    assert read_bundle(tmp_path).data == PAYLOAD
    # The volume itself may be reached through a link.
    other = tmp_path.parent / f"{tmp_path.name}-link"
    other.symlink_to(tmp_path)
    assert read_bundle(other).data == PAYLOAD


def test_a_swap_between_index_and_parts_is_read_anew(tmp_path, monkeypatch):
    write(tmp_path, index("ab"), p000=PAYLOAD, p001=b"")
    read_part = bundle._read_part

    def swap_then_read(directory, name, room):
        (directory / "index.yaml").write_text(index())
        return read_part(directory, name, room)

    monkeypatch.setattr(bundle, "_read_part", swap_then_read)
    assert read_bundle(tmp_path).digest == DIGEST


def test_swaps_without_end_are_given_up(tmp_path, monkeypatch):
    write(tmp_path, index("ab"), p000=PAYLOAD, p001=b"")
    read_part = bundle._read_part
    swaps = []

    def swap_then_read(directory, name, room):
        swaps.append(name)
        (directory / "index.yaml").write_text(index("ab") + f"uuid: {len(swaps)}\n")
        return read_part(directory, name, room)

    monkeypatch.setattr(bundle, "_read_part", swap_then_read)
    with pytest.raises(ConfigUnavailable, match="bundle checksum mismatch"):
        read_bundle(tmp_path)
    assert len(swaps) == 6


# --- writing ---


def test_what_is_written_is_read(tmp_path):
    payload = os.urandom(2 * CHUNK_BYTES + 5)
    write_bundle(tmp_path, payload, "v1", "u1")
    assert read_bundle(tmp_path).data == payload
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["000", "001", "002"]
    document = yaml.safe_load((tmp_path / "index.yaml").read_text())
    assert document == {
        "checksum": hashlib.sha256(payload).hexdigest(),
        "parts": [
            {"name": "part-000", "path": "parts/000", "sizeBytes": CHUNK_BYTES},
            {"name": "part-001", "path": "parts/001", "sizeBytes": CHUNK_BYTES},
            {"name": "part-002", "path": "parts/002", "sizeBytes": 5},
        ],
        "uuid": "u1",
        "version": "v1",
    }
    assert list(document) == sorted(document)


def test_files_are_for_their_owner_only(tmp_path):
    write_bundle(tmp_path / "new", PAYLOAD, "v1", "u1")
    for path in (tmp_path / "new").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_a_smaller_bundle_removes_surplus_parts(tmp_path):
    write_bundle(tmp_path, b"x" * (CHUNK_BYTES * 2), "v1", "u1")
    write_bundle(tmp_path, b"y", "v1", "u2")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["000"]
    assert read_bundle(tmp_path).data == b"y"


def test_an_empty_payload_is_one_empty_part(tmp_path):
    write_bundle(tmp_path, b"", "", "")
    assert read_bundle(tmp_path).data == b""
    assert split(b"") == [b""]
    assert set(yaml.safe_load(encode_index(b"", [b""], version="", uuid=""))) == {"checksum", "parts"}


def test_too_many_parts(tmp_path):
    with pytest.raises(ValueError, match="filter config requires 9 shards, exceeds max supported slots 8"):
        write_bundle(tmp_path, b"x" * (CHUNK_BYTES * MAX_PARTS + 1), "v1", "u1")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_no_piece(tmp_path, monkeypatch):
    def refuse(*_names):
        raise OSError("no")

    monkeypatch.setattr(bundle.os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_bundle(tmp_path, PAYLOAD, "v1", "u1")
    assert list((tmp_path / "parts").iterdir()) == []


@settings(max_examples=60)
@given(size=st.integers(0, 40), chunk=st.integers(1, 12))
def test_splitting_loses_nothing_and_cuts_evenly(size, chunk):
    payload = bytes(range(size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "CHUNK_BYTES", chunk)
        parts = split(payload)
    assert b"".join(parts) == payload
    assert len(parts) == max(-(-size // chunk), 1)
    assert all(len(part) == chunk for part in parts[:-1])


@settings(max_examples=40)
@given(payload=st.binary(max_size=64), chunk=st.integers(8, 64))
def test_any_bundle_is_read_back(tmp_path_factory, payload, chunk):
    directory = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "CHUNK_BYTES", chunk)
        write_bundle(directory, payload, "v", "u")
    assert read_bundle(directory).data == payload
