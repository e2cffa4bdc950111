"""RuleConverter holds the published contract of converters, for discrete and continuous actions, Parquet and CSV."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from gymnasium import spaces

from sb3_webscale.data import (
    BoxAction,
    Converter,
    DiscreteAction,
    Episode,
    HashState,
    NumericState,
    Propensity,
    Reward,
    Rule,
    RuleConverter,
)
from sb3_webscale.testing.converter import ConverterTestCase


def write_log(path: Path) -> Path:
    rng = np.random.default_rng(0)
    n = 200
    frame = pl.DataFrame(
        {
            "user": rng.choice(["a", "b", "c"], n),
            "time": rng.integers(0, 2000, n),
            "x": rng.normal(size=n),
            "item": rng.integers(0, 5, n),
            "torque": rng.uniform(-1.0, 1.0, n),
            "p": rng.uniform(0.1, 1.0, n),
            "r": rng.normal(size=n),
        }
    )
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def discrete_rule() -> Rule:
    return Rule(
        name="discrete",
        episode=Episode(key=("user",), order_by="time", session_gap=30, closed="terminal"),
        state=(NumericState(columns=("x",)), HashState(columns=("user",), buckets=4)),
        action=DiscreteAction(column="item", n=5),
        reward=Reward(column="r"),
        propensity=Propensity(column="p"),
    )


def box_rule() -> Rule:
    return Rule(
        name="box",
        episode=Episode(key=("user",), order_by="time"),
        state=(NumericState(columns=("x",)),),
        action=BoxAction(columns=("torque", "p"), low=(-1.0, 0.0), high=1.0),
        reward=Reward(expression="r * 2"),
    )


class TestDiscreteParquet(ConverterTestCase):
    @pytest.fixture
    def converter(self) -> Converter:
        return RuleConverter(discrete_rule())

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        return write_log(tmp_path / "log.parquet")


class TestBoxCsv(ConverterTestCase):
    @pytest.fixture
    def converter(self) -> Converter:
        return RuleConverter(box_rule())

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        return write_log(tmp_path / "log.csv")


def test_box_actions_keep_columns_and_bounds(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet")
    events = RuleConverter(box_rule()).logged_events(path)
    assert events.action_space == spaces.Box(np.float32([-1.0, 0.0]), np.float32([1.0, 1.0]), dtype=np.float32)
    expected = pl.read_parquet(path).sort("user", "time", maintain_order=True)
    assert np.array_equal(events.actions, expected.select("torque", "p").to_numpy().astype(np.float32))


def test_arrays_are_contiguous_and_can_be_written(tmp_path: Path) -> None:
    transitions = RuleConverter(discrete_rule()).convert(write_log(tmp_path / "log.parquet"))
    for name in ("observations", "next_observations", "actions", "rewards", "terminated", "truncated"):
        array = getattr(transitions, name)
        assert array.flags.c_contiguous, name
        assert array.flags.writeable, name


def test_fingerprint_follows_content_and_rule_and_not_the_name(tmp_path: Path) -> None:
    converter = RuleConverter(discrete_rule())
    path = write_log(tmp_path / "log.parquet")
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(path.read_bytes())
    assert converter.fingerprint(path) == converter.fingerprint(copy)
    other_rule = discrete_rule().model_copy(update={"reward": Reward(expression="r")})
    assert RuleConverter(other_rule).fingerprint(path) != converter.fingerprint(path)
    pl.read_parquet(path).with_columns(r=pl.col("r") + 1.0).write_parquet(copy)
    assert converter.fingerprint(path) != converter.fingerprint(copy)


def test_fingerprint_tells_where_files_are_cut(tmp_path: Path) -> None:
    converter = RuleConverter(discrete_rule())
    for folder, parts in (("one", ["ab", "c"]), ("two", ["a", "bc"])):
        (tmp_path / folder).mkdir()
        for number, text in enumerate(parts):
            (tmp_path / folder / f"{number}.csv").write_text(text, encoding="utf-8")
    assert converter.fingerprint(tmp_path / "one") != converter.fingerprint(tmp_path / "two")


def test_the_data_package_needs_neither_torch_nor_sb3() -> None:
    code = (
        "import sys, sb3_webscale.data, sb3_webscale.data.off_policy, sb3_webscale.plugins; "
        "print(sorted({'torch', 'stable_baselines3'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
