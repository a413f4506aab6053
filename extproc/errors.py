"""The errors of the data plane, each with the status that answers it.

::

    ExtProcError
    ├── ConfigRejected              the filter config cannot be used; the last good one stays live
    ├── BackendFault                one backend of the filter config cannot be used; the others can
    ├── StreamFailure               the ext_proc stream ends with a gRPC status
    └── ClientError                 answered to the client, in the error shape of the client's API
        ├── MalformedRequest        400  the body cannot be read
        ├── MissingCredential       401  a per-request credential is required and absent
        ├── IncompleteCredential    401  a per-request credential is there in part
        ├── RequestTooLarge         413  the body is over the cap of this process
        ├── UnprocessableRequest    422  the backend's API cannot express the request
        ├── InternalFault           500  a fault of ours; the message is an id to look up in the log
        ├── UnreadableAnswer        502  the backend's answer is none of its API
        ├── UnsupportedBackend      501  no translation exists from this endpoint to the backend's schema
        └── BackendUnavailable      503  no live config, or the chosen backend is disabled by a fault

``ClientError`` classes know their HTTP status and the error type shown to the client, so that no code has to map
one to the other a second time.
"""

from __future__ import annotations

from typing import ClassVar


class ExtProcError(Exception):
    """Root of everything that the data plane raises on purpose."""


class ConfigRejected(ExtProcError):
    """The filter config as a whole cannot be used (contract, filter config 2.7)."""


class BackendFault(ExtProcError):
    """One backend cannot be used; requests that are routed to it get a 503 with this reason."""


class StreamFailure(ExtProcError):
    """The gRPC stream must end with ``code`` and ``message``.

    Args:
        code: gRPC status code, as in ``grpc.StatusCode.X.value[0]``.
        message: status text; shown in Envoy's log, never to the client.
    """

    UNKNOWN: ClassVar[int] = 2
    NOT_FOUND: ClassVar[int] = 5
    INTERNAL: ClassVar[int] = 13
    UNAVAILABLE: ClassVar[int] = 14

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ClientError(ExtProcError):
    """An answer of ours to the client; the text of the exception is the message that the client reads."""

    status: ClassVar[int]
    reason: ClassVar[str]
    # What a gRPC client would see: INVALID_ARGUMENT unless the fault is not the client's.
    grpc_status: ClassVar[int] = 3


class MalformedRequest(ClientError):
    status = 400
    reason = "BadRequest"

    def __init__(self, detail: str) -> None:
        super().__init__(f"malformed request: {detail}")


class MissingCredential(ClientError):
    status = 401
    reason = "Unauthorized"

    def __init__(self) -> None:
        super().__init__("missing upstream credential")


class IncompleteCredential(ClientError):
    status = 401
    reason = "Unauthorized"


class RequestTooLarge(ClientError):
    status = 413
    reason = "RequestTooLarge"

    def __init__(self, limit: int) -> None:
        super().__init__(f"request body is larger than the limit of {limit} bytes")


class UnprocessableRequest(ClientError):
    status = 422
    reason = "UnprocessableEntity"

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid request body: {detail}")


class InternalFault(ClientError):
    """Args: ``fault_id``: the id under which the log has the cause."""

    status = 500
    reason = "InternalServerError"
    grpc_status = 13

    def __init__(self, fault_id: str) -> None:
        super().__init__(f"internal error, id {fault_id}")


class UnreadableAnswer(ClientError):
    """Args: ``detail``: what is wrong with it."""

    status = 502
    reason = "BadGateway"
    grpc_status = 13

    def __init__(self, detail: str) -> None:
        super().__init__(f"the backend's answer cannot be read: {detail}")


class UnsupportedBackend(ClientError):
    status = 501
    reason = "NotImplemented"
    grpc_status = 12


class BackendUnavailable(ClientError):
    status = 503
    reason = "ServiceUnavailable"
    grpc_status = 14
