"""Which worker a request belongs to, where several processes serve one address.

The internal request id ends in its owner's tag, so any worker can tell whose it is without asking. The tag names one
life of one worker: what a worker that died knew died with it, and its successor must not be asked for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from extproc.errors import StreamFailure

_TAG: Final = re.compile(r"-([0-9a-f]{8})-w([0-9]{1,6})\.([0-9]{1,9})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One life of one worker.

    Attributes:
        group: eight hexadecimal digits, the same for all workers behind an address and unlike those of any other
            group: a request that comes from a gateway before this one carries the tag of that gateway's worker.
        worker: its number, from 1.
        incarnation: which process of that number it is, from 1.
    """

    group: str
    worker: int
    incarnation: int

    @property
    def name(self) -> str:
        """The worker for logs and pages, ``w2.5``."""
        return f"w{self.worker}.{self.incarnation}"

    @property
    def tag(self) -> str:
        """The end of every internal request id that it makes."""
        return f"-{self.group}-{self.name}"

    def foreign(self, request_id: str) -> Owner | None:
        """Who in this group made the id, unless nobody did, or this very worker."""
        match = _TAG.search(request_id)
        if match is None or match[1] != self.group:
            return None
        made_by = Owner(group=self.group, worker=int(match[2]), incarnation=int(match[3]))
        return None if made_by == self else made_by


class ForeignAttempt(StreamFailure):
    """An attempt at a request that another worker has: its messages must be relayed to ``owner``, this one included.

    Where nothing can relay them, the stream ends as UNAVAILABLE, which Envoy may repeat.
    """

    def __init__(self, owner: Owner) -> None:
        super().__init__(StreamFailure.UNAVAILABLE, f"the request belongs to worker {owner.name}")
        self.owner = owner
