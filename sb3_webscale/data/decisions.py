"""Action, reward and propensity of a rule, compiled to columnar expressions with checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from gymnasium import spaces

from sb3_webscale.data.checks import Check
from sb3_webscale.data.columns import Columns
from sb3_webscale.data.expressions import compile_expression
from sb3_webscale.data.rules import BoxAction, DiscreteAction, Rule
from sb3_webscale.errors import RuleError

__all__ = ["CompiledColumn", "compile_action", "compile_propensity", "compile_reward"]


@dataclass(frozen=True)
class CompiledColumn:
    """
    :param columns: the log's columns that it reads
    :param values: one expression a component
    :param checks: what must hold for each row
    """

    columns: list[str]
    values: list[pl.Expr]
    checks: list[Check]


def compile_action(rule: Rule, columns: Columns) -> tuple[CompiledColumn, spaces.Space[Any]]:
    """
    :param rule: the rule
    :param columns: the log's columns
    :return: Int64 (discrete) or Float32 (box) expressions, and the space that the actions lie in
    :raises RuleError: when a column is missing or holds no numbers, or bounds do not fit the columns
    """
    if isinstance(rule.action, DiscreteAction):
        return _discrete(rule.action, columns), spaces.Discrete(rule.action.n)
    return _box(rule.action, columns)


def _discrete(action: DiscreteAction, columns: Columns) -> CompiledColumn:
    name = columns.number(action.column, "action.column")
    value, label = pl.col(name), f"column {name!r}"
    whole = value.cast(pl.Float64)
    outside = (whole < 0) | (whole > action.n - 1)
    checks = [
        Check("action.column", label, value, value.is_null(), "null", "every row needs its action; remove the others"),
        Check(
            "action.column",
            label,
            value,
            whole != whole.floor(),
            "an action that is no integer",
            "number the actions from 0",
        ),
        Check(
            "action.column",
            label,
            value,
            outside | ~whole.is_finite(),
            f"an action outside the space Discrete({action.n}), which is 0 to {action.n - 1}",
            "raise action.n, or number the actions from 0",
        ),
    ]
    return CompiledColumn([name], [value.cast(pl.Int64, strict=False)], checks)


def _box(action: BoxAction, columns: Columns) -> tuple[CompiledColumn, spaces.Box]:
    names = columns.several(action.columns, "action.columns")
    low = _bound(action.low, len(names), f"{columns.where}: action.low")
    high = _bound(action.high, len(names), f"{columns.where}: action.high")
    if not (low < high).all():
        msg = f"{columns.where}: action.low = {action.low} is not below action.high = {action.high} everywhere"
        raise RuleError(msg)
    compiled = CompiledColumn(names, [], [])
    for name, least, greatest in zip(names, low.tolist(), high.tolist(), strict=True):
        columns.number(name, "action.columns")
        value, label = pl.col(name).cast(pl.Float32), f"column {name!r}"
        outside = (value < least) | (value > greatest) | value.is_nan()
        problem = f"an action outside the space [{least}, {greatest}]"
        fix = "widen action.low and action.high, or repair the rows"
        null_fix = "every row needs its action; remove the others"
        compiled.checks.append(Check("action.columns", label, pl.col(name), pl.col(name).is_null(), "null", null_fix))
        compiled.checks.append(Check("action.columns", label, pl.col(name), outside, problem, fix))
        compiled.values.append(value)
    return compiled, spaces.Box(low, high, dtype=np.float32)


def _bound(value: float | tuple[float, ...], size: int, what: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    values = value if isinstance(value, tuple) else (value,) * size
    if len(values) != size:
        msg = f"{what} has {len(values)} values but action.columns names {size} columns; give one value or {size}"
        raise RuleError(msg)
    return np.asarray(values, dtype=np.float32)


def compile_reward(rule: Rule, columns: Columns) -> CompiledColumn:
    """
    :param rule: the rule
    :param columns: the log's columns
    :return: one Float32 expression
    :raises RuleError: when a column is missing or holds no numbers, or the expression is not of the language
    """
    if rule.reward.expression is not None:
        key, label = "reward.expression", repr(rule.reward.expression)
        try:
            compiled = compile_expression(rule.reward.expression)
        except RuleError as error:
            msg = f"{columns.where}: {key}: {error}"
            raise RuleError(msg) from error
        names = [columns.number(name, key) for name in compiled.columns]
        value = compiled.expression
    else:
        key, label = "reward.column", f"column {rule.reward.column!r}"
        names = [columns.number(rule.reward.column or "", key)]
        value = pl.col(names[0])
    reward = value.cast(pl.Float32)
    # An expression over no column has one value; a check and a plan need it once a row.
    missing = pl.any_horizontal([pl.lit(False), value.is_null(), *(pl.col(name).is_null() for name in names)])
    fix = "repair or remove the row: a reward must be finite, also as a 32-bit float"
    # The columns too: a comparison, min, max or clip turns NaN and infinity into ordinary numbers.
    finite = [pl.col(name).cast(pl.Float64).fill_null(0.0).is_finite() for name in names]
    broken = ~pl.all_horizontal([reward.is_finite(), *finite])
    checks = [
        Check(key, label, value, missing, "null", "every row needs its reward; fill it in"),
        Check(key, label, value, broken, "a value that is not finite", fix),
    ]
    return CompiledColumn(names, [reward], checks)


def compile_propensity(rule: Rule, columns: Columns) -> CompiledColumn:
    """
    :param rule: the rule
    :param columns: the log's columns
    :return: one Float64 expression, or none when the rule has no propensity
    :raises RuleError: when the column is missing or holds no numbers
    """
    if rule.propensity is None:
        return CompiledColumn([], [], [])
    key = "propensity.column"
    name = columns.number(rule.propensity.column, key)
    value, label = pl.col(name).cast(pl.Float64), f"column {name!r}"
    # Transitions hold it as a 32-bit float, in which it must not become 0.
    outside = ~((value.cast(pl.Float32) > 0.0) & (value <= 1.0)) | value.is_nan()
    fix = "a probability with which the action was really chosen lies in (0, 1]; repair the column"
    checks = [
        Check(
            key,
            label,
            value,
            value.is_null(),
            "null",
            "every row needs its propensity; leave propensity out if unknown",
        ),
        Check(key, label, value, outside, "a value outside (0, 1]", fix),
    ]
    return CompiledColumn([name], [value], checks)
