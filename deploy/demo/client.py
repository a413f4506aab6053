"""The client of the demo: plain HTTP, as curl would do it."""

from __future__ import annotations

import http.client
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, and the id under which the access log knows it. Header names are in lower case."""

    request_id: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object.

        Raises:
            ValueError: it is not one.
        """
        decoded = json.loads(self.body)
        if not isinstance(decoded, dict):
            raise TypeError("the answer is not a JSON object")
        return decoded


class Client:
    """Requests to one gateway, in the name of ``user``."""

    def __init__(self, port: int, *, user: str, key: str = "client-token") -> None:
        self._port = port
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {key}", "x-user-id": user}

    def post(self, path: str, document: Mapping[str, Any]) -> Answer:
        connection, response, request_id = self._send(path, document)
        try:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(request_id=request_id, status=response.status, headers=headers, body=response.read())
        finally:
            connection.close()

    def stream(self, path: str, document: Mapping[str, Any]) -> tuple[str, Iterator[dict[str, Any]]]:
        """The request id, and the chunks as they arrive, up to ``[DONE]``.

        Raises:
            StreamBroken: while iterating, when the stream is not one, or ends without ``[DONE]``.
        """
        connection, response, request_id = self._send(path, {**document, "stream": True})
        return request_id, _chunks(connection, response)

    def _send(
        self, path: str, document: Mapping[str, Any]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, str]:
        request_id = str(uuid.uuid4())
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30.0)
        connection.request("POST", path, json.dumps(document), {**self._headers, "x-request-id": request_id})
        return connection, connection.getresponse(), request_id


class StreamBroken(RuntimeError):
    """The answer is not a stream of events that ends as it should."""


def _chunks(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    try:
        if response.status != http.client.OK:
            raise StreamBroken(f"status {response.status}: {response.read(200).decode('utf-8', 'replace')}")
        while line := response.readline():
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                return
            yield json.loads(data)
        raise StreamBroken("the stream ended without [DONE]")
    finally:
        connection.close()
