"""State entries of a rule compiled to features: Float32 expressions with names, bounds and checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import polars as pl

from sb3_webscale.data.checks import Check
from sb3_webscale.data.columns import Columns
from sb3_webscale.data.hashing import bucket_series
from sb3_webscale.data.rules import Fill, HashState, MeanScale, NumericState, OneHotState, StateEntry
from sb3_webscale.errors import RuleError

__all__ = ["EncodedEntry", "Feature", "encode_entry"]

_NULL_FIX = "clean the log, or set nulls: {fill: value} or nulls: drop"


@dataclass(frozen=True)
class Feature:
    """One number of the observation.

    :param name: ``column`` for numbers, ``column=value`` for one-hot, ``column#bucket`` for hash
    :param expression: Float32 expression
    :param low: least value it can have
    :param high: greatest value it can have
    """

    name: str
    expression: pl.Expr
    low: float
    high: float


@dataclass(frozen=True)
class EncodedEntry:
    """
    :param columns: the log's columns that the entry reads
    :param prepared: helper columns to compute before the features
    :param features: in the order of the observation
    :param checks: what must hold for each row
    :param drop: True where a row is to be dropped for a null; None when nulls are not dropped
    """

    columns: list[str]
    prepared: list[pl.Expr]
    features: list[Feature]
    checks: list[Check]
    drop: pl.Expr | None


def encode_entry(entry: StateEntry, index: int, columns: Columns) -> EncodedEntry:
    """
    :param entry: one entry of the rule's state
    :param index: its place in the state
    :param columns: the log's columns
    :return: its features
    :raises RuleError: when a column is missing or cannot be encoded so
    """
    key = f"state[{index}]"
    names = columns.several(entry.columns, key)
    encoded = EncodedEntry(names, [], [], [], None)
    for name in names:
        if entry.nulls == "error":
            missing = pl.col(name).is_null()
            encoded.checks.append(Check(key, f"column {name!r}", pl.col(name), missing, "null", _NULL_FIX))
        if isinstance(entry, NumericState):
            _numeric(entry, key, columns.number(name, key), columns, encoded)
        elif isinstance(entry, OneHotState):
            _one_hot(entry, key, name, columns, encoded)
        else:
            _hash(entry, key, name, columns, encoded)
    if entry.nulls == "drop":
        nulls = pl.any_horizontal([pl.col(name).is_null() for name in names])
        return EncodedEntry(names, encoded.prepared, encoded.features, encoded.checks, nulls)
    return encoded


def _numeric(entry: NumericState, key: str, name: str, columns: Columns, encoded: EncodedEntry) -> None:
    label = f"column {name!r}"
    value = pl.col(name)
    if isinstance(entry.nulls, Fill):
        if isinstance(entry.nulls.fill, str):
            msg = f"{columns.where}: {key}.nulls.fill = {entry.nulls.fill!r} is not a number; column {name!r} needs one"
            raise RuleError(msg)
        value = value.cast(pl.Float64).fill_null(float(entry.nulls.fill))
    low, high, ranged = float("-inf"), float("inf"), 0
    if isinstance(entry.scale, MeanScale):
        value = (value.cast(pl.Float64) - entry.scale.mean) / entry.scale.std
    elif entry.scale is not None:
        low, high, span = 0.0, 1.0, entry.scale.high - entry.scale.low
        raw = value.cast(pl.Float64)
        value = (raw - entry.scale.low) / span
        if entry.scale.clip:
            value = value.clip(0.0, 1.0)
        else:
            outside = (raw < entry.scale.low) | (raw > entry.scale.high)
            problem = f"a value outside [{entry.scale.low}, {entry.scale.high}]"
            fix = "widen scale.low and scale.high, or set scale.clip: true"
            encoded.checks.append(Check(key, label, pl.col(name), outside, problem, fix))
            ranged = 1
    value = value.cast(pl.Float32)
    # The raw value too: clipping would hide an infinity.
    broken = ~(value.is_finite() & pl.col(name).cast(pl.Float64).fill_null(0.0).is_finite())
    fix = "remove or repair the row: a state must be finite, also as a 32-bit float"
    encoded.checks.insert(
        len(encoded.checks) - ranged, Check(key, label, pl.col(name), broken, "a value that is not finite", fix)
    )
    encoded.features.append(Feature(name, value, low, high))


def _one_hot(entry: OneHotState, key: str, name: str, columns: Columns, encoded: EncodedEntry) -> None:
    value = _comparable(entry, key, name, columns)
    if isinstance(entry.nulls, Fill):
        if entry.nulls.fill not in entry.values:
            msg = f"{columns.where}: {key}.nulls.fill = {entry.nulls.fill!r} is not one of values {list(entry.values)}"
            raise RuleError(msg)
        value = value.fill_null(entry.nulls.fill)
    if columns.schema[name].is_float():
        broken = ~pl.col(name).fill_null(0.0).is_finite()
        fix = "remove or repair the row: a state must be finite"
        encoded.checks.append(Check(key, f"column {name!r}", pl.col(name), broken, "a value that is not finite", fix))
    if entry.unknown == "error":
        unknown = ~pl.any_horizontal([value == choice for choice in entry.values])
        fix = "add it to values, or set unknown: zeros"
        problem = f"a value outside {list(entry.values)}"
        encoded.checks.append(Check(key, f"column {name!r}", pl.col(name), unknown, problem, fix))
    for choice in entry.values:
        # A null that reaches this line belongs to a row that is dropped.
        feature = (value == choice).fill_null(False).cast(pl.Float32)
        encoded.features.append(Feature(f"{name}={choice}", feature, 0.0, 1.0))


def _comparable(entry: OneHotState, key: str, name: str, columns: Columns) -> pl.Expr:
    dtype = columns.schema[name]
    text = dtype in (pl.String, pl.Categorical, pl.Enum)
    for choice in entry.values:
        fits = (
            (isinstance(choice, str) and text)
            or (isinstance(choice, bool) and dtype == pl.Boolean)
            or (isinstance(choice, (int, float)) and not isinstance(choice, bool) and dtype.is_numeric())
        )
        if not fits:
            msg = f"{columns.where}: {key}.values: {choice!r} cannot occur in column {name!r}, which holds {dtype}"
            raise RuleError(msg)
    return pl.col(name).cast(pl.String) if text else pl.col(name)


def _hash(entry: HashState, key: str, name: str, columns: Columns, encoded: EncodedEntry) -> None:
    dtype = columns.schema[name]
    if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)):
        msg = f"{columns.where}: {key}: column {name!r} holds {dtype}; hash takes texts, integers and booleans"
        raise RuleError(msg)
    text = pl.col(name).cast(pl.String)
    if isinstance(entry.nulls, Fill):
        fill = entry.nulls.fill
        text = text.fill_null(str(fill).lower() if isinstance(fill, bool) else str(fill))
    bucket = f"__bucket_{key}_{name}__"
    hashed = text.map_batches(partial(bucket_series, buckets=entry.buckets), return_dtype=pl.Int32)
    encoded.prepared.append(hashed.alias(bucket))
    for number in range(entry.buckets):
        feature = (pl.col(bucket) == number).fill_null(False).cast(pl.Float32)
        encoded.features.append(Feature(f"{name}#{number}", feature, 0.0, 1.0))
