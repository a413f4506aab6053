"""Runs a fuzz target under atheris, with the code of one package instrumented."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType

CORPORA = Path(__file__).parents[2] / ".cache" / "fuzz"


def drive(one_input: Callable[[bytes], None], *, name: str, package: str, seeds: Iterable[bytes]) -> None:
    """Run ``one_input`` until libFuzzer's options say stop.

    Args:
        one_input: the target.
        name: of the corpus below ``.cache/fuzz``.
        package: whose functions are instrumented; all that is loaded would take a minute.
        seeds: what the corpus begins with.
    """
    # Here, for there is no wheel of it for each platform, and the tests need only the targets.
    import atheris  # type: ignore[import-untyped]

    corpus = CORPORA / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and str(function.__module__).startswith(package):
            atheris.instrument_func(function)
    atheris.Setup([*sys.argv, str(corpus)], one_input)
    atheris.Fuzz()
