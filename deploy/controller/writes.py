"""What is to be written, as values: the outcome of planning, and all that the writer knows."""

from __future__ import annotations

from dataclasses import dataclass, field

from deploy.controller.kinds import Key, Object, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of an object."""

    value: Object = field(repr=False)

    @property
    def key(self) -> Key:
        """Of the object."""
        return key_of(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A merge patch of an object, or of a part of it such as ``status``."""

    key: Key
    patch: Object = field(repr=False)
    subresource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """An object is to go, if it still is the one with this uid."""

    key: Key
    uid: str


Write = Apply | Patch | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be written for one owner, in this order. A write that is refused stops none after it.

    Attributes:
        owner: the resource that the writes are for.
        requeue_after: seconds after which the owner is to be planned again, whatever happens.
        problem: what cannot be written into a status, for the log.
    """

    owner: Key
    writes: tuple[Write, ...] = ()
    requeue_after: float | None = None
    problem: str = ""
