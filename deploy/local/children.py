"""Child processes that cannot outlive us, with their output in a log file.

On Linux the kernel kills a child when the thread that started it dies; all children are therefore started by one thread
that lives as long as the process does. Whoever waits for a line waits on a condition, not on a clock.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SPAWNER: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")

# prctl(PR_SET_PDEATHSIG, SIGKILL) survives exec; if the parent is gone before it takes effect, give up at once.
_TIE_TO_PARENT: Final = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit(1)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


class ChildFailed(RuntimeError):
    """A child ended, or did not say what it should have said in time. The message ends with its last words."""


class Child:
    """One child process. ``log`` collects its output, standard error included."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._ended = False
        self._process = _SPAWNER.submit(_spawn, command, environment).result()
        self._pump = threading.Thread(target=self._copy_output, name=f"log of {name}", daemon=True)
        self._pump.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while the child runs."""
        return self._process.poll()

    def wait_for_line(self, part: str, *, timeout: float) -> str:
        """The first line of output that contains ``part``, from the start of the output.

        Raises:
            ChildFailed: the child has ended, or ``timeout`` seconds have passed, without such a line.
        """
        deadline = time.monotonic() + timeout
        position = 0
        with self._changed:
            while True:
                for line in self._lines[position:]:
                    if part in line:
                        return line
                position = len(self._lines)
                if self._ended:
                    raise ChildFailed(f"{self.name} ended with status {self._process.wait()}: {self.last_words()}")
                if not self._changed.wait(deadline - time.monotonic()):
                    raise ChildFailed(f"{self.name} did not say {part!r} within {timeout:g} s: {self.last_words()}")

    def last_words(self, lines: int = 3) -> str:
        """The end of the output on one line, shortened; empty when there was none."""
        said = [line.strip() for line in self._lines[-lines:]]
        return " | ".join(line if len(line) <= 400 else f"{line[:400]}…" for line in said if line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a child that has ended is left alone."""
        if self.running:
            self._process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """The exit status, once the child has ended and its output is in the log.

        Raises:
            subprocess.TimeoutExpired: it is still running after ``timeout`` seconds.
        """
        status = self._process.wait(timeout)
        self._pump.join(timeout)
        return status

    def stop(self, *, grace: float = 5.0) -> int:
        """SIGTERM, and SIGKILL after ``grace`` seconds. Gives the exit status; calling it again is harmless."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(grace)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        self.signal(signal.SIGKILL)
        return self.wait(10.0)

    def _copy_output(self) -> None:
        output = self._process.stdout
        if output is None:
            raise AssertionError("the child was started with a pipe")
        with self.log.open("ab", buffering=0) as log:
            for raw in output:
                log.write(raw)
                with self._changed:
                    self._lines.append(raw.decode("utf-8", "replace"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        output.close()


def _spawn(command: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _TIE_TO_PARENT, str(os.getpid()), *command]
    return subprocess.Popen(  # noqa: S603 - the command is ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if environment is None else {**os.environ, **environment},
        # A Ctrl-C in the terminal is ours to answer: the children stop in order.
        start_new_session=True,
    )
