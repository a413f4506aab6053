"""What a tool's result has beside text, which a tool message cannot hold: it goes into a message of the user behind it.

Both ends say that they belong together, in words that the model reads.
"""

from __future__ import annotations


def noted(text: str, count: int) -> str:
    """The text of a result, and that this many parts of it follow."""
    note = f"[{count} attached to the next message of the user]"
    return f"{text}\n{note}" if text else note


def label(call_id: str) -> str:
    """What stands before the parts of a call's result."""
    return f"[attached to the result of {call_id}]"
