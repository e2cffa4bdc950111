"""Actions are flattened as in SB3; what cannot be stored is refused when the buffer is built, with the space named."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.errors import InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

from .every_row import every_row
from .sampled_spaces import ACTIONS, DICT_SPACE, FLAT_SPACES

BOX = FLAT_SPACES["float32"]


@pytest.mark.parametrize(
    ("actions", "dim"),
    [
        (spaces.Discrete(16), 1),
        (spaces.MultiDiscrete([4, 4]), 2),
        (spaces.MultiBinary(4), 4),
        (spaces.Box(-1, 1, (2, 3), np.float64), 6),
        (spaces.Box(-1, 1, (1,), np.float32), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_envs", [1, 4])
def test_flattened(actions: spaces.Space[Any], dim: int, n_envs: int) -> None:
    world = CountingWorld(action_space=actions)
    buffer = WebscaleReplayBuffer(10 * n_envs, world.observation_space, actions, "cpu", n_envs)
    CountingStream(world, n_envs).fill(buffer, 15)
    assert buffer.actions.shape == (10, n_envs, dim)
    samples = every_row(buffer)
    assert samples.actions.shape == (10 * n_envs, dim)
    world.check(samples)


def test_discrete_observations_of_four_environments() -> None:
    world = CountingWorld("discrete")
    buffer = WebscaleReplayBuffer(40, world.observation_space, world.action_space, "cpu", 4)
    CountingStream(world, 4).fill(buffer, 15)
    samples = every_row(buffer)
    assert samples.observations.shape == (40, 1)
    world.check(samples)


NESTED = spaces.MultiDiscrete([[2, 3], [4, 5]])
UNSUPPORTED_OBSERVATIONS = [
    NESTED,
    spaces.Tuple([BOX, BOX]),
    spaces.Text(5),
    spaces.Sequence(spaces.Discrete(3)),
    spaces.Box(-1, 1, (0,), np.float32),
]


@pytest.mark.parametrize("actions", [NESTED, spaces.MultiBinary([2, 3]), spaces.Tuple([ACTIONS]), DICT_SPACE], ids=str)
def test_unsupported_actions(actions: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"action_space is {actions}")):
        WebscaleReplayBuffer(10, BOX, actions, "cpu")


@pytest.mark.parametrize("space", UNSUPPORTED_OBSERVATIONS, ids=str)
def test_unsupported_observations(space: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"observation_space is {space}")):
        WebscaleReplayBuffer(10, space, ACTIONS, "cpu")


@pytest.mark.parametrize("space", [*UNSUPPORTED_OBSERVATIONS, DICT_SPACE], ids=str)
def test_unsupported_observations_inside_a_dict(space: spaces.Space[Any]) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"observation_space['odd'] is {space}")):
        WebscaleDictReplayBuffer(10, spaces.Dict({"fine": BOX, "odd": space}), ACTIONS, "cpu")


def test_buffer_class_for_the_other_kind_of_space() -> None:
    with pytest.raises(InvalidInputError, match="WebscaleDictReplayBuffer"):
        WebscaleReplayBuffer(10, DICT_SPACE, ACTIONS, "cpu")
    with pytest.raises(InvalidInputError, match="WebscaleReplayBuffer"):
        WebscaleDictReplayBuffer(10, BOX, ACTIONS, "cpu")


def test_empty_dict_space() -> None:
    with pytest.raises(InvalidInputError, match="observation_space"):
        WebscaleDictReplayBuffer(10, spaces.Dict({}), ACTIONS, "cpu")


def test_sb3_refuses_late_what_we_refuse_at_construction() -> None:
    """Says why the refusal is ours to make: SB3 builds this buffer and fails in the middle of training."""
    buffer = ReplayBuffer(10, BOX, NESTED, "cpu")
    row = np.zeros((1, 5), dtype=np.float32)
    with pytest.raises((ValueError, TypeError)):
        buffer.add(row, row, np.zeros((1, 2, 2), dtype=np.int64), np.zeros(1), np.zeros(1), [{}])
