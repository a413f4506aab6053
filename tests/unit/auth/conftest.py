"""What the tests of authentication share."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from extproc.auth.base import UpstreamCall

NOW = 1_440_938_160.0  # 2015-08-30T12:36:00Z


@pytest.fixture
def call() -> Callable[..., UpstreamCall]:
    """Makes the call that an authenticator sees."""

    def make(
        headers: Mapping[str, str] | None = None,
        *,
        body: bytes = b'{"messages":[]}',
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> UpstreamCall:
        namespaces = {name: Struct() for name in metadata or {}}
        for name, values in (metadata or {}).items():
            namespaces[name].update(values)
        defaults = {":method": "POST", ":path": "/model/m/converse", ":authority": "gateway.example"}
        return UpstreamCall(headers={**defaults, **(headers or {})}, body=body, metadata=namespaces, now=NOW)

    return make
