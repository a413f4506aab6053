"""Static types of CEL, as far as a cost expression needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its CEL name; lists and maps have parameters."""

    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
BOOL: Final = Type("bool")
STRING: Final = Type("string")
NULL: Final = Type("null_type")
OPEN: Final = Type("dyn")
"""The element type of an empty list or map, which agrees with every type."""


def list_of(item: Type) -> Type:
    """``list(item)``."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """``map(key, value)``."""
    return Type("map", (key, value))


def unify(left: Type, right: Type) -> Type | None:
    """The type that both are, or None. CEL converts nothing: ``int`` and ``uint`` do not agree."""
    if right in (left, OPEN):
        return left
    if left == OPEN:
        return right
    if left.name != right.name or len(left.parameters) != len(right.parameters):
        return None
    parameters = []
    for one, other in zip(left.parameters, right.parameters, strict=True):
        both = unify(one, other)
        if both is None:
            return None
        parameters.append(both)
    return Type(left.name, tuple(parameters))
