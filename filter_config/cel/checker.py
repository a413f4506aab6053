"""Static types over the syntax tree, and evaluation as closures: the second engine behind the seam.

cel-python finds a wrong type only when it evaluates, lets ``uint`` mix with ``int``, and takes 0.2 to 0.7 ms for an
evaluation. So it only reads the expression; this checker refuses what the peer's checker refuses, in the peer's words,
and turns each node that it has typed into a closure over a frame of variables. Values need no tags then, and an
evaluation takes microseconds.

Not here, and refused when used: ``dyn`` and mixed lists, ``type``, bytes, times, messages.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from filter_config.cel.engine import COUNTERS, STRING_VARIABLES, VARIABLES, CELError, TooDeepError
from filter_config.cel.functions import METHODS, OPERATORS_AND_FUNCTIONS, UNSUPPORTED
from filter_config.cel.syntax import CONDITIONAL, Call, Constant, ListOf, MapOf, Name, Node, Place, Select, parse
from filter_config.cel.types import BOOL, INT, OPEN, STRING, UINT, Type, list_of, map_of, unify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from filter_config.cel.engine import CostVariables
    from filter_config.cel.functions import Overload

    Frame = list[Any]
    Run = Callable[[Frame], Any]


class Typed(NamedTuple):
    """A checked node: its static type, and how to compute it from a frame."""

    type: Type
    run: Run


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where in a frame a variable is."""

    index: int
    type: Type


Scope = dict[str, _Slot]

_GLOBALS: Final[Scope] = {
    name: _Slot(index, STRING if name in STRING_VARIABLES else UINT)
    for index, name in enumerate((*STRING_VARIABLES, *COUNTERS))
}
_READ_VARIABLES: Final = operator.attrgetter(*VARIABLES)


class Expression:
    """An expression compiled to closures."""

    __slots__ = ("_run", "_scratch", "result_type")

    def __init__(self, typed: Typed, slots: int) -> None:
        self.result_type = typed.type.name
        self._run = typed.run
        self._scratch = [None] * (slots - len(VARIABLES))

    def evaluate(self, variables: CostVariables) -> tuple[str, object]:
        """See :class:`filter_config.cel.engine.Compiled`."""
        return self.result_type, self._run([*_READ_VARIABLES(variables), *self._scratch])


def compile_expression(expression: str) -> Expression:
    """See :class:`filter_config.cel.engine.Compiler`."""
    checker = _Checker()
    try:
        typed = checker.check(parse(expression), _GLOBALS)
    except RecursionError:
        raise TooDeepError("expression recursion limit exceeded") from None
    return Expression(typed, checker.slots)


class _Checker:
    def __init__(self) -> None:
        self.slots = len(VARIABLES)

    def check(self, node: Node, scope: Scope) -> Typed:
        match node:
            case Constant(type=kind, value=value):
                return Typed(kind, lambda _frame: value)
            case Name():
                return _variable(node, scope)
            case Select():
                return self._select(node, scope)
            case ListOf():
                return self._list(node, scope)
            case MapOf():
                return self._map(node, scope)
            case Call(function=function) if function == CONDITIONAL:
                return self._conditional(node, scope)
            case Call():
                return self._call(node, scope)

    def _conditional(self, node: Call, scope: Scope) -> Typed:
        chain: list[Call] = []
        rest: Node = node
        while isinstance(rest, Call) and rest.function == CONDITIONAL:
            chain.append(rest)
            rest = rest.arguments[2]
        typed = self.check(rest, scope)
        for link in reversed(chain):
            operands = (self.check(link.arguments[0], scope), self.check(link.arguments[1], scope), typed)
            typed = _choice(*operands) or _overload(link, list(operands), _KNOWN)
        return typed

    def _list(self, node: ListOf, scope: Scope) -> Typed:
        items = [self.check(item, scope) for item in node.items]
        kind = _common(node.place, [item.type for item in items], "lists")
        runs = [item.run for item in items]
        return Typed(list_of(kind), lambda frame: [run(frame) for run in runs])

    def _map(self, node: MapOf, scope: Scope) -> Typed:
        entries = [(self.check(key, scope), self.check(value, scope)) for key, value in node.entries]
        key_type = _common(node.place, [key.type for key, _ in entries], "maps")
        value_type = _common(node.place, [value.type for _, value in entries], "maps")
        if key_type.name not in ("int", "uint", "bool", "string", "dyn"):
            raise node.place.error(f"unsupported map key type: {key_type}")
        runs = [(key.run, value.run) for key, value in entries]
        return Typed(map_of(key_type, value_type), lambda frame: _build_map(runs, frame))

    def _select(self, node: Select, scope: Scope) -> Typed:
        operand = self.check(node.operand, scope)
        if operand.type.name != "map":
            raise node.place.error(f"expression of type '{operand.type}' cannot be the operand of a select operation")
        field, run = node.field, operand.run
        return Typed(operand.type.parameters[1], lambda frame: _lookup(run(frame), field))

    def _call(self, node: Call, scope: Scope) -> Typed:
        macro = self._macro(node, scope)
        if macro is not None:
            return macro
        arguments = [self.check(argument, scope) for argument in node.arguments]
        special = _SPECIAL.get(node.function)
        if node.target is None and special is not None:
            typed = special(*arguments)
            return typed if typed is not None else _overload(node, arguments, _KNOWN)
        if node.target is None:
            return _overload(node, arguments, _KNOWN)
        arguments = [self.check(node.target, scope), *arguments]
        if node.function == "size" and len(arguments) == 1 and arguments[0].type.name in ("list", "map"):
            return Typed(INT, _unary(len, arguments[0].run))
        return _overload(node, arguments, METHODS)

    # --- macros ---

    def _macro(self, node: Call, scope: Scope) -> Typed | None:
        if node.target is None:
            return self._has(node, scope) if node.function == "has" and len(node.arguments) == 1 else None
        count = len(node.arguments)
        if node.function not in _COMPREHENSIONS or count not in _COMPREHENSIONS[node.function]:
            return None
        variable, *bodies = node.arguments
        if not isinstance(variable, Name):
            raise variable.place.error("argument must be a simple name")
        source = self.check(node.target, scope)
        if source.type.name not in ("list", "map"):
            raise node.place.error(f"expression of type '{source.type}' cannot be range of a comprehension")
        slot = _Slot(1 + max(outer.index for outer in scope.values()), source.type.parameters[0])
        inner = {**scope, variable.name: slot}
        self.slots = max(self.slots, slot.index + 1)
        typed = [self.check(body, inner) for body in bodies]
        return _comprehension(node, source, slot, typed)

    def _has(self, node: Call, scope: Scope) -> Typed:
        (argument,) = node.arguments
        if not isinstance(argument, Select):
            raise argument.place.error("has() argument must be a field selection")
        operand = self.check(argument.operand, scope)
        self._select(argument, scope)  # for its type errors
        field, run = argument.field, operand.run
        return Typed(BOOL, lambda frame: field in run(frame))


def _variable(node: Name, scope: Scope) -> Typed:
    slot = scope.get(node.name)
    if slot is None:
        raise _undeclared(node.place, node.name)
    return Typed(slot.type, operator.itemgetter(slot.index))


def _undeclared(place: Place, name: str) -> CELError:
    return place.error(f"undeclared reference to '{name}' (in container '')")


def _common(place: Place, kinds: list[Type], what: str) -> Type:
    common = OPEN
    for kind in kinds:
        both = unify(common, kind)
        if both is None:
            raise place.error(f"{what} of mixed types are not supported by this engine")
        common = both
    return common


def _build_map(runs: list[tuple[Run, Run]], frame: Frame) -> dict[Any, Any]:
    built = {}
    for key, value in runs:
        name = key(frame)
        if name in built:
            raise CELError("duplicate key in map")
        built[name] = value(frame)
    return built


def _lookup(mapping: Mapping[Any, Any], key: object) -> Any:  # noqa: ANN401 - the map's element
    try:
        return mapping[key]
    except KeyError:
        raise CELError(f"no such key: {key}") from None


def _item(items: list[Any], index: int) -> Any:  # noqa: ANN401 - the list's element
    if 0 <= index < len(items):
        return items[index]
    raise CELError(f"index out of bounds: {index}")


def _unary(function: Callable[[Any], Any], operand: Run) -> Run:
    return lambda frame: function(operand(frame))


def _binary(function: Callable[[Any, Any], Any], left: Run, right: Run) -> Run:
    return lambda frame: function(left(frame), right(frame))


def _overload(node: Call, arguments: list[Typed], table: Mapping[str, tuple[Overload, ...]]) -> Typed:
    if node.function in UNSUPPORTED:
        raise node.place.error(f"'{node.function}' is not supported by this engine")
    overloads = table.get(node.function)
    if overloads is None:
        raise _undeclared(node.place, node.function)
    kinds = tuple(argument.type for argument in arguments)
    for overload in overloads:
        if len(overload.arguments) == len(kinds) and all(map(unify, overload.arguments, kinds)):
            runs = [argument.run for argument in arguments]
            bind = _unary if len(runs) == 1 else _binary
            return Typed(overload.result, bind(overload.implementation, *runs))
    target, *rest = map(str, kinds) if node.target is not None else ("", *map(str, kinds))
    applied = f"{target}." if target else ""
    message = f"found no matching overload for '{node.function}' applied to '{applied}({', '.join(rest)})'"
    raise node.place.error(message)


# --- operators that are not a table of types; None means that the types do not fit ---


def _choice(condition: Typed, yes: Typed, no: Typed) -> Typed | None:
    kind = unify(yes.type, no.type)
    if kind is None or unify(condition.type, BOOL) is None:
        return None
    test, then, otherwise = condition.run, yes.run, no.run
    return Typed(kind, lambda frame: then(frame) if test(frame) else otherwise(frame))


def _logical(*, decides: bool) -> Callable[..., Typed | None]:
    """``&&`` (decided by false) and ``||`` (decided by true): either operand may decide, even when the other fails."""

    def check(*operands: Typed) -> Typed | None:
        left, right = operands
        if unify(left.type, BOOL) is None or unify(right.type, BOOL) is None:
            return None
        first, second = left.run, right.run

        def run(frame: Frame) -> bool:
            try:
                if bool(first(frame)) is decides:
                    return decides
            except CELError:
                if bool(second(frame)) is decides:
                    return decides
                raise
            return bool(second(frame))

        return Typed(BOOL, run)

    return check


def _equality(function: Callable[[Any, Any], bool]) -> Callable[..., Typed | None]:
    def check(*operands: Typed) -> Typed | None:
        left, right = operands
        if unify(left.type, right.type) is None:
            return None
        return Typed(BOOL, _binary(function, left.run, right.run))

    return check


def _membership(*operands: Typed) -> Typed | None:
    item, container = operands
    if container.type.name not in ("list", "map") or unify(item.type, container.type.parameters[0]) is None:
        return None
    return Typed(BOOL, _binary(lambda value, values: value in values, item.run, container.run))


def _indexing(*operands: Typed) -> Typed | None:
    container, index = operands
    if container.type.name == "list" and unify(index.type, INT):
        return Typed(container.type.parameters[0], _binary(_item, container.run, index.run))
    if container.type.name == "map" and unify(index.type, container.type.parameters[0]):
        return Typed(container.type.parameters[1], _binary(_lookup, container.run, index.run))
    return None


def _concatenation(*operands: Typed) -> Typed | None:
    left, right = operands
    kind = unify(left.type, right.type)
    if kind is None or kind.name != "list":
        return None
    return Typed(kind, _binary(operator.add, left.run, right.run))


def _size(*operands: Typed) -> Typed | None:
    if len(operands) == 1 and operands[0].type.name in ("list", "map"):
        return Typed(INT, _unary(len, operands[0].run))
    return None


_SPECIAL: Final[Mapping[str, Callable[..., Typed | None]]] = {
    "_&&_": _logical(decides=False),
    "_||_": _logical(decides=True),
    "_==_": _equality(operator.eq),
    "_!=_": _equality(operator.ne),
    "@in": _membership,
    "_[_]": _indexing,
    "_+_": _concatenation,
    "size": _size,
}
# Operators with special rules have no row in the table, yet their name is known.
_KNOWN: Final[dict[str, tuple[Overload, ...]]] = {
    **dict.fromkeys((CONDITIONAL, *_SPECIAL), ()),
    **OPERATORS_AND_FUNCTIONS,
}

# --- comprehensions: the macro's name, and how many arguments it takes ---

_COMPREHENSIONS: Final[Mapping[str, tuple[int, ...]]] = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "filter": (2,),
    "map": (2, 3),
}


def _comprehension(node: Call, source: Typed, slot: _Slot, bodies: list[Typed]) -> Typed:
    predicates = bodies[:-1] if node.function == "map" else bodies
    for predicate in predicates:
        if unify(predicate.type, BOOL) is None:
            raise node.place.error(f"expected type 'bool' but found '{predicate.type}'")
    body = bodies[-1]
    result = {"filter": list_of(slot.type), "map": list_of(body.type)}.get(node.function, BOOL)
    if node.function in ("all", "exists"):
        return Typed(BOOL, _quantifier(source.run, slot.index, body.run, decides=node.function == "exists"))
    keep = predicates[0].run if predicates else None
    give = body.run if node.function == "map" else operator.itemgetter(slot.index)
    collect = _collector(source.run, slot.index, keep, give)
    if node.function == "exists_one":
        return Typed(BOOL, lambda frame: len(collect(frame)) == 1)
    return Typed(result, collect)


def _quantifier(source: Run, index: int, predicate: Run, *, decides: bool) -> Run:
    """``all`` and ``exists``: one deciding element is enough, even when others fail."""

    def run(frame: Frame) -> bool:
        failure: CELError | None = None
        for item in source(frame):
            frame[index] = item
            try:
                if bool(predicate(frame)) is decides:
                    return decides
            except CELError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decides

    return run


def _collector(source: Run, index: int, keep: Run | None, give: Run) -> Callable[[Frame], list[Any]]:
    def run(frame: Frame) -> list[Any]:
        collected = []
        for item in source(frame):
            frame[index] = item
            if keep is None or keep(frame):
                collected.append(give(frame))
        return collected

    return run
