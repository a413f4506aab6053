"""The parse tree of cel-python, made into a small syntax tree of our own.

cel-python's grammar is a little wider than the language: it takes reserved words for identifiers, ``5.`` for a number
and ``-5u`` for a literal. What the peer's parser refuses is refused here, and operators become calls by the names that
the language gives them (``_+_``), so that the checker sees one kind of node for operators and functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from celpy.celparser import CELParseError, CELParser
from lark import Token, Tree

from filter_config.cel.engine import CELError, TooDeepError
from filter_config.cel.types import BOOL, DOUBLE, INT, NULL, STRING, UINT, Type

MAX_DEPTH: Final = 250
"""Levels of nesting, the peer's own limit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column in the expression, from 1."""

    line: int
    column: int

    def error(self, message: str) -> CELError:
        """A compile error at this place, in the peer's format."""
        return CELError(f"ERROR: <input>:{self.line}:{self.column}: {message}")


@dataclass(frozen=True, slots=True)
class Constant:
    place: Place
    type: Type
    value: object


@dataclass(frozen=True, slots=True)
class Name:
    place: Place
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    place: Place
    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Call:
    place: Place
    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    place: Place
    entries: tuple[tuple[Node, Node], ...]


Node = Constant | Name | Select | Call | ListOf | MapOf

CONDITIONAL: Final = "_?_:_"
_OPERATORS: Final = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "relation_in": "@in",
    "addition_add": "_+_",
    "addition_sub": "_-_",
    "multiplication_mul": "_*_",
    "multiplication_div": "_/_",
    "multiplication_mod": "_%_",
}
_UNARY: Final = {"unary_not": "!_", "unary_neg": "-_"}

_RESERVED: Final = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ),
)

_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1
_UINT_MAX: Final = (1 << 64) - 1
_MAX_DIGITS: Final = 40

_FLOAT: Final = re.compile(r"-?(?:[0-9]*\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?\Z")
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)
_SIMPLE_ESCAPES: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_SURROGATES: Final = range(0xD800, 0xE000)
_MAX_CODE_POINT: Final = 0x10FFFF


def parse(expression: str) -> Node:
    """The syntax tree of an expression.

    Raises:
        TooDeepError: more than :data:`MAX_DEPTH` levels.
        CELError: a syntax error.
    """
    try:
        tree = CELParser().parse(expression)
    except CELParseError as error:
        raise Place(error.line or 1, error.column or 1).error("Syntax error") from None
    return _node(tree, 0)


def _node(tree: Tree[Token] | Token, depth: int) -> Node:
    tree = _unwrapped(tree)
    if depth > MAX_DEPTH:
        raise TooDeepError(f"expression recursion limit exceeded: {MAX_DEPTH}")
    if isinstance(tree, Token):
        return _literal(tree)
    place = _place(tree)
    kind = str(tree.data)
    handler = _HANDLERS.get(kind)
    if handler is not None:
        return handler(tree, place, depth + 1)
    return _operation(kind, tree, place, depth + 1)


def _unwrapped(tree: Tree[Token] | Token) -> Tree[Token] | Token:
    """The grammar wraps every operand in one tree per level of precedence: steps through those that only wrap."""
    while isinstance(tree, Tree) and len(tree.children) == 1 and tree.data not in _MEANINGFUL:
        tree = tree.children[0]
    return tree


def _place(tree: Tree[Token] | Token) -> Place:
    if isinstance(tree, Token):
        return Place(tree.line or 1, tree.column or 1)
    # An empty tree ("[]") has no place of its own.
    return Place(getattr(tree.meta, "line", 1), getattr(tree.meta, "column", 1))


def _operation(kind: str, tree: Tree[Token], place: Place, depth: int) -> Node:
    children = tree.children
    if kind in ("conditionalor", "conditionaland"):
        function = "_||_" if kind == "conditionalor" else "_&&_"
        return Call(place, function, (_node(children[0], depth), _node(children[1], depth)))
    first, second = children
    assert isinstance(first, Tree)
    if kind == "unary":
        return _signed(first, second, place, depth)
    left = _node(first.children[0], depth)
    return Call(place, _OPERATORS[str(first.data)], (left, _node(second, depth)))


def _signed(sign: Tree[Token], operand: Tree[Token] | Token, place: Place, depth: int) -> Node:
    """``!a`` and ``-a``. As in the peer, an even number of one sign is none at all, whatever the operand's type."""
    negated = True
    while isinstance(operand, Tree) and len(operand.children) > 1:
        inner, rest = operand.children
        if not isinstance(inner, Tree) or inner.data != sign.data:
            raise place.error("Syntax error")  # signs of two kinds in a row
        operand, negated = rest, not negated
    node = _node(operand, depth)
    return Call(place, _UNARY[str(sign.data)], (node,)) if negated else node


def _conditional(tree: Tree[Token], place: Place, depth: int) -> Node:
    """``a ? b : c``. A chain of them, such as a table of prices by model, is walked and not recursed into."""
    branches = []
    while True:
        test, then, otherwise = tree.children
        branches.append((place, _node(test, depth), _node(then, depth)))
        otherwise = _unwrapped(otherwise)
        if not isinstance(otherwise, Tree) or otherwise.data != _CONDITIONAL or depth > MAX_DEPTH:
            break
        tree, place, depth = otherwise, _place(otherwise), depth + 1
    node = _node(otherwise, depth)
    for at, condition, result in reversed(branches):
        node = Call(at, CONDITIONAL, (condition, result, node))
    return node


def _name(tree: Tree[Token], place: Place, _depth: int) -> Node:
    return Name(place, _identifier(tree.children[0]))


def _identifier(token: Tree[Token] | Token) -> str:
    name = str(token)
    if name in _RESERVED:
        raise _place(token).error(f"reserved identifier: {name}")
    return name


def _arguments(children: list[Tree[Token] | Token], depth: int) -> tuple[Node, ...]:
    if not children:
        return ()
    (listed,) = children
    assert isinstance(listed, Tree)
    return tuple(_node(child, depth) for child in listed.children)


def _function(tree: Tree[Token], place: Place, depth: int) -> Node:
    name, *arguments = tree.children
    return Call(place, _identifier(name), _arguments(arguments, depth))


def _select(tree: Tree[Token], place: Place, depth: int) -> Node:
    operand, field = tree.children
    return Select(place, _node(operand, depth), _field(field))


def _field(token: Tree[Token] | Token) -> str:
    name = str(token)
    if name in ("in", "true", "false", "null"):  # tokens of the language, not identifiers
        raise _place(token).error("Syntax error")
    return name


def _method(tree: Tree[Token], place: Place, depth: int) -> Node:
    operand, name, *arguments = tree.children
    return Call(place, _field(name), _arguments(arguments, depth), _node(operand, depth))


def _index(tree: Tree[Token], place: Place, depth: int) -> Node:
    operand, index = tree.children
    return Call(place, "_[_]", (_node(operand, depth), _node(index, depth)))


def _message(_tree: Tree[Token], place: Place, _depth: int) -> Node:
    raise place.error("messages are not supported by this engine")


def _list(tree: Tree[Token], place: Place, depth: int) -> Node:
    return ListOf(place, _arguments(tree.children, depth))


def _map(tree: Tree[Token], place: Place, depth: int) -> Node:
    flat = _arguments(tree.children, depth)
    return MapOf(place, tuple(zip(flat[::2], flat[1::2], strict=True)))


_CONDITIONAL: Final = "expr"
_HANDLERS: Final = {
    _CONDITIONAL: _conditional,
    "ident": _name,
    "dot_ident": _name,
    "ident_arg": _function,
    "dot_ident_arg": _function,
    "member_dot": _select,
    "member_dot_arg": _method,
    "member_index": _index,
    "member_object": _message,
    "list_lit": _list,
    "map_lit": _map,
}
# Trees that mean something even with a single child.
_MEANINGFUL: Final = frozenset(_HANDLERS) - {_CONDITIONAL}


def _literal(token: Token) -> Node:
    place = _place(token)
    text = str(token)
    match token.type:
        case "INT_LIT":
            return Constant(place, INT, _integer(text, place, _INT_MIN, _INT_MAX, "int"))
        case "UINT_LIT" if not text.startswith("-"):
            return Constant(place, UINT, _integer(text[:-1], place, 0, _UINT_MAX, "uint"))
        case "UINT_LIT":
            raise place.error("found no matching overload for '-_' applied to '(uint)'")
        case "FLOAT_LIT" if _FLOAT.match(text):
            return Constant(place, DOUBLE, float(text))
        case "BOOL_LIT":
            return Constant(place, BOOL, text == "true")
        case "NULL_LIT":
            return Constant(place, NULL, None)
        case "STRING_LIT" | "MLSTRING_LIT":
            return Constant(place, STRING, _string(text, place))
        case "BYTES_LIT":
            raise place.error("bytes are not supported by this engine")
        case _:
            raise place.error("Syntax error")


def _integer(text: str, place: Place, low: int, high: int, kind: str) -> int:
    digits = text.removeprefix("-")
    if len(digits) <= _MAX_DIGITS:
        # NB: a leading zero does not mean octal.
        value = int(digits, 16 if digits.startswith("0x") else 10)
        value = -value if text.startswith("-") else value
        if low <= value <= high:
            return value
    raise place.error(f"invalid {kind} literal")


def _string(text: str, place: Place) -> str:
    raw = text[0] in "rR"
    body = text[1:] if raw else text
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes]
    return body if raw else _ESCAPE.sub(lambda match: _unescape(match, place), body)


def _unescape(match: re.Match[str], place: Place) -> str:
    simple, hexadecimal, short, long, octal, _other = match.groups()
    if simple is not None:
        return _SIMPLE_ESCAPES.get(simple, simple)
    if octal is not None:
        return chr(int(octal, 8))
    digits = hexadecimal or short or long
    code = int(digits, 16) if digits else _MAX_CODE_POINT + 1
    if code > _MAX_CODE_POINT or code in _SURROGATES:
        raise place.error("Syntax error: invalid escape in a string")
    return chr(code)
