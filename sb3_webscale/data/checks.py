"""Checks of a log's content: each is one columnar expression, all are evaluated in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sb3_webscale.errors import DataError

__all__ = ["ROW", "Check", "run_checks"]

ROW = "__row__"
"""Name of the column that holds each row's place in the log, from 0."""


@dataclass(frozen=True)
class Check:
    """One thing that must hold for every row.

    :param key: path of the rule's key that demands it, such as ``state[1]``
    :param label: what is checked, such as ``column 'position'``
    :param value: expression of the offending value, for the message
    :param broken: Boolean expression, True where a row breaks it (null counts as not broken)
    :param problem: what the row has, such as ``null``
    :param fix: what the user can do
    """

    key: str
    label: str
    value: pl.Expr
    broken: pl.Expr
    problem: str
    fix: str


def run_checks(frame: pl.DataFrame, checks: Sequence[Check], where: str) -> None:
    """
    :param frame: rows of the log, with :data:`ROW`
    :param checks: what must hold
    :param where: names the rule and the source in messages
    :raises DataError: for the first check that a row breaks, with the number of such rows and the first one
    """
    counts = frame.lazy().select(check.broken.sum().alias(str(i)) for i, check in enumerate(checks)).collect().row(0)
    for check, count in zip(checks, counts, strict=True):
        if count:
            row, value = frame.filter(check.broken).select(pl.col(ROW), check.value.alias("__value__")).row(0)
            msg = (
                f"{where}: {check.key}: {check.label} has {check.problem} in {count} row{'s' if count > 1 else ''}, "
                f"first in row {row + 1} (value {value!r}); {check.fix}"
            )
            raise DataError(msg)
