"""With the same NumPy seed and the same transitions, uniform samples are SB3's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer

from .random_steps import RandomSteps
from .same_bits import assert_same_bits, assert_same_draws
from .sampled_spaces import ACTION_SPACES, ACTIONS, DICT_SPACE, FLAT_SPACES

SLOTS = 20
FILL_LEVELS = (1, 2, SLOTS - 1, SLOTS, SLOTS + 1, 2 * SLOTS, 3 * SLOTS + 7)


def assert_same_at_every_fill_level(
    pair: tuple[Any, Any], steps: RandomSteps, levels: tuple[int, ...] = FILL_LEVELS
) -> None:
    ours, theirs = pair
    filled = 0
    for level in levels:
        steps.fill(level - filled, ours, theirs)
        filled = level
        assert (ours.pos, ours.full, ours.size()) == (theirs.pos, theirs.full, theirs.size())
        for seed in range(3):
            assert_same_draws(ours, theirs, 50, seed=seed)


def flat_pair(space: spaces.Space[Any], actions: spaces.Space[Any], n_envs: int, **options: Any) -> tuple[Any, Any]:
    arguments = (SLOTS * n_envs, space, actions, "cpu", n_envs)
    return WebscaleReplayBuffer(*arguments, **options), ReplayBuffer(*arguments, **options)


@pytest.mark.parametrize("handle_timeouts", [True, False])
@pytest.mark.parametrize("n_envs", [1, 3, 8])
@pytest.mark.parametrize("space", FLAT_SPACES.values(), ids=FLAT_SPACES.keys())
def test_flat_observations(space: spaces.Space[Any], n_envs: int, handle_timeouts: bool) -> None:
    pair = flat_pair(space, ACTIONS, n_envs, handle_timeout_termination=handle_timeouts)
    assert_same_at_every_fill_level(pair, RandomSteps(space, ACTIONS, n_envs))


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("actions", ACTION_SPACES.values(), ids=ACTION_SPACES.keys())
def test_actions(actions: spaces.Space[Any], n_envs: int) -> None:
    space = FLAT_SPACES["float32"]
    assert_same_at_every_fill_level(flat_pair(space, actions, n_envs), RandomSteps(space, actions, n_envs))


@pytest.mark.parametrize("handle_timeouts", [True, False])
@pytest.mark.parametrize("n_envs", [1, 3, 8])
def test_dict_observations(n_envs: int, handle_timeouts: bool) -> None:
    arguments = (SLOTS * n_envs, DICT_SPACE, ACTIONS, "cpu", n_envs)
    options = {"handle_timeout_termination": handle_timeouts}
    pair = WebscaleDictReplayBuffer(*arguments, **options), DictReplayBuffer(*arguments, **options)
    assert_same_at_every_fill_level(pair, RandomSteps(DICT_SPACE, ACTIONS, n_envs))


@pytest.mark.parametrize("space", [FLAT_SPACES["float32"], FLAT_SPACES["image"]], ids=["float32", "image"])
def test_observations_that_do_not_continue_the_previous_step(space: spaces.Space[Any]) -> None:
    steps = RandomSteps(space, ACTIONS, 3, break_probability=0.5)
    assert_same_at_every_fill_level(flat_pair(space, ACTIONS, 3), steps)


@pytest.mark.parametrize(("buffer_size", "n_envs"), [(1, 1), (2, 1), (3, 1), (10, 3), (2, 8), (7, 8)])
def test_small_and_uneven_capacities(buffer_size: int, n_envs: int) -> None:
    space = FLAT_SPACES["float32"]
    arguments = (buffer_size, space, ACTIONS, "cpu", n_envs)
    pair = WebscaleReplayBuffer(*arguments), ReplayBuffer(*arguments)
    assert_same_at_every_fill_level(pair, RandomSteps(space, ACTIONS, n_envs), (1, 2, 3, 4, 7, 12))


def test_every_stored_value() -> None:
    space = FLAT_SPACES["image"]
    ours, theirs = flat_pair(space, ACTIONS, 3)
    RandomSteps(space, ACTIONS, 3).fill(SLOTS + 5, ours, theirs)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        assert_same_bits(np.asarray(getattr(ours, name)), getattr(theirs, name), name)


def test_values_that_only_their_bits_tell_apart() -> None:
    space = FLAT_SPACES["float32"]
    ours, theirs = flat_pair(space, ACTIONS, 1)
    for value in (0.0, -0.0, 0.0, -0.0):
        for buffer in (ours, theirs):
            row = np.full((1, 5), value, dtype=np.float32)
            buffer.add(row, -row, np.full((1, 2), value), np.array([value]), np.array([False]), [{}])
    assert_same_draws(ours, theirs)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n_envs=st.integers(1, 5),
    slots=st.integers(1, 12),
    n_steps=st.integers(1, 40),
    end_probability=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    truncated_share=st.sampled_from([0.0, 0.5, 1.0]),
    break_probability=st.sampled_from([0.0, 0.3]),
    kind=st.sampled_from(sorted(FLAT_SPACES)),
)
def test_any_structure_of_episodes(
    seed: int,
    n_envs: int,
    slots: int,
    n_steps: int,
    end_probability: float,
    truncated_share: float,
    break_probability: float,
    kind: str,
) -> None:
    space = FLAT_SPACES[kind]
    arguments = (slots * n_envs, space, ACTIONS, "cpu", n_envs)
    ours, theirs = WebscaleReplayBuffer(*arguments), ReplayBuffer(*arguments)
    RandomSteps(
        space,
        ACTIONS,
        n_envs,
        seed,
        end_probability=end_probability,
        truncated_share=truncated_share,
        break_probability=break_probability,
    ).fill(n_steps, ours, theirs)
    assert_same_draws(ours, theirs, seed=seed % 1000)
