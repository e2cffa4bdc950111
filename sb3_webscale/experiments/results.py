"""Short tables for the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from sb3_webscale.experiments.trainer import TrainingResult

__all__ = ["comparison_table", "result_table"]

_SHOWN_PREFIXES = ("evaluation/", "off_policy/", "history/", "performance/")


def result_table(result: TrainingResult) -> Table:
    """:return: what came of one run, one line for each number"""
    config = result.config
    table = Table(title=f"{config.algo} on {config.env_id}, seed {config.seed}", title_justify="left")
    table.add_column("result")
    table.add_column("value", justify="right", overflow="fold")
    for name, value in result.metrics.items():
        if name.startswith(_SHOWN_PREFIXES):
            table.add_row(name, _number(value))
    table.add_row("weights sha256", result.weights_sha256[:16])
    table.add_row("run", result.run_id)
    return table


def comparison_table(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    """Set runs beside each other; names of rows whose values differ are marked with ``*``.

    :param title: heading of the table
    :param columns: one heading for each run
    :param rows: one text for each run, by name
    """
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, overflow="fold")
    for name, values in rows.items():
        table.add_row(f"{name} *" if len(set(values)) > 1 else name, *values)
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.5g}"
