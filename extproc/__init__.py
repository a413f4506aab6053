"""The external processor for LLM traffic: the data plane. Nothing in here knows Kubernetes."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
