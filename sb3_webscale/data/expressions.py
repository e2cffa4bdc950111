"""A small arithmetic language over columns, compiled to a Polars expression.

The text has Python's syntax, is parsed by :mod:`ast` and never executed. It may hold: numbers, ``True`` and ``False``;
column names (``click``) and ``col("user-item_affinity_0")`` for names that are no identifiers; ``+ - * / // % **`` and
unary ``-``; comparisons, also chained; ``and``, ``or``, ``not``; ``where(condition, a, b)``; and the functions of
:data:`FUNCTIONS`. Columns are read as 64-bit floats; a comparison used as a number is 1 or 0.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sb3_webscale.data.names import name_hint
from sb3_webscale.errors import RuleError

__all__ = ["FUNCTIONS", "CompiledExpression", "compile_expression"]

FUNCTIONS: Mapping[str, tuple[int, Callable[..., pl.Expr]]] = {
    "abs": (1, lambda x: x.abs()),
    "sqrt": (1, lambda x: x.sqrt()),
    "exp": (1, lambda x: x.exp()),
    "log": (1, lambda x: x.log()),
    "log1p": (1, lambda x: x.log1p()),
    "sign": (1, lambda x: x.sign()),
    "min": (2, lambda a, b: pl.min_horizontal(a, b)),
    "max": (2, lambda a, b: pl.max_horizontal(a, b)),
    "clip": (3, lambda x, low, high: pl.min_horizontal(pl.max_horizontal(x, low), high)),
}
"""Function name to its number of arguments and its Polars form."""

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_MAX_DEPTH = 64


@dataclass(frozen=True)
class CompiledExpression:
    """
    :param expression: Float64 Polars expression, null where a column that it needs is null
    :param columns: the columns that it reads, each once, in order of appearance
    """

    expression: pl.Expr
    columns: tuple[str, ...]


def compile_expression(text: str) -> CompiledExpression:
    """
    :param text: the expression, at most 64 levels deep
    :return: its compiled form
    :raises RuleError: naming the part of the text that the language does not have
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        msg = f"expression {text!r} cannot be read: {error}; write arithmetic over column names"
        raise RuleError(msg) from error
    reader = _Reader(text)
    return CompiledExpression(reader.number(tree.body, 0), tuple(reader.columns))


class _Reader:
    """Walks one expression; ``columns`` collects the names met (a dict, because it keeps their order)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: dict[str, None] = {}

    def number(self, node: ast.expr, depth: int) -> pl.Expr:
        if depth > _MAX_DEPTH:
            problem = f"is nested more than {_MAX_DEPTH} levels deep; split it"
            raise self._error(problem)
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return pl.lit(self._float(value), dtype=pl.Float64)
            case ast.Name(id=name):
                return self._column(name)
            case ast.BinOp(op=op) if type(op) in _BINARY:
                return _BINARY[type(op)](self.number(node.left, depth + 1), self.number(node.right, depth + 1))  # type: ignore[no-any-return]
            case ast.UnaryOp(op=ast.USub()):
                return -self.number(node.operand, depth + 1)
            case ast.UnaryOp(op=ast.Not()) | ast.Compare() | ast.BoolOp():
                return self.truth(node, depth).cast(pl.Float64)
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return self._call(name, node.args, depth + 1)
        problem = f"holds {ast.unparse(node)!r}, which the language does not have; see docs/rules.md"
        raise self._error(problem)

    def truth(self, node: ast.expr, depth: int) -> pl.Expr:
        match node:
            case ast.UnaryOp(op=ast.Not()):
                return ~self.truth(node.operand, depth + 1)
            case ast.BoolOp(op=ast.And()):
                return pl.all_horizontal([self.truth(value, depth + 1) for value in node.values])
            case ast.BoolOp():
                return pl.any_horizontal([self.truth(value, depth + 1) for value in node.values])
            case ast.Compare():
                return self._comparison(node, depth)
        return self.number(node, depth) != 0.0

    def _comparison(self, node: ast.Compare, depth: int) -> pl.Expr:
        sides = [self.number(side, depth + 1) for side in (node.left, *node.comparators)]
        if any(type(op) not in _COMPARE for op in node.ops):
            problem = f"holds {ast.unparse(node)!r}; compare with <, <=, >, >=, == or !="
            raise self._error(problem)
        links = zip(sides, node.ops, sides[1:], strict=False)
        return pl.all_horizontal([_COMPARE[type(op)](left, right) for left, op, right in links])

    def _call(self, name: str, args: list[ast.expr], depth: int) -> pl.Expr:
        if name == "col":
            if len(args) == 1 and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
                return self._column(args[0].value)
            problem = 'calls col() without one quoted name; write col("name")'
            raise self._error(problem)
        if name == "where":
            self._count(name, args, 3)
            chosen = pl.when(self.truth(args[0], depth)).then(self.number(args[1], depth))
            return chosen.otherwise(self.number(args[2], depth))
        if name not in FUNCTIONS:
            problem = f"calls {name!r}; {name_hint(name, [*FUNCTIONS, 'col', 'where'])}"
            raise self._error(problem)
        arity, function = FUNCTIONS[name]
        self._count(name, args, arity)
        return function(*(self.number(arg, depth) for arg in args))

    def _count(self, name: str, args: list[ast.expr], arity: int) -> None:
        if len(args) != arity:
            problem = f"gives {name}() {len(args)} arguments; it takes {arity}"
            raise self._error(problem)

    def _float(self, value: float) -> float:
        try:
            return float(value)
        except OverflowError:
            problem = "holds a number that no 64-bit float can hold; use a smaller one"
            raise self._error(problem) from None

    def _column(self, name: str) -> pl.Expr:
        self.columns[name] = None
        return pl.col(name).cast(pl.Float64)

    def _error(self, problem: str) -> RuleError:
        msg = f"expression {self.text!r} {problem}"
        return RuleError(msg)
