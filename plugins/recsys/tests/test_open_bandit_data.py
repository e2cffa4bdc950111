"""The shipped sample: types, size, and the credit that its licence asks for."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

DATA = Path(__file__).parents[3] / "zoo" / "data" / "open_bandit"


@pytest.mark.parametrize("name", ["bts", "random"])
def test_impressions_have_types(name: str) -> None:
    frame = pl.read_parquet(DATA / f"{name}.parquet")
    assert frame.shape == (10_000, 89)
    assert frame.schema["timestamp"] == pl.Datetime("us", "UTC")
    assert all(frame.schema[column].is_integer() for column in ("item_id", "position", "click"))
    assert all(frame.schema[f"user-item_affinity_{item}"] == pl.Float32 for item in range(80))
    assert frame.null_count().sum_horizontal().item() == 0
    assert "" not in frame.columns


@pytest.mark.parametrize("name", ["bts", "random"])
def test_item_contexts_describe_every_item(name: str) -> None:
    frame = pl.read_parquet(DATA / f"{name}_item_context.parquet")
    assert frame["item_id"].to_list() == list(range(80))


def test_the_random_policy_was_uniform() -> None:
    assert (pl.read_parquet(DATA / "random.parquet")["propensity_score"] == 1 / 80).all()


@pytest.mark.parametrize("credit", ["ZOZO", "Saito", "Aihara", "Matsutani", "Narita", "CC BY 4.0", "Changes"])
def test_attribution(credit: str) -> None:
    assert credit in (DATA / "README.md").read_text(encoding="utf-8")
