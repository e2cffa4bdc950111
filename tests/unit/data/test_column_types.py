"""Columns of every type that logs come in give the same transitions."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sb3_webscale.data import (
    DiscreteAction,
    Episode,
    NumericState,
    OneHotState,
    Reward,
    Rule,
    RuleConverter,
    Transitions,
)

TIMES = [0, 3, 100, 101, 103]
ENDS = [(False, False), (True, False), (False, False), (False, True)]


def convert(tmp_path: Path, columns: dict[str, Any], gap: Any) -> Transitions:
    n = len(columns["time"])
    fixed = {"user": ["a"] * n, "x": [1, 2, 1, 2, 1][:n], "item": [0, 1, 2, 0, 1][:n], "r": [1.0] * n}
    pl.DataFrame(fixed | columns).write_parquet(tmp_path / "log.parquet")
    rule = Rule(
        name="types",
        episode=Episode(key=("user",), order_by="time", session_gap=gap, closed="terminal"),
        state=(NumericState(columns=("x",)), OneHotState(columns=("x",), values=(1, 2, 300))),
        action=DiscreteAction(column="item", n=3),
        reward=Reward(column="r"),
    )
    return RuleConverter(rule).convert(tmp_path / "log.parquet")


def ends(transitions: Transitions) -> list[tuple[bool, bool]]:
    return list(zip(transitions.terminated.tolist(), transitions.truncated.tolist(), strict=True))


NUMBERS = [pl.Int8, pl.UInt8, pl.Int16, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_times_of_every_number_type(tmp_path: Path, dtype: Any) -> None:
    assert ends(convert(tmp_path, {"time": pl.Series(TIMES, dtype=dtype)}, 10)) == ENDS


def test_differences_do_not_overflow_small_integers(tmp_path: Path) -> None:
    times = pl.Series([-120, -117, 100, 101, 103], dtype=pl.Int8)
    assert ends(convert(tmp_path, {"time": times}, 10)) == ENDS


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_time_stamps_of_every_unit_and_zone(tmp_path: Path, unit: Any, zone: str | None) -> None:
    times = pl.Series([datetime(2020, 1, 1) + timedelta(minutes=time) for time in TIMES])
    column = times.dt.cast_time_unit(unit).dt.replace_time_zone(zone)
    assert ends(convert(tmp_path, {"time": column}, timedelta(minutes=10))) == ENDS


@pytest.mark.parametrize("dtype", NUMBERS)
def test_states_actions_and_rewards_of_every_number_type(tmp_path: Path, dtype: Any) -> None:
    columns = {
        "time": TIMES,
        "x": pl.Series([1, 2, 1, 2, 1], dtype=dtype),
        "item": pl.Series([0, 1, 2, 0, 1], dtype=dtype),
        "r": pl.Series([1, 0, 1, 0, 1], dtype=dtype),
    }
    transitions = convert(tmp_path, columns, 10)
    assert transitions.observations[:2].tolist() == [[1.0, 1.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0]]
    assert transitions.actions.tolist() == [0, 1, 2, 0]
    assert transitions.rewards.tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["b", "a"])])
def test_keys_of_every_text_type(tmp_path: Path, dtype: Any) -> None:
    user = pl.Series(["a", "a", "b", "b", "b"], dtype=dtype)
    transitions = convert(tmp_path, {"time": TIMES, "user": user}, None)
    assert sorted(transitions.actions[transitions.truncated].tolist()) == [0, 0]
    assert transitions.report.episodes == 2


def test_booleans_are_rewards(tmp_path: Path) -> None:
    transitions = convert(tmp_path, {"time": TIMES, "r": [True, False, True, False, True]}, 10)
    assert transitions.rewards.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_decimals_are_numbers(tmp_path: Path) -> None:
    column = pl.Series(["1.25", "0.5", "0", "0", "0"]).cast(pl.Decimal(10, 2))
    assert convert(tmp_path, {"time": TIMES, "r": column}, 10).rewards[:2].tolist() == [1.25, 0.5]
