"""A config in pieces: an index, parts, and the checksum that proves they belong together (contract, filter config 2.9).

Index and parts come from different Secrets, so a reader may see the index of one generation with parts of another. The
checksum is what protects, and a mismatch is an ordinary state that ends by itself. Writers put the index last.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from filter_config.decode import read
from filter_config.document import DocumentError, read_document
from filter_config.model import BundleIndex
from filter_config.problems import Findings
from filter_config.volume import MAX_CONFIG_BYTES, ConfigUnavailable, Reason, inside, read_file

INDEX_NAME: Final = "index.yaml"
PARTS_NAME: Final = "parts"
CHUNK_BYTES: Final = 700 * 1024
"""Size of a part: a Secret holds at most one MiB."""
MAX_PARTS: Final = 8
"""How many parts a control plane writes; the projected volume has this many slots."""

_MAX_INDEX_BYTES: Final = 1024 * 1024
# A reader takes more parts than a writer writes, though not any number of files to open.
_MAX_READ_PARTS: Final = 1024
# How often a bundle is read anew when its index changed while the parts were being read.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """An assembled bundle."""

    data: bytes
    digest: str
    """Hex SHA-256 of the data."""


def parse_index(data: bytes) -> BundleIndex:
    """The index of a bundle.

    Raises:
        ConfigUnavailable: it is no index, names no checksum, or names no parts.
    """
    findings = Findings()
    try:
        index = read(BundleIndex, read_document(data).value, findings)
    except DocumentError as error:
        raise ConfigUnavailable(f"failed to unmarshal config bundle index: {error}", Reason.INDEX) from None
    errors = [str(problem) for problem in findings.closed() if problem.severity == "error"]
    if errors:
        raise ConfigUnavailable(f"failed to unmarshal config bundle index: {', '.join(errors)}", Reason.INDEX)
    if not index.checksum:
        raise ConfigUnavailable("invalid config bundle index: empty checksum value", Reason.INDEX)
    if not index.parts:
        raise ConfigUnavailable("invalid config bundle index: empty parts", Reason.INDEX)
    if len(index.parts) > _MAX_READ_PARTS:
        raise ConfigUnavailable(f"invalid config bundle index: more than {_MAX_READ_PARTS} parts", Reason.INDEX)
    return index


def read_bundle(directory: Path) -> Bundle:
    """Reads index and parts, and joins them if they belong together.

    Raises:
        ConfigUnavailable: index or a part is missing or bad, or the checksum does not agree.
    """
    index_data = _read_index(directory)
    for _ in range(_ATTEMPTS - 1):
        try:
            return _assemble(directory, parse_index(index_data))
        except ConfigUnavailable as error:
            # The volume may have been swapped between index and parts; then the new index tells.
            newer = _read_index(directory)
            if not error.transient or newer == index_data:
                raise
            index_data = newer
    return _assemble(directory, parse_index(index_data))


def _read_index(directory: Path) -> bytes:
    path = directory / INDEX_NAME
    try:
        return read_file(path, limit=_MAX_INDEX_BYTES)
    except FileNotFoundError as error:
        raise ConfigUnavailable(f"failed to read config bundle index: {error}", Reason.MISSING) from error
    except OSError as error:
        raise ConfigUnavailable(f"failed to read config bundle index: {error}", Reason.UNREADABLE) from error


def _assemble(directory: Path, index: BundleIndex) -> Bundle:
    pieces: list[bytes] = []
    room = MAX_CONFIG_BYTES
    for part in index.parts:
        piece = _read_part(directory, part.path, room)
        room -= len(piece)
        pieces.append(piece)
    data = b"".join(pieces)
    digest = hashlib.sha256(data).hexdigest()
    expected = index.checksum.lower()
    if digest != expected:
        raise ConfigUnavailable(f"bundle checksum mismatch: expected {expected} got {digest}", Reason.CHECKSUM)
    return Bundle(data=data, digest=digest)


def _read_part(directory: Path, name: str, room: int) -> bytes:
    path = inside(directory, name)
    if path is None:
        message = f'failed to read bundle part "{name}": the path leads out of the bundle directory'
        raise ConfigUnavailable(message, Reason.INDEX)
    try:
        return read_file(path, limit=room)
    except FileNotFoundError as error:
        raise ConfigUnavailable(f'bundle part not found "{name}": {error}', Reason.PART_MISSING) from error
    except OSError as error:
        raise ConfigUnavailable(f'failed to read bundle part "{name}": {error}', Reason.UNREADABLE) from error


# --- writing ---


def split(payload: bytes) -> list[bytes]:
    """The payload in parts of :data:`CHUNK_BYTES`, cut anywhere; an empty payload is one empty part."""
    return [payload[start : start + CHUNK_BYTES] for start in range(0, max(len(payload), 1), CHUNK_BYTES)]


def encode_index(payload: bytes, parts: list[bytes], *, version: str, uuid: str) -> bytes:
    """The index document: keys sorted, empty ones left out, no document marker."""
    document = {
        "checksum": hashlib.sha256(payload).hexdigest(),
        "parts": [
            {"name": f"part-{number:03d}", "path": f"{PARTS_NAME}/{number:03d}", "sizeBytes": len(part)}
            for number, part in enumerate(parts)
        ],
        "uuid": uuid,
        "version": version,
    }
    kept = {key: value for key, value in document.items() if value}
    return yaml.safe_dump(kept, sort_keys=True, allow_unicode=True).encode()


def write_bundle(directory: Path, payload: bytes, version: str, uuid: str) -> None:
    """Writes a bundle: parts first, each file at once, the index last; surplus parts of an earlier one are removed.

    Files hold credentials and are readable by their owner only.

    Raises:
        ValueError: the payload needs more than :data:`MAX_PARTS` parts.
    """
    parts = split(payload)
    if len(parts) > MAX_PARTS:
        raise ValueError(f"filter config requires {len(parts)} shards, exceeds max supported slots {MAX_PARTS}")
    folder = directory / PARTS_NAME
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        _replace(folder / f"{number:03d}", part)
    _replace(directory / INDEX_NAME, encode_index(payload, parts, version=version, uuid=uuid))
    for number in range(len(parts), MAX_PARTS):
        # After the index, so that no reader misses a part that its index names.
        (folder / f"{number:03d}").unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    """Puts a file in place as a whole."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(data)
        os.replace(name, path)  # noqa: PTH105 - the name is a str
    except BaseException:
        os.unlink(name)  # noqa: PTH108
        raise
