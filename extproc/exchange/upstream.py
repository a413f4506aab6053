"""The upstream-level half: one stream per attempt, which turns the client's request into the backend's."""

from __future__ import annotations

from collections.abc import Mapping

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
from extproc.exchange.header_changes import CONTENT_LENGTH, ChangeKey, HeaderChange, HeaderChanges
from extproc.exchange.headers import HeaderDict
from extproc.exchange.plan import plan_for
from extproc.exchange.replies import Reply
from extproc.exchange.router import RouterExchange
from extproc.formats import encoding
from extproc.mutation import NO_HEADER_MUTATION
from extproc.runtime import Runtime, RuntimeBackend, short_backend_name
from extproc.telemetry.redaction import is_sensitive_header
from extproc.translate.base import Target
from filter_config.model import VersionedAPISchema
from protos.ext_proc_pb2 import Metadata

_log = structlog.get_logger(__name__)


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


def attempt_headers(
    context: ExchangeContext,
    router: RouterExchange,
    metadata: bytes,
    received: HeaderDict,
    chosen: AttemptTarget,
) -> Reply:
    """Answer the request headers of an attempt, on behalf of the request that ``router`` knows: with its request.

    Args:
        context: what all streams share.
        router: the request.
        metadata: the dynamic metadata that Envoy forwards, encoded.
        received: the headers.
        chosen: where the attempt goes.

    Raises:
        ClientError: the request cannot be sent.
    """
    started = context.clock()
    runtime = router.runtime
    backend = runtime.backends.get(chosen.backend)
    if backend is None:
        runtime, backend = _find_later(context, router, chosen.backend)
    headers = router.restored(received)
    headers.pop(names.UPSTREAM_HOST, None)
    if chosen.host:
        headers[names.UPSTREAM_HOST] = chosen.host
    if backend.model_override:
        headers[names.MODEL] = backend.model_override
    request = router.parsed_request()
    plan = plan_for(
        runtime,
        backend,
        operation=router.endpoint.operation,
        original_model=request.model,
        model=headers.get(names.MODEL) or request.model,
        route=chosen.route,
        stream=request.stream,
    )
    attempt = Attempt(context, plan, headers, router.request_id, started)
    router.bind(attempt)
    if backend.fault is not None:
        raise _unusable(backend, backend.fault, router.request_id)
    target = Target(
        schema=backend.schema,
        model_override=backend.model_override,
        headers=headers,
        now=context.now,
        new_id=context.new_id,
        default_max_tokens=context.options.default_max_tokens,
        bedrock_betas=context.options.bedrock_betas,
    )
    attempt.translator = plan.translator(target)
    reply = _request(router, metadata, attempt, request)
    attempt.prepared = context.clock() - started
    return reply


def _find_later(context: ExchangeContext, router: RouterExchange, name: str) -> tuple[Runtime, RuntimeBackend]:
    """A backend that is not in the config that the request started with: in the live one, or nowhere.

    Envoy may learn of a route before, and forget it after, this process does; a request in flight keeps its backend
    through a reload either way.
    """
    live = context.runtime
    if live is not None and (backend := live.backends.get(name)) is not None:
        return live, backend
    return router.runtime, _unknown(name)


def _unusable(backend: RuntimeBackend, fault: str, request_id: str) -> BackendUnavailable:
    """Why a backend cannot be used; asked only when the attempt is bound, so that it is accounted for."""
    if fault is _UNKNOWN:
        _log.error("unknown backend", backend=backend.name, request_id=request_id)
        return BackendUnavailable(f"unknown backend: {backend.short_name}")
    _log.error("backend is disabled", backend=backend.name, fault=fault, request_id=request_id)
    return BackendUnavailable(f"backend {backend.short_name} is disabled by a fault in its configuration")


def _request(router: RouterExchange, metadata: bytes, attempt: Attempt, request: ParsedRequest) -> Reply:
    plan, headers = attempt.plan, attempt.headers
    backend = plan.backend
    force = router.attempts > 1 or request.rewritten
    _, _, query = router.path.partition("?")
    translated = attempt.translator.request(request, query=query, force=force)
    # A form has no members that a mutation could name.
    mutation = None if request.content_type else backend.body
    replace = translated.body is not None or force or mutation is not None
    body = request.body if translated.body is None else translated.body
    if mutation is not None:
        body = mutation.apply(body)
    # A plain tuple finds what was kept under an equal key, and is made in a third of the time.
    key = (
        translated.path,
        translated.headers,
        _present(translated.removes, headers) if translated.removes else (),
        _present(backend.headers.remove, headers) if backend.headers.remove else (),
        () if headers.keys().isdisjoint(backend.strips) else _present(backend.strips, headers),
        headers.get("accept-encoding", ""),
        replace,
    )
    length = str(len(body))
    # A later attempt has to undo what former ones have changed as well.
    change = None if router.touched else plan.changes.get(key)
    if change is None:
        change = _change(router, metadata, attempt, ChangeKey(*key), body)
    else:
        change.show(headers, length)
    router.changed(change)
    # Also for a body that goes on as it came, if it came in chunks: providers refuse these.
    sized = replace or CONTENT_LENGTH not in headers
    return replies.common(
        "request_headers",
        mutation=change.encoded(length),
        body=body if replace else None,
        replace=replace,
        metadata=attempt.introduced(len(body) if sized else None),
    )


def _present(listed: tuple[str, ...], headers: HeaderDict) -> tuple[str, ...]:
    return tuple([name for name in listed if name in headers])


def _change(router: RouterExchange, metadata: bytes, attempt: Attempt, key: ChangeKey, body: bytes) -> HeaderChange:
    """Work out the changes of an attempt; those of a first one are kept where they will be the same again."""
    plan, headers = attempt.plan, attempt.headers
    # A path for Google's APIs is relative: it is completed when the request is authenticated, where it is at all.
    changes = HeaderChanges()
    changes.set(":path", "/" + key.path.removeprefix("/"))
    if key.replaces:
        changes.set_length(str(len(body)))
    for name, value in key.sets:
        changes.set(name, value)
    changes.removes += key.removes
    # Ask the backend only for codings that can be decoded here, or its usage could not be read.
    accepted = encoding.acceptable(key.accept_encoding)
    if accepted is not None:
        changes.set("accept-encoding", accepted)
    changes.removes += key.configured_removes
    for name, value in plan.backend.headers.set:
        changes.set(name, value)
    shown = {name: value for name, value in changes.sets.values() if not is_sensitive_header(name)}
    headers.update(shown)
    _authenticate(metadata, attempt, body, changes)
    for name in key.strips:
        if name not in changes.sets and name not in changes.removes:
            changes.removes.append(name)
    first = not router.touched
    router.restore(changes)
    change = HeaderChange(changes, shown, also_removes=names.UPSTREAM_HOST)
    if first:
        plan.keep(key, change)
    return change


def _authenticate(metadata: bytes, attempt: Attempt, body: bytes, changes: HeaderChanges) -> None:
    auth = attempt.plan.backend.auth
    if auth is None:
        return
    call = UpstreamCall(
        headers=attempt.headers,
        body=body,
        metadata=_metadata(metadata),
        now=attempt.context.now(),
    )
    # What is injected here is in no map that logs or metrics look into.
    for name, value in auth.authenticate(call):
        changes.set(name, value)
