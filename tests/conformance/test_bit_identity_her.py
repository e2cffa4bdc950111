"""Hindsight samples are those of SB3's ``HerReplayBuffer``, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from sb3_webscale import WebscaleHerReplayBuffer
from sb3_webscale.testing.counting_env import CountingEnv, CountingWorld

from .random_steps import RandomSteps
from .same_bits import assert_same_bits, assert_same_draws
from .sampled_spaces import ACTIONS

GOAL = spaces.Box(-1, 1, (2,), np.float32)
SPACE = spaces.Dict(
    {"observation": spaces.Box(0, 255, (4, 8, 8), np.uint8), "achieved_goal": GOAL, "desired_goal": GOAL}
)
SLOTS = 30


class DistanceEnv(CountingEnv):
    """Rewards depend on the goals and, where infos are kept, on the infos."""

    def __init__(self) -> None:
        super().__init__(CountingWorld("goal"))

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> np.ndarray:
        bonus = np.array([entry.get("tag", 0) for entry in info], dtype=np.float32)
        return (-np.linalg.norm(achieved_goal - desired_goal, axis=1) + bonus).astype(np.float32)


def her_pair(n_envs: int, slots: int = SLOTS, **options: Any) -> tuple[Any, Any]:
    env = DummyVecEnv([DistanceEnv] * n_envs)
    arguments = (slots * n_envs, SPACE, ACTIONS, env, "cpu", n_envs)
    return WebscaleHerReplayBuffer(*arguments, **options), HerReplayBuffer(*arguments, **options)


@pytest.mark.parametrize("copy_info_dict", [False, True])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_samples(strategy: str, n_envs: int, copy_info_dict: bool) -> None:
    ours, theirs = her_pair(n_envs, goal_selection_strategy=strategy, copy_info_dict=copy_info_dict)
    steps = RandomSteps(SPACE, ACTIONS, n_envs, end_probability=0.2)
    for _ in range(12):
        steps.fill(9, ours, theirs)
        if (theirs.ep_length > 0).any():
            for seed in range(3):
                assert_same_draws(ours, theirs, 40, seed=seed)
    assert theirs.full


@pytest.mark.parametrize("n_sampled_goal", [0, 1, 9])
def test_share_of_relabelled_rows(n_sampled_goal: int) -> None:
    ours, theirs = her_pair(2, n_sampled_goal=n_sampled_goal)
    RandomSteps(SPACE, ACTIONS, 2, end_probability=0.3).fill(SLOTS, ours, theirs)
    assert_same_draws(ours, theirs, 41)


@pytest.mark.parametrize("handle_timeouts", [True, False])
def test_timeouts(handle_timeouts: bool) -> None:
    ours, theirs = her_pair(3, handle_timeout_termination=handle_timeouts)
    RandomSteps(SPACE, ACTIONS, 3, truncated_share=0.7).fill(2 * SLOTS, ours, theirs)
    assert_same_draws(ours, theirs)


def test_normalised_observations_and_rewards() -> None:
    ours, theirs = her_pair(3)
    env = VecNormalize(theirs.env, norm_obs=False)
    env.ret_rms.var = np.array(3.7)
    RandomSteps(SPACE, ACTIONS, 3).fill(2 * SLOTS, ours, theirs)
    assert_same_draws(ours, theirs, env=env)


def test_the_open_episode_closed_by_truncation() -> None:
    ours, theirs = her_pair(3)
    RandomSteps(SPACE, ACTIONS, 3, end_probability=0.1).fill(SLOTS + 11, ours, theirs)
    for buffer in (ours, theirs):
        with pytest.warns(UserWarning, match="last trajectory"):
            buffer.truncate_last_trajectory()
    for name in ("ep_start", "ep_length", "dones", "timeouts"):
        assert_same_bits(getattr(ours, name), getattr(theirs, name), name)
    assert_same_draws(ours, theirs)


def test_no_episode_has_ended() -> None:
    for buffer in her_pair(1):
        RandomSteps(SPACE, ACTIONS, 1, end_probability=0.0).fill(5, buffer)
        with pytest.raises(RuntimeError, match="Unable to sample before the end of the first episode"):
            buffer.sample(4)
