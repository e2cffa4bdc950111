"""The episode part of a rule: columnar expressions that order a log and find where episodes start and how they end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from sb3_webscale.data.checks import ROW, Check
from sb3_webscale.data.columns import Columns
from sb3_webscale.data.rules import Episode
from sb3_webscale.errors import RuleError

__all__ = ["END", "EPISODE", "EpisodePlan", "compile_episode", "last_kinds"]

EPISODE = "__episode__"
"""Int64 column: number of the row's episode, from 0."""

END = "__end__"
"""Int8 column: 0 inside an episode; on its last row one of :func:`last_kinds`."""

_LOG_END = "__log_end__"
_START = "__start__"
_KINDS = {"terminal": 1, "truncated": 2, "drop": 3}


def last_kinds() -> dict[str, int]:
    """:return: how an episode can end, to the value of :data:`END` that says so"""
    return dict(_KINDS)


@dataclass(frozen=True)
class EpisodePlan:
    """
    :param columns: the log's columns that it reads
    :param checks: what must hold for each row
    :param episode: the rule's section
    :param time: the order column in a type wide enough for differences
    """

    columns: list[str]
    checks: list[Check]
    episode: Episode
    time: pl.Expr

    def before_filtering(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """
        :param frame: every row of the log
        :return: the same rows, with the place where the log stops, which also rows count for that are dropped later
        """
        return frame.with_columns(self.time.max().alias(_LOG_END))

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """
        :param frame: the rows to keep, with :data:`ROW`
        :return: the rows ordered, with :data:`EPISODE` and :data:`END`
        """
        ordered = frame.sort([*self.episode.key, self.episode.order_by, *self.episode.tie_by, ROW])
        started = ordered.with_columns(self._starts().alias(_START))
        last = pl.col(_START).shift(-1).fill_null(True)
        return started.with_columns(
            (pl.col(_START).cum_sum().cast(pl.Int64) - 1).alias(EPISODE),
            pl.when(last).then(self._end_kind()).otherwise(pl.lit(0, dtype=pl.Int8)).alias(END),
        )

    def _new_key(self) -> pl.Expr:
        return pl.any_horizontal([pl.col(name).ne_missing(pl.col(name).shift(1)) for name in self.episode.key])

    def _starts(self) -> pl.Expr:
        reasons = [self._new_key()]
        if self.episode.session_gap is not None:
            reasons.append(self.time.diff() > self.episode.session_gap)
        flags = [name for name in (self.episode.terminated, self.episode.truncated) if name is not None]
        reasons.extend(pl.col(name).cast(pl.Boolean).shift(1) for name in flags)
        # The first row has no predecessor, so every reason but the key is null there.
        first = pl.int_range(pl.len()) == 0
        return first | pl.any_horizontal(reasons).fill_null(False)

    def _end_kind(self) -> pl.Expr:
        """How the episode of a last row ends; a terminated flag counts before a truncated one."""
        episode = self.episode
        kind = _kind(episode.unfinished)
        if episode.session_gap is not None:
            same_key_follows = ~self._new_key().shift(-1).fill_null(True)
            quiet = (pl.col(_LOG_END) - self.time) > episode.session_gap
            kind = pl.when(same_key_follows | quiet).then(_kind(episode.closed)).otherwise(kind)
        if episode.truncated is not None:
            kind = pl.when(pl.col(episode.truncated).cast(pl.Boolean)).then(_kind("truncated")).otherwise(kind)
        if episode.terminated is not None:
            kind = pl.when(pl.col(episode.terminated).cast(pl.Boolean)).then(_kind("terminal")).otherwise(kind)
        return kind


def _kind(policy: str) -> pl.Expr:
    return pl.lit(_KINDS[policy], dtype=pl.Int8)


def compile_episode(episode: Episode, columns: Columns) -> EpisodePlan:
    """
    :param episode: the rule's section
    :param columns: the log's columns
    :return: its plan
    :raises RuleError: when a column is missing or has a type that cannot serve
    """
    names = [_key_column(name, columns) for name in episode.key]
    names.append(_order_column(episode, columns))
    names.extend(columns.one(name, "episode.tie_by") for name in episode.tie_by)
    checks = [_filled(name, "episode") for name in names]
    order = pl.col(episode.order_by)
    if columns.schema[episode.order_by].is_float():
        fix = "give every row a finite place in time"
        checks.append(
            _check("episode.order_by", episode.order_by, ~order.is_finite(), "a value that is not finite", fix)
        )
    time = order
    if columns.schema[episode.order_by].is_integer():
        # Differences of small integers overflow their type, and those of unsigned ones their sign.
        time = order.cast(pl.Int64, strict=False)
        wide = time.is_null() & order.is_not_null()
        checks.append(_check("episode.order_by", episode.order_by, wide, "a value above 2**63 - 1", "count from later"))
    for flag in ("terminated", "truncated"):
        name = getattr(episode, flag)
        if name is not None:
            columns.number(name, f"episode.{flag}")
            names.append(name)
            checks.append(_filled(name, f"episode.{flag}"))
            other = ~pl.col(name).cast(pl.Float64).is_in([0.0, 1.0])
            checks.append(_check(f"episode.{flag}", name, other, "a value other than 0 and 1", "use booleans or 0/1"))
    return EpisodePlan(names, checks, episode, time)


def _key_column(name: str, columns: Columns) -> str:
    dtype = columns.schema[columns.one(name, "episode.key")]
    if dtype.is_nested() or dtype == pl.Object:
        msg = f"{columns.where}: episode.key: column {name!r} holds {dtype}; a key is a text, a number or a time"
        raise RuleError(msg)
    return name


def _order_column(episode: Episode, columns: Columns) -> str:
    name = columns.one(episode.order_by, "episode.order_by")
    dtype = columns.schema[name]
    temporal = dtype == pl.Date or isinstance(dtype, pl.Datetime)
    if not (temporal or dtype.is_numeric()):
        msg = (
            f"{columns.where}: episode.order_by: column {name!r} holds {dtype}, which has no order in time; "
            "convert it to time stamps (ISO 8601 in a CSV file) or to numbers"
        )
        raise RuleError(msg)
    gap = episode.session_gap
    if gap is not None and isinstance(gap, timedelta) != temporal:
        wanted = "a duration such as '30m'" if temporal else "a number, in the units of the column"
        problem = f"episode.session_gap = {gap} does not fit column {name!r}, which holds {dtype}"
        msg = f"{columns.where}: {problem}; give {wanted}"
        raise RuleError(msg)
    return name


def _filled(name: str, key: str) -> Check:
    return _check(key, name, pl.col(name).is_null(), "null", "remove the row or fill in the value")


def _check(key: str, name: str, broken: pl.Expr, problem: str, fix: str) -> Check:
    return Check(key, f"column {name!r}", pl.col(name), broken, problem, fix)
