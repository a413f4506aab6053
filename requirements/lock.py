"""Resolve the pinned, hashed requirement files from ``pyproject.toml``.

One file per use: ``runtime`` (the image), ``demo`` (``make demo``) and ``dev`` (tests and checks). The resolution is
universal, so the same file serves every supported Python and platform, and names no index.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

FILES: dict[str, list[str]] = {
    # hatchling is the build backend: with it pinned, installing the project needs no build isolation.
    "runtime.txt": ["--group", "build"],
    "demo.txt": ["--extra", "demo", "--group", "build"],
    "dev.txt": ["--all-extras", "--group", "build", "--group", "test", "--group", "check"],
}


def main() -> int:
    for name, selection in FILES.items():
        command = ["uv", "pip", "compile", "pyproject.toml", *selection]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--quiet"]
        subprocess.run([*command, "--output-file", str(HERE / name)], cwd=ROOT, check=True)  # noqa: S603
    return 0


if __name__ == "__main__":
    sys.exit(main())
