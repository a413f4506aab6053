"""When an Envoy has taken what was written to its files.

Envoy watches the files itself, and shows the version of each document that it serves by; one that it refuses counts as
rejected, and the version before it stays. A cluster is usable once it is warm, which takes a look-up of its names;
routes alone warm nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.local.envoy_files import version_of
from deploy.local.envoy_process import EnvoyProcess
from deploy.local.output import write_private

_VERSIONS: Final = r"(cds|lds|rds\..*)\.version_text$"
_REJECTED: Final = r"^(cluster_manager\.cds|listener_manager\.lds|http\..*\.rds\..*)\.update_rejected$"
_WARMING: Final = r"^(cluster_manager\.warming_clusters|listener_manager\.total_listeners_warming)$"
_POLL: Final = 0.004
_SUFFIXES: Final = frozenset({".json", ".pb"})
# All counters of a large Envoy take it some time to list, more than most updates.
_LOOK_FOR_REJECTIONS: Final = 0.5
# Names that do not resolve keep a cluster cold for this long; the others need not wait for it.
_WARM: Final = 5.0


class UpdateRejected(RuntimeError):
    """Envoy refused what was written, or never read it. The text says why."""


def write(directory: Path, documents: Mapping[str, bytes]) -> list[str]:
    """Puts documents into a directory, each as a whole, and removes others. Gives the names of those that changed."""
    there = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in _SUFFIXES}
    changed = [name for name, data in documents.items() if there.get(name) != data]
    for name in changed:
        write_private(directory / name, documents[name])
    for name in there.keys() - documents.keys():
        (directory / name).unlink()
    return changed


class EnvoyUpdates:
    """The updates of one Envoy, which is running and whose documents are in ``directory``."""

    def __init__(self, envoy: EnvoyProcess, directory: Path) -> None:
        self._envoy = envoy
        self._directory = directory
        self._rejected = self._rejections()

    def write(self, documents: Mapping[str, bytes], *, timeout: float = 30.0) -> None:
        """Write all documents and wait until Envoy serves by them.

        Raises:
            UpdateRejected: it does not.
            ChildFailed: Envoy is not running.
        """
        wanted = Counter(version for data in documents.values() if (version := version_of(data)))
        changed = write(self._directory, documents)
        if not changed:
            return
        begun = looked = time.monotonic()
        while wanted - Counter(self._envoy.texts(_VERSIONS).values()):
            now = time.monotonic()
            if now - looked > _LOOK_FOR_REJECTIONS:
                looked = now
                self._raise_if_rejected()
            if now - begun > timeout:
                raise UpdateRejected(f"Envoy did not read {', '.join(changed)} within {timeout:g} s")
            time.sleep(_POLL)
        if any(not name.startswith("rds-") for name in changed):
            self._wait_until_warm()

    def _raise_if_rejected(self) -> None:
        rejected = self._rejections()
        if rejected > self._rejected:
            self._rejected = rejected
            raise UpdateRejected(f"Envoy refused its configuration: {self._envoy.child.last_words(1)}")

    def _rejections(self) -> int:
        return sum(self._envoy.stats(_REJECTED, kind="Counters").values())

    def _wait_until_warm(self) -> None:
        deadline = time.monotonic() + _WARM
        while any(self._envoy.stats(_WARMING, kind="Gauges").values()) and time.monotonic() < deadline:
            time.sleep(_POLL)
