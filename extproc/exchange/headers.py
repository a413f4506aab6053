"""Header maps as Envoy sends them."""

from __future__ import annotations

from protos.ext_proc_pb2 import HttpHeaders

HeaderDict = dict[str, str]


def read_headers(message: HttpHeaders) -> HeaderDict:
    """Headers by name as received (Envoy sends lower case); of a repeated one the last counts (contract 3.2).

    Envoy fills ``raw_value``; ``value`` is its older form. Bytes that are not UTF-8 are shown as U+FFFD: nothing here
    could use them, but the header must be known, to be removed for instance.
    """
    return {
        header.key: (header.raw_value or header.value).decode("utf-8", "replace") for header in message.headers.headers
    }
