"""The environment: Gymnasium's and SB3's checks, sessions of the log, seeding, and clicks of the stated probability."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from sb3_webscale_recsys import OpenBanditEnv, open_bandit_converter
from stable_baselines3.common.env_checker import check_env as check_for_sb3

from sb3_webscale.errors import DataError, InvalidInputError
from sb3_webscale.plugins import PluginManager

LOG = Path(__file__).parents[3] / "zoo" / "data" / "open_bandit" / "bts.parquet"


@pytest.fixture
def env() -> Iterator[OpenBanditEnv]:
    PluginManager.load()
    made = gymnasium.make("OpenBandit-v0", log=str(LOG))
    assert isinstance(made.unwrapped, OpenBanditEnv)
    yield made.unwrapped
    made.close()


def test_passes_the_check_of_gymnasium(env: OpenBanditEnv) -> None:
    check_for_gymnasium(env, skip_render_check=True)


def test_passes_the_check_of_sb3(env: OpenBanditEnv) -> None:
    check_for_sb3(env, warn=True)


def test_observation_space_is_that_of_the_converted_log(env: OpenBanditEnv) -> None:
    transitions = open_bandit_converter().convert(LOG)
    assert env.observation_space == transitions.observation_space
    assert env.action_space == transitions.action_space


def test_episodes_are_sessions_of_the_log(env: OpenBanditEnv) -> None:
    events = open_bandit_converter().logged_events(LOG)
    assert env.n_sessions == len(np.unique(events.episode_ids))
    sessions = {
        events.observations[events.episode_ids == episode].tobytes() for episode in np.unique(events.episode_ids)
    }
    observation, _ = env.reset(seed=3)
    for _ in range(50):
        seen, terminated = [observation], False
        while not terminated:
            observation, _, terminated, truncated, _ = env.step(np.int64(0))
            assert not truncated
            if not terminated:
                seen.append(observation)
        assert np.stack(seen).tobytes() in sessions
        observation, _ = env.reset()


def rollout(env: OpenBanditEnv, seed: int, steps: int = 300) -> list[float]:
    observation, _ = env.reset(seed=seed)
    trace = [float(observation.sum())]
    for step in range(steps):
        observation, reward, terminated, _, info = env.step(np.int64(step % 80))
        trace += [float(observation @ np.arange(len(observation))), reward, info["click_probability"]]
        if terminated:
            env.reset()
    return trace


def test_a_seed_repeats_and_another_differs(env: OpenBanditEnv) -> None:
    assert rollout(env, 5) == rollout(env, 5)
    assert rollout(env, 5) != rollout(env, 6)


def test_clicks_have_the_stated_probability(env: OpenBanditEnv) -> None:
    """The sum of (click - probability) over 30,000 steps stays within 4 standard deviations."""
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    surplus, variance = 0.0, 0.0
    for _ in range(30_000):
        _, click, terminated, _, info = env.step(np.int64(rng.integers(80)))
        probability = info["click_probability"]
        surplus += click - probability
        variance += probability * (1.0 - probability)
        if terminated:
            env.reset()
    assert abs(surplus) < 4.0 * variance**0.5


def test_log_must_be_given() -> None:
    with pytest.raises(InvalidInputError, match=r"log is not given.*bts\.parquet"):
        OpenBanditEnv()


def test_missing_log_is_named_with_the_working_directory() -> None:
    with pytest.raises(DataError, match=r"nowhere\.parquet.*working directory"):
        OpenBanditEnv("nowhere.parquet")


@pytest.mark.parametrize("action", [-1, 80, 1.5])
def test_action_outside_the_space_is_refused(env: OpenBanditEnv, action: float) -> None:
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match="action"):
        env.step(action)  # type: ignore[arg-type]


def test_step_after_the_end_is_refused(env: OpenBanditEnv) -> None:
    env.reset(seed=0)
    while not env.step(np.int64(0))[2]:
        pass
    with pytest.raises(InvalidInputError, match="reset"):
        env.step(np.int64(0))
