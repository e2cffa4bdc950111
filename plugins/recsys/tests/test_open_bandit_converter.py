"""The Open Bandit converter on the shipped sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sb3_webscale_recsys import open_bandit_converter, open_bandit_rule

from sb3_webscale.data import Converter, Rule
from sb3_webscale.plugins import PluginManager
from sb3_webscale.testing.converter import ConverterTestCase

DATA = Path(__file__).parents[3] / "zoo" / "data" / "open_bandit"


@pytest.fixture(params=["bts", "random"])
def log(request: pytest.FixtureRequest) -> Path:
    return DATA / f"{request.param}.parquet"


class TestOpenBanditConverter(ConverterTestCase):
    @pytest.fixture
    def converter(self) -> Converter:
        return PluginManager.load().converters["recsys.open_bandit"]

    @pytest.fixture
    def source(self, log: Path) -> Path:
        return log


def test_every_click_and_impression_is_kept(log: Path) -> None:
    frame = pl.read_parquet(log)
    events = open_bandit_converter().logged_events(log)
    assert len(events) == 10_000
    assert events.rewards.sum() == frame["click"].sum() == {"bts": 42, "random": 38}[log.stem]
    assert np.array_equal(np.bincount(events.actions), np.bincount(frame["item_id"].to_numpy()))
    assert events.propensities is not None
    assert np.array_equal(np.sort(events.propensities), np.sort(frame["propensity_score"].to_numpy()))


def test_observation_holds_position_user_and_affinity() -> None:
    events = open_bandit_converter().logged_events(DATA / "bts.parquet")
    assert events.feature_names[:3] == ("position=1", "position=2", "position=3")
    assert events.feature_names[3] == "user_feature_0#0"
    assert events.feature_names[-1] == "user-item_affinity_79"
    assert events.observations.shape[1] == 3 + 4 * 16 + 80
    assert (events.observations[:, :3].sum(axis=1) == 1.0).all()
    assert (events.observations[:, 3:67].sum(axis=1) == 4.0).all()
    frame = pl.read_parquet(DATA / "bts.parquet")
    affinity = frame.select(pl.col("^user-item_affinity_.*$")).to_numpy()
    assert events.observations[:, 67:].sum() * 4.0 == pytest.approx(affinity.sum())


def test_logs_of_both_policies_have_one_observation_space() -> None:
    converter = open_bandit_converter()
    spaces = [converter.convert(DATA / f"{name}.parquet").observation_space for name in ("bts", "random")]
    assert spaces[0] == spaces[1]


def test_sessions_are_those_of_the_pause_rule() -> None:
    """The count of sessions, by a plain loop over the log."""
    frame = pl.read_parquet(DATA / "bts.parquet")
    last_seen: dict[tuple[str, ...], object] = {}
    sessions = 0
    for row in frame.sort("timestamp").iter_rows(named=True):
        user = tuple(row[f"user_feature_{i}"] for i in range(4))
        if user not in last_seen or (row["timestamp"] - last_seen[user]).total_seconds() > 1800:
            sessions += 1
        last_seen[user] = row["timestamp"]
    assert open_bandit_converter().convert(DATA / "bts.parquet").report.episodes == sessions


def test_rule_is_read_from_the_package() -> None:
    rule = open_bandit_rule()
    assert isinstance(rule, Rule)
    assert rule.name == "open_bandit"
