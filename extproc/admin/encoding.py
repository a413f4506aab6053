"""Compression of what the admin port answers."""

from __future__ import annotations

import gzip


def packed(body: bytes, accepted: str) -> tuple[bytes, dict[str, str]]:
    """A body as it is sent to who sent this ``Accept-Encoding``, and the headers that go with it."""
    headers = {"Vary": "Accept-Encoding"}
    if not accepts_gzip(accepted):
        return body, headers
    return gzip.compress(body, compresslevel=1), headers | {"Content-Encoding": "gzip"}


def accepts_gzip(header: str) -> bool:
    """Whether an ``Accept-Encoding`` header takes gzip."""
    for entry in header.lower().split(","):
        coding, _, parameters = entry.partition(";")
        if coding.strip() in ("gzip", "*"):
            weight = parameters.replace(" ", "").removeprefix("q=")
            return weight.strip("0.") != "" or not weight
    return False
