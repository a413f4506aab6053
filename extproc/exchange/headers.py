"""Header maps as Envoy sends them."""

from __future__ import annotations

from protos.ext_proc_pb2 import HttpHeaders

HeaderDict = dict[str, str]


def read_headers(message: HttpHeaders) -> HeaderDict:
    """Headers by name as received (Envoy sends lower case); of a repeated one the last counts (contract 3.2).

    Envoy fills ``raw_value``; ``value`` is its older form. A value that is not UTF-8 is left out: nothing here could
    use it, and it travels on untouched.
    """
    headers: HeaderDict = {}
    for header in message.headers.headers:
        try:
            headers[header.key] = (header.raw_value or header.value).decode()
        except UnicodeDecodeError:
            continue
    return headers
