"""Generate the ``*_pb2`` modules from the ``.proto`` files beside this script.

``python protos/generate.py`` writes them; ``python protos/generate.py --check`` writes nothing and exits 1 when a
committed module differs from what the declarations give.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def generate(target: Path) -> list[Path]:
    """Compile every declaration into ``target``; returns the files written, relative to it."""
    sources = sorted(path.relative_to(ROOT).as_posix() for path in HERE.glob("*.proto"))
    # The well-known types (struct, duration, wrappers) come with the compiler.
    includes = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{ROOT}", f"-I{includes}", f"--python_out={target}", f"--pyi_out={target}", *sources]
    if protoc.main(arguments) != 0:
        sys.exit("protoc failed")
    return sorted(path.relative_to(target) for path in target.glob("protos/*_pb2.py*"))


def stale() -> list[Path]:
    """The generated files whose committed text differs from a fresh generation."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        names = generate(fresh)
        committed = {path.relative_to(ROOT) for path in HERE.glob("*_pb2.py*")}
        differing = [name for name in names if _text(ROOT / name) != _text(fresh / name)]
        return sorted({*differing, *(committed - set(names))})


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a module is out of date")
    if not parser.parse_args().check:
        generate(ROOT)
        return 0
    for name in (out_of_date := stale()):
        print(f"{name}: out of date, run: python protos/generate.py", file=sys.stderr)
    return 1 if out_of_date else 0


if __name__ == "__main__":
    sys.exit(main())
