"""What one xDS client has and is to get: requests in, at most one answer out that it has not yet judged.

The rules are those of the state-of-the-world protocol: a request without a nonce begins, one with the nonce of the last
answer accepts it or, with an error, refuses it, and one with any other nonce is about an answer that is past and says
nothing. A client that begins with the version that there is has it already, from before its connection was lost or from
another replica. What was refused is not sent again until there is something else. No socket, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deploy.quota_xds.snapshot import TYPE_URL, Snapshot
from protos.discovery_pb2 import DiscoveryRequest, DiscoveryResponse


class Verdict(StrEnum):
    """What a request says."""

    BEGUN = "begun"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    STALE = "stale"
    """It is about an answer before the last one."""
    OTHER_TYPE = "other-type"
    STRANGER = "stranger"
    """It comes from a node that gets nothing here."""


@dataclass(slots=True, kw_only=True)
class Subscription:
    """One stream of one client.

    Args:
        node_id: of the clients that get an answer.
    """

    node_id: str
    node: str = ""
    """What the client calls itself; said once, in its first request."""
    has_refused: bool = False
    """Whether the last answer was refused, and nothing was sent since."""
    _version: str | None = None
    """What the client has, or has refused; None as long as it has asked for nothing."""
    _names: tuple[str, ...] = ()
    _nonce: int = 0
    _awaited: bool = False
    _again: bool = False

    def take(self, request: DiscoveryRequest) -> Verdict:
        """Takes a request; :meth:`due` may then have an answer to it."""
        self.node = self.node or request.node.id
        if self.node != self.node_id:
            return Verdict.STRANGER
        if request.type_url != TYPE_URL:
            return Verdict.OTHER_TYPE
        verdict = self._verdict(request)
        if verdict is Verdict.STALE:
            return verdict
        names = tuple(request.resource_names)
        # Who asks for other names has to be answered, whatever it has.
        self._again = self._version is not None and (self._again or names != self._names)
        self._names = names
        if verdict is Verdict.BEGUN:
            self._version = request.version_info
        self._awaited = False
        self.has_refused = verdict is Verdict.REFUSED
        return verdict

    def _verdict(self, request: DiscoveryRequest) -> Verdict:
        nonce, is_error = request.response_nonce, request.HasField("error_detail")
        # The first one may bring the nonce of an earlier stream.
        if self._version is None or not (nonce or is_error):
            return Verdict.BEGUN
        # An error without a nonce is about an answer that could not even be read.
        if nonce and not (self._nonce and nonce == str(self._nonce)):
            return Verdict.STALE
        return Verdict.REFUSED if is_error else Verdict.ACCEPTED

    def due(self, snapshot: Snapshot | None) -> DiscoveryResponse | None:
        """The answer to be sent now.

        Args:
            snapshot: what there is; None as long as it is not known.
        """
        if snapshot is None or self._version is None or self._awaited:
            return None
        if snapshot.version == self._version and not self._again:
            return None
        self._nonce += 1
        self._version = snapshot.version
        self._awaited, self._again, self.has_refused = True, False, False
        return DiscoveryResponse(
            version_info=snapshot.version,
            resources=snapshot.named(self._names),
            type_url=TYPE_URL,
            nonce=str(self._nonce),
        )
