"""What can go wrong between the controller and the API server.

ControllerError
├── ApiFailed           the server answered, and not with what was asked for
└── ServerUnreachable   there was no whole answer
"""

from __future__ import annotations


class ControllerError(Exception):
    """Base of them."""


class ApiFailed(ControllerError):
    """The server refused, or failed.

    Attributes:
        status: of HTTP.
        reason: the server's word for it, such as ``Conflict``.
        retry_after: seconds that the server wants to be left alone for, if it says so.
    """

    def __init__(self, status: int, message: str, *, reason: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def is_final(self) -> bool:
        """Whether the same request will fail again, whenever it is sent."""
        return self.status in (400, 405, 415, 422)


class ServerUnreachable(ControllerError):
    """No connection, no answer in time, or one that breaks off."""
