"""A request as a stand-in has received it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Header names are in lower case; ``path`` is what stood in the request line, with its query."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> dict[str, Any]:
        """The body as an object; empty when it is not one."""
        try:
            decoded = json.loads(self.body)
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}
