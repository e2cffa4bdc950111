"""Hash buckets: fixed values, so that a model trained elsewhere sees the same features."""

from __future__ import annotations

from hashlib import blake2b

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sb3_webscale.data.hashing import bucket_of, bucket_series


def test_buckets_never_change() -> None:
    assert [bucket_of(text, 1000) for text in ("", "a", "81ce123cbb5bd8ce", "é", "1")] == GOLDEN


# Written down once; a change here breaks every model trained on hashed features.
GOLDEN = [756, 928, 194, 963, 710]


@given(st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=30), st.integers(1, 50))
def test_series_agrees_with_single_values(values: list[str | None], buckets: int) -> None:
    result = bucket_series(pl.Series(values, dtype=pl.String), buckets).to_list()
    assert result == [None if value is None else bucket_of(value, buckets) for value in values]


def test_buckets_are_used_evenly() -> None:
    """10,000 texts over 10 buckets: chi-square with 9 degrees of freedom stays below its 99.9% point."""
    counts = [0] * 10
    for number in range(10_000):
        counts[bucket_of(f"user-{number}", 10)] += 1
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 27.9


def test_definition() -> None:
    digest = blake2b(b"user", digest_size=8).digest()
    assert bucket_of("user", 97) == int.from_bytes(digest, "little") % 97
