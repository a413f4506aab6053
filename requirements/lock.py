"""Resolve the pinned, hashed requirement files from ``pyproject.toml``.

One file per use: ``runtime`` (what runs in the image, as a processor or as a controller), ``build`` (what builds the
project, and does not run), ``demo`` (``make demo``) and ``dev`` (tests and checks). The resolution is universal, so the
same file serves every supported Python and platform, and names no index.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

FILES: dict[str, list[str]] = {
    "dev.txt": ["pyproject.toml", "--all-extras", "--group", "build", "--group", "test", "--group", "check"],
    "demo.txt": ["pyproject.toml", "--extra", "demo", "--group", "build"],
    "runtime.txt": ["pyproject.toml", *(f"--extra={extra}" for extra in ("aws", "gcp", "otel", "kubernetes"))],
    # The build backend: with it pinned, installing the project needs no build isolation.
    "build.txt": ["--group", "build"],
}


def main() -> int:
    tested = HERE / "dev.txt"
    for name, selection in FILES.items():
        output = HERE / name
        if output != tested:
            # The resolver keeps the pins that it finds in its output: what runs is what the tests ran with.
            output.write_bytes(tested.read_bytes())
        command = [sys.executable, "-m", "uv", "pip", "compile", *selection]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--quiet"]
        subprocess.run([*command, "--output-file", str(output)], cwd=ROOT, check=True)  # noqa: S603
    return 0


if __name__ == "__main__":
    sys.exit(main())
