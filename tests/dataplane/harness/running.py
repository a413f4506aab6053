"""``extproc run`` as users start it, and what it says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

_COMMAND = "import sys; from extproc.cli import main; sys.exit(main(sys.argv[1:]))"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
# Credentials and addresses of whoever runs the tests are none of theirs.
_PRIVATE = re.compile(r"(OPENAI|AZURE_OPENAI|ANTHROPIC)_|SSL_CERT_FILE|EXTPROC_")


class Running:
    """The command with ``arguments``, from ``with`` on. ``scratch`` is where its temporary files are."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        # With a path that is short enough for a unix socket below it.
        self.scratch = Path(tempfile.mkdtemp(prefix="dp-"))
        self._arguments = arguments
        self._environment = {
            **{name: value for name, value in os.environ.items() if not _PRIVATE.match(name)},
            "TMPDIR": str(self.scratch),
            **(environment or {}),
        }
        self._changed = threading.Condition()
        self.said: list[str] = []
        """Lines of standard output, in order."""
        self.complained: list[str] = []
        """Lines of standard error, in order."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "run", *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        for stream, lines in ((self.process.stdout, self.said), (self.process.stderr, self.complained)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.scratch)

    def wait_until_live(self) -> None:
        """Block until everything is served."""
        self.wait_for(lambda: any("Ctrl-C" in line for line in self.said), "is live")

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        """Block until a condition on what was said holds."""
        with self._changed:
            met = self._changed.wait_for(lambda: condition() or self.process.poll() is not None, timeout)
            if not met or not condition():
                raise AssertionError(f"not seen: {what}: {self.said[-5:]} {self.complained[-5:]}")

    def edit(self, change: Callable[[], object]) -> str:
        """Change the files, and give what is said once the change is live."""
        known = len(self.said)
        change()
        self.wait_for(lambda: len(self.said) > known, "the edit is live")
        return self.said[known]

    @property
    def port(self) -> int:
        """The port of the gateway that was named last."""
        lines = [line for line in self.said if " Gateway " in line and " is live" in line]
        return int(_ADDRESS.findall(lines[-1])[0])

    @property
    def admin_port(self) -> int:
        """The port of its processor's pages."""
        lines = [line for line in self.said if " Gateway " in line and " is live" in line]
        return int(_ADDRESS.findall(lines[-1])[-1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def children(self) -> list[int]:
        """The processes that it has started."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal, and give the exit status."""
        self.process.send_signal(number)
        return self.process.wait(30)

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def write(path: Path, text: str | Sequence[str]) -> None:
    """Replace a file the way an editor does."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text if isinstance(text, str) else "\n---\n".join(text))
    beside.replace(path)
