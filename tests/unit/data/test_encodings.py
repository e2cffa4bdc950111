"""State encodings: the exact features, bounds and names of each, and their treatment of nulls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sb3_webscale.data import (
    DiscreteAction,
    Episode,
    Fill,
    HashState,
    LoggedEvents,
    MeanScale,
    NumericState,
    OneHotState,
    RangeScale,
    Reward,
    Rule,
    RuleConverter,
)
from sb3_webscale.data.hashing import bucket_of

HALF = {"x": [1.0, None, 3.0], "c": ["red", None, "blue"]}


def encode(tmp_path: Path, columns: dict[str, Any], *state: Any) -> LoggedEvents:
    n = len(next(iter(columns.values())))
    fixed = {"user": ["a"] * n, "time": list(range(n)), "action": [0] * n, "reward": [0.0] * n}
    pl.DataFrame(fixed | columns).write_parquet(tmp_path / "log.parquet")
    rule = Rule(
        name="encode",
        episode=Episode(key=("user",), order_by="time"),
        state=state,
        action=DiscreteAction(column="action", n=1),
        reward=Reward(column="reward"),
    )
    return RuleConverter(rule).logged_events(tmp_path / "log.parquet")


def test_numbers_are_stored_as_they_are(tmp_path: Path) -> None:
    values = np.array([0.1, -1e-30, 3.4e38], dtype=np.float32)
    events = encode(tmp_path, {"x": pl.Series(values)}, NumericState(columns=("x",)))
    assert events.observations[:, 0].tobytes() == values.tobytes()
    assert events.observation_space.low[0] == -np.inf


def test_booleans_and_integers_are_numbers(tmp_path: Path) -> None:
    events = encode(tmp_path, {"x": [True, False], "y": [3, -4]}, NumericState(columns=("x", "y")))
    assert events.observations.tolist() == [[1.0, 3.0], [0.0, -4.0]]


def test_mean_scale(tmp_path: Path) -> None:
    state = NumericState(columns=("x",), scale=MeanScale(mean=2.0, std=0.5))
    assert encode(tmp_path, {"x": [1.0, 2.0, 3.5]}, state).observations[:, 0].tolist() == [-2.0, 0.0, 3.0]


def test_range_scale_bounds_the_space(tmp_path: Path) -> None:
    events = encode(tmp_path, {"x": [-1, 0, 3]}, NumericState(columns=("x",), scale=RangeScale(low=-1, high=3)))
    assert events.observations[:, 0].tolist() == [0.0, 0.25, 1.0]
    assert (events.observation_space.low[0], events.observation_space.high[0]) == (0.0, 1.0)


def test_range_scale_clips_when_told_to(tmp_path: Path) -> None:
    state = NumericState(columns=("x",), scale=RangeScale(low=0, high=2, clip=True))
    assert encode(tmp_path, {"x": [-9.0, 1.0, 9.0]}, state).observations[:, 0].tolist() == [0.0, 0.5, 1.0]


def test_glob_matches_are_in_natural_order_whatever_the_order_of_columns(tmp_path: Path) -> None:
    columns = {f"x_{i}": [float(i)] for i in (10, 2, 1)}
    events = encode(tmp_path, columns, NumericState(columns=("x_*",)))
    assert events.feature_names == ("x_1", "x_2", "x_10")
    assert events.observations.tolist() == [[1.0, 2.0, 10.0]]


def test_one_hot(tmp_path: Path) -> None:
    events = encode(tmp_path, {"c": [3, 1]}, OneHotState(columns=("c",), values=(1, 2, 3)))
    assert events.feature_names == ("c=1", "c=2", "c=3")
    assert events.observations.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["red", "blue"])])
def test_one_hot_of_texts(tmp_path: Path, dtype: Any) -> None:
    column = pl.Series(["red", "blue"], dtype=dtype)
    events = encode(tmp_path, {"c": column}, OneHotState(columns=("c",), values=("blue", "red")))
    assert events.observations.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_one_hot_unknown_as_zeros(tmp_path: Path) -> None:
    state = OneHotState(columns=("c",), values=(1, 2), unknown="zeros")
    assert encode(tmp_path, {"c": [7, 2]}, state).observations.tolist() == [[0.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("values", "texts"), [(["u1", "u2"], ["u1", "u2"]), ([12, -3], ["12", "-3"]), ([True, False], ["true", "false"])]
)
def test_hash_sets_the_bucket_of_the_value(tmp_path: Path, values: list[Any], texts: list[str]) -> None:
    events = encode(tmp_path, {"c": values}, HashState(columns=("c",), buckets=5))
    expected = np.eye(5)[[bucket_of(text, 5) for text in texts]]
    assert np.array_equal(events.observations, expected)
    assert events.feature_names == tuple(f"c#{i}" for i in range(5))


def test_each_hashed_column_has_buckets_of_its_own(tmp_path: Path) -> None:
    events = encode(tmp_path, {"c": ["u"], "d": ["u"]}, HashState(columns=("c", "d"), buckets=4))
    assert events.observations.shape == (1, 8)
    assert np.array_equal(events.observations[0, :4], events.observations[0, 4:])


def test_entries_stand_in_the_order_of_the_rule(tmp_path: Path) -> None:
    columns = {"x": [0.5], "c": [1]}
    one_hot, number = OneHotState(columns=("c",), values=(1,)), NumericState(columns=("x",))
    assert encode(tmp_path, columns, one_hot, number).feature_names == ("c=1", "x")
    assert encode(tmp_path, columns, number, one_hot).feature_names == ("x", "c=1")


def test_nulls_filled(tmp_path: Path) -> None:
    events = encode(
        tmp_path,
        HALF,
        NumericState(columns=("x",), nulls=Fill(fill=-1.0)),
        OneHotState(columns=("c",), values=("red", "blue"), nulls=Fill(fill="blue")),
        HashState(columns=("c",), buckets=3, nulls=Fill(fill="nobody")),
    )
    assert events.observations[:, 0].tolist() == [1.0, -1.0, 3.0]
    assert events.observations[1, 1:3].tolist() == [0.0, 1.0]
    assert events.observations[1, 3:].argmax() == bucket_of("nobody", 3)


def test_nulls_dropped(tmp_path: Path) -> None:
    events = encode(tmp_path, HALF, HashState(columns=("c",), buckets=2, nulls="drop"))
    assert len(events) == 2
    assert (events.observations.sum(axis=1) == 1.0).all()
