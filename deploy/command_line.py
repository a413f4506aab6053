"""The command lines of these packages: what is wrong with one is said in a single line, where it is typed."""

from __future__ import annotations

import argparse
from typing import Final, NoReturn

_USAGE: Final = 2
_HIGHEST_PORT: Final = 65535


class Parser(argparse.ArgumentParser):
    """A parser that does not bury its complaint under the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def port(text: str) -> int:
    """A TCP port; 0 is any that is free.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal()) or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to {_HIGHEST_PORT} is needed")
    return int(text)
