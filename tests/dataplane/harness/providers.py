"""The demo's stand-in providers behind strict upstreams: one for each backend schema, at its real host name.

Amazon's checks signatures as Amazon does: recomputed by botocore from what came over the wire.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deploy.demo.backends.scene import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SPEAKERS
from deploy.demo.providers import anthropic, bedrock, openai, vertex
from deploy.demo.providers.bedrock import Bedrock, chunk
from deploy.demo.providers.eventstream import exception_frame
from deploy.demo.providers.gemini_replies import fault as google_fault
from deploy.demo.providers.messages_replies import fault as anthropic_fault
from deploy.demo.providers.service import Refused, event
from deploy.envoy.model import Backend, Rule, SocketAddress
from tests.dataplane.harness.documents import filter_config, route
from tests.dataplane.harness.replies import Reply
from tests.support.sigv4_verifier import SignatureRefused, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deploy.demo.backends.scene import Speaker
    from deploy.demo.providers.service import Provider
    from deploy.demo.providers.service import Reply as Answer
    from deploy.envoy.model import Retry, Route
    from tests.dataplane.harness.upstream import Received, StrictUpstream

BY_SCHEMA = {speaker.name: speaker for speaker in SPEAKERS}
TRANSLATED = [name for name in BY_SCHEMA if name not in ("OpenAI", "AzureOpenAI")]
CALLERS = {ACCESS_KEY_ID: SECRET_ACCESS_KEY, "AKIAOFTHECLIENT": "secret-of-the-client"}
"""Who is known to the stand-in of Amazon: key id to secret."""


def serving(provider: Provider) -> Callable[[Received], Reply]:
    """What an upstream ``always`` does: answer as this provider."""

    def answer(received: Received) -> Reply:
        if isinstance(provider, Bedrock) and (refusal := _signature_refused(received)) is not None:
            return framed(refusal)
        # Whoever has a key of the callers' is let in; that it is used rightly has just been seen.
        known = replace(provider, access_key_ids=frozenset(CALLERS)) if isinstance(provider, Bedrock) else provider
        return framed(known.answer(received.method, received.target, received.headers, received.body))

    return answer


def framed(answer: Answer, *more: Any, upto: int | None = None) -> Reply:
    """A provider's answer as the upstream writes it: streams in chunks, documents with their length.

    Args:
        answer: what the provider says.
        more: pieces, or other things that happen, after it.
        upto: how many of its pieces to keep; all without.
    """
    pieces = (*answer.pieces[:upto], *more)
    streams = (answer.header("content-type") or "") != "application/json"
    return Reply(
        status=answer.status, headers=answer.headers, pieces=pieces, framing="chunked" if streams else "length"
    )


def _signature_refused(received: Received) -> Answer | None:
    try:
        verify(
            method=received.method,
            path=received.target,
            headers=received.headers,
            body=received.body,
            secrets=CALLERS,
            now=time.time(),
        )
    except SignatureRefused as refused:
        return bedrock.error(Refused(str(refused), status=403, kind="InvalidSignatureException"))
    return None


def place(upstream: StrictUpstream, speaker: Speaker, *, priority: int = 0) -> Backend:
    """The upstream as the backend of a rule, under the provider's host name."""
    address = SocketAddress(host="127.0.0.1", port=upstream.port)
    return Backend(name=upstream.name, address=address, hostname=speaker.host, priority=priority)


def rule_of(*backends: Backend, model: str, retry: Retry | None = None) -> Rule:
    return Rule(models=(model,), backends=backends, retry=retry)


def configured(name: str, speaker: Speaker, *, model: str | None = None, **auth: Any) -> dict[str, Any]:
    """The backend in the filter config. ``auth`` is added to the speaker's."""
    return {
        "name": name,
        "modelNameOverride": speaker.model if model is None else model,
        "schema": dict(speaker.schema),
        "auth": {**speaker.auth, **auth},
    }


def start_all(start_upstream: Callable[[str], StrictUpstream]) -> dict[str, StrictUpstream]:
    """A strict upstream for each schema, by its name, at which the provider answers."""
    started = {}
    for name, speaker in BY_SCHEMA.items():
        started[name] = start_upstream(name.lower())
        started[name].always(serving(speaker.provider))
    return started


def one_rule_each(upstreams: Mapping[str, StrictUpstream], **fields: Any) -> tuple[Route, dict[str, Any]]:
    """A route on which clients name a backend by its schema, and the filter config that belongs to it."""
    where = route(*(rule_of(place(upstreams[name], speaker), model=name) for name, speaker in BY_SCHEMA.items()))
    backends = (configured(where.backend_name(index, 0), speaker) for index, speaker in enumerate(BY_SCHEMA.values()))
    return where, filter_config(*backends, **fields)


_ERRORS: Mapping[str, Callable[[Refused], Answer]] = {
    "OpenAI": openai.error,
    "AzureOpenAI": openai.azure_error,
    "AWSBedrock": bedrock.error,
    "GCPVertexAI": vertex.error,
    "GCPAnthropic": vertex.error,
    "AWSAnthropic": bedrock.error,
    "Anthropic": anthropic.error,
}


def error_of(schema: str, status: int, message: str) -> Reply:
    """An error in the shape of the provider."""
    return framed(_ERRORS[schema](Refused(message, status=status)))


_ANTHROPIC_BUSY = anthropic_fault("overloaded_error", "the model is busy")
ERRORS_IN_STREAMS: Mapping[str, bytes] = {
    "OpenAI": event({"error": {"message": "the model is busy", "type": "server_error", "param": None, "code": None}}),
    "AzureOpenAI": event({"error": {"message": "the model is busy", "type": "server_error", "code": None}}),
    "AWSBedrock": exception_frame("modelStreamErrorException", "the model is busy"),
    "GCPVertexAI": event(google_fault(503, "UNAVAILABLE", "the model is busy"), end=b"\r\n\r\n"),
    "GCPAnthropic": event(_ANTHROPIC_BUSY, name="error"),
    "AWSAnthropic": exception_frame("modelStreamErrorException", "the model is busy"),
    "Anthropic": event(_ANTHROPIC_BUSY, name="error"),
}
"""What a provider sends in the middle of a stream that it cannot go on with."""

ERROR_OF_CLAUDE = chunk(_ANTHROPIC_BUSY)
"""The model's own error inside a frame of Amazon's."""
