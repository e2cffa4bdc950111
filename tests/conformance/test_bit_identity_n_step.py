"""N-step samples are those of SB3's ``NStepReplayBuffer``, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import NStepReplayBuffer

from sb3_webscale import WebscaleReplayBuffer

from .random_steps import RandomSteps
from .same_bits import assert_same_draws
from .sampled_spaces import ACTIONS, FLAT_SPACES

SLOTS = 20
FILL_LEVELS = (1, 2, 4, SLOTS - 1, SLOTS, SLOTS + 1, 2 * SLOTS, 3 * SLOTS + 7)


def n_step_pair(space: spaces.Space[Any], slots: int, n_envs: int, **options: Any) -> tuple[Any, Any]:
    arguments = (slots * n_envs, space, ACTIONS, "cpu", n_envs)
    return WebscaleReplayBuffer(*arguments, **options), NStepReplayBuffer(*arguments, **options)


@pytest.mark.parametrize("handle_timeouts", [True, False])
@pytest.mark.parametrize("n_envs", [1, 3, 8])
@pytest.mark.parametrize(("n_steps", "gamma"), [(2, 0.99), (3, 0.9), (5, 0.5), (9, 0.997), (3, 1.0), (30, 0.99)])
def test_samples(n_steps: int, gamma: float, n_envs: int, handle_timeouts: bool) -> None:
    space = FLAT_SPACES["image" if n_envs == 3 else "float32"]
    ours, theirs = n_step_pair(
        space, SLOTS, n_envs, n_steps=n_steps, gamma=gamma, handle_timeout_termination=handle_timeouts
    )
    steps, filled = RandomSteps(space, ACTIONS, n_envs), 0
    for level in FILL_LEVELS:
        steps.fill(level - filled, ours, theirs)
        filled = level
        for seed in range(3):
            assert_same_draws(ours, theirs, 80, seed=seed)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n_envs=st.integers(1, 4),
    slots=st.integers(1, 12),
    filled=st.integers(1, 40),
    n_steps=st.integers(2, 15),
    gamma=st.floats(0.0, 1.0),
    end_probability=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    truncated_share=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_any_structure_of_episodes(
    seed: int,
    n_envs: int,
    slots: int,
    filled: int,
    n_steps: int,
    gamma: float,
    end_probability: float,
    truncated_share: float,
) -> None:
    space = FLAT_SPACES["float32"]
    ours, theirs = n_step_pair(space, slots, n_envs, n_steps=n_steps, gamma=gamma)
    steps = RandomSteps(space, ACTIONS, n_envs, seed, end_probability=end_probability, truncated_share=truncated_share)
    steps.fill(filled, ours, theirs)
    assert_same_draws(ours, theirs, seed=seed % 1000)
