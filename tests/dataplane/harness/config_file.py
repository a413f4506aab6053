"""A filter config as Kubernetes mounts one: a file behind ``..data``, replaced by swapping a symlink."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "filter-config.yaml"


class ConfigFile:
    """The mounted volume. ``path`` never changes; what it leads to does."""

    def __init__(self, volume: Path, document: Mapping[str, Any] | bytes) -> None:
        self._volume = volume
        self._generation = itertools.count(1)
        volume.mkdir(parents=True)
        self.path = volume / NAME
        self.digest = self.swap(document)
        self.path.symlink_to(f"..data/{NAME}")

    def swap(self, document: Mapping[str, Any] | bytes) -> str:
        """Publish a new content in one rename, and give its SHA-256. Bytes are published as they are."""
        data = document if isinstance(document, bytes) else yaml.safe_dump(dict(document), sort_keys=False).encode()
        current = self._volume / "..data"
        before = current.resolve() if current.is_symlink() else None
        payload = self._volume / f"..generation_{next(self._generation)}"
        payload.mkdir()
        (payload / NAME).write_bytes(data)
        beside = self._volume / "..data_tmp"
        beside.symlink_to(payload.name)
        beside.replace(current)
        if before is not None:
            shutil.rmtree(before)
        self.digest = hashlib.sha256(data).hexdigest()
        return self.digest
