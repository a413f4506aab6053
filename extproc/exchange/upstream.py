"""The upstream-level half: one stream per attempt, which turns the client's request into the backend's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import structlog
from google.protobuf.struct_pb2 import Struct

from extproc.auth.base import UpstreamCall
from extproc.endpoints.base import ParsedRequest
from extproc.errors import BackendUnavailable
from extproc.exchange import names, replies
from extproc.exchange.attempt import Attempt
from extproc.exchange.attributes import AttemptTarget
from extproc.exchange.context import ExchangeContext
from extproc.exchange.decode import decode
from extproc.exchange.headers import HeaderChanges, HeaderDict
from extproc.exchange.plan import plan_for
from extproc.exchange.replies import Reply
from extproc.exchange.router import RouterExchange
from extproc.formats import encoding
from extproc.mutation import NO_HEADER_MUTATION
from extproc.runtime import Runtime, RuntimeBackend, short_backend_name
from extproc.telemetry.redaction import is_sensitive_header
from extproc.translate.base import Target
from extproc.translate.table import translator_for
from filter_config.model import VersionedAPISchema
from protos.ext_proc_pb2 import Metadata, ProcessingRequest

_log = structlog.get_logger(__name__)

# The body's length travels as metadata: Envoy drops the header when a headers reply carries a body (contract 3.1).
_CONTENT_LENGTH = "content_length"


# Clients send few different values; what a stranger makes up is forgotten again.
_acceptable = lru_cache(maxsize=256)(encoding.acceptable)

_UNKNOWN = "it is in no filter config"


def _unknown(name: str) -> RuntimeBackend:
    """Stands for a backend that is in no filter config, so that its refusal is accounted for as others are."""
    return RuntimeBackend(
        name=name,
        short_name=short_backend_name(name),
        schema=VersionedAPISchema(),
        model_override="",
        headers=NO_HEADER_MUTATION,
        fault=_UNKNOWN,
    )


def _metadata(encoded: bytes) -> Mapping[str, Struct]:
    """The dynamic metadata that Envoy forwards; few gateways have it forward any."""
    return decode(Metadata, encoded).filter_metadata if encoded else {}


class UpstreamExchange:
    """Answers the request headers of one attempt, on behalf of the request that ``router`` knows."""

    def __init__(self, context: ExchangeContext, router: RouterExchange) -> None:
        self._context = context
        self._router = router

    def request_headers(self, message: ProcessingRequest, received: HeaderDict, chosen: AttemptTarget) -> Reply:
        """Bind the attempt to its backend and give its request.

        Raises:
            ClientError: the request cannot be sent.
        """
        started = self._context.clock()
        router = self._router
        runtime, backend = self._find(chosen.backend)
        headers = router.restored(received)
        headers.pop(names.UPSTREAM_HOST, None)
        if chosen.host:
            headers[names.UPSTREAM_HOST] = chosen.host
        if backend.model_override:
            headers[names.MODEL] = backend.model_override
        request = router.parsed_request()
        operation = router.endpoint.operation
        plan = plan_for(
            runtime,
            backend,
            operation=operation,
            original_model=request.model,
            model=headers.get(names.MODEL) or request.model,
            route=chosen.route,
            stream=request.stream,
        )
        attempt = Attempt(self._context, plan, headers=headers, request_id=router.request_id, started=started)
        router.bind(attempt)
        self._check(backend)
        target = Target(
            schema=backend.schema,
            model_override=backend.model_override,
            headers=headers,
            now=self._context.now,
            new_id=self._context.new_id,
            default_max_tokens=self._context.options.default_max_tokens,
            bedrock_betas=self._context.options.bedrock_betas,
        )
        attempt.translator = translator_for(operation, target, backend=backend.short_name)
        reply = self._request(message, attempt, request)
        attempt.prepared = self._context.clock() - started
        return reply

    def _find(self, name: str) -> tuple[Runtime, RuntimeBackend]:
        """The backend, from the config that the request started with, else from the live one.

        Envoy may learn of a route before, and forget it after, this process does; a request in flight keeps its
        backend through a reload either way.
        """
        for runtime in (self._router.runtime, self._context.runtime):
            if runtime is not None and (backend := runtime.backends.get(name)) is not None:
                return runtime, backend
        return self._router.runtime, _unknown(name)

    def _check(self, backend: RuntimeBackend) -> None:
        """Refuse a backend that cannot be used; only when the attempt is bound, so that it is accounted for."""
        if backend.fault is None:
            return
        request_id = self._router.request_id
        if backend.fault is _UNKNOWN:
            _log.error("unknown backend", backend=backend.name, request_id=request_id)
            raise BackendUnavailable(f"unknown backend: {backend.short_name}")
        _log.error("backend is disabled", backend=backend.name, fault=backend.fault, request_id=request_id)
        raise BackendUnavailable(f"backend {backend.short_name} is disabled by a fault in its configuration")

    def _request(self, message: ProcessingRequest, attempt: Attempt, request: ParsedRequest) -> Reply:
        backend, headers = attempt.plan.backend, attempt.headers
        force = self._router.attempts > 1 or request.rewritten
        _, _, query = self._router.path.partition("?")
        translated = attempt.translator.request(request, query=query, force=force)
        # A form has no members that a mutation could name.
        mutation = None if request.content_type else backend.body
        replace = translated.body is not None or force or mutation is not None
        body = request.body if translated.body is None else translated.body
        if mutation is not None:
            body = mutation.apply(body)

        # A path for Google's APIs is relative: it is completed when the request is authenticated, where it is at all.
        changes = HeaderChanges()
        changes.set(":path", "/" + translated.path.removeprefix("/"))
        if replace:
            changes.set("content-length", str(len(body)))
        for name, value in translated.headers:
            changes.set(name, value)
        changes.removes += [name for name in translated.removes if name in headers]
        # Ask the backend only for codings that can be decoded here, or its usage could not be read.
        accepted = _acceptable(headers.get("accept-encoding", ""))
        if accepted is not None:
            changes.set("accept-encoding", accepted)
        if backend.headers.remove:
            changes.removes += backend.headers.removals(headers)
        for name, value in backend.headers.set:
            changes.set(name, value)
        for name, value in changes.sets.values():
            if not is_sensitive_header(name):
                headers[name] = value
        self._authenticate(message, attempt, body, changes)
        self._router.restore(changes)
        changes.removes.append(names.UPSTREAM_HOST)
        return self._reply(attempt, changes, body, replace=replace)

    def _authenticate(self, message: ProcessingRequest, attempt: Attempt, body: bytes, changes: HeaderChanges) -> None:
        backend, headers = attempt.plan.backend, attempt.headers
        if backend.auth is not None:
            call = UpstreamCall(
                headers=headers,
                body=body,
                metadata=_metadata(message.metadata_context),
                now=self._context.now(),
            )
            # What is injected here is in no map that logs or metrics look into.
            for name, value in backend.auth.authenticate(call):
                changes.set(name, value)
            self._router.keep_untraced(changes)
        for name in backend.strips:
            if name in headers and name not in changes.sets and name not in changes.removes:
                changes.removes.append(name)

    def _reply(self, attempt: Attempt, changes: HeaderChanges, body: bytes, *, replace: bool) -> Reply:
        # Also for a body that goes on as it came, if it came in chunks: providers refuse these.
        sized = replace or "content-length" not in attempt.headers
        return replies.common(
            "request_headers",
            sets=changes.sets.values(),
            removes=changes.removes,
            body=body if replace else None,
            replace=replace,
            metadata=attempt.introduced({_CONTENT_LENGTH: len(body)} if sized else {}),
        )
