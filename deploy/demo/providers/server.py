"""All providers behind one port: which one is asked is in the Host header, as on the Internet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from deploy.demo.hosting import Hosted
from deploy.demo.providers.service import Provider, Reply, json_reply
from deploy.demo.seen import Seen


class ProviderServer(Hosted):
    """Serves ``providers`` by host name, and remembers what each has been asked."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self.seen: dict[str, list[Seen]] = defaultdict(list)
        super().__init__("providers", self._application)

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = self._answer(await _receive(scope, receive))
        headers = [(name.encode(), value.encode()) for name, value in reply.headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        for piece in reply.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _answer(self, seen: Seen) -> Reply:
        host = (seen.header("host") or "").partition(":")[0]
        self.seen[host].append(seen)
        provider = self._providers.get(host)
        if provider is None:
            return json_reply({"message": f"nobody is at home at {host!r}"}, status=421)
        return provider.answer(seen.method, seen.path, seen.headers, seen.body)


async def _receive(scope: Scope, receive: Receive) -> Seen:
    request = Request(scope, receive)
    query = scope["query_string"].decode("latin-1")
    return Seen(
        method=scope["method"],
        # The path as it stood in the request line: an escaped slash is no slash.
        path=scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]),
        body=await request.body(),
    )
