"""Buckets for values of any kind, the same on every machine, Python and Polars version."""

from __future__ import annotations

from hashlib import blake2b

import polars as pl

__all__ = ["bucket_of", "bucket_series"]


def bucket_of(value: str, buckets: int) -> int:
    """
    :param value: the value's text
    :param buckets: number of buckets, at least 1
    :return: its bucket, 0 to buckets - 1: the first 8 bytes of the BLAKE2b digest of its UTF-8 text, modulo buckets
    """
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little") % buckets


def bucket_series(values: pl.Series, buckets: int) -> pl.Series:
    """
    :param values: texts; null stays null
    :param buckets: number of buckets
    :return: Int32 buckets; each distinct value is hashed once
    """
    distinct = values.unique().drop_nulls()
    hashed = pl.Series([bucket_of(value, buckets) for value in distinct.to_list()], dtype=pl.Int32)
    buckets_of: pl.Series = values.replace_strict(distinct, hashed, default=None, return_dtype=pl.Int32)
    return buckets_of
