"""Observations keep their element type in memory and in the sample; float64 actions become float32, as in SB3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer

from .random_steps import RandomSteps
from .sampled_spaces import ACTION_SPACES, ACTIONS, FLAT_SPACES

DTYPES = (np.float64, np.float32, np.float16, np.uint16, np.uint8, np.int8, np.int32, np.int64, np.bool_)
ELEMENTS = 200
ROWS = 400


def box_of(dtype: Any) -> spaces.Box:
    return spaces.Box(0, 1, (ELEMENTS,), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_observation_type(dtype: Any) -> None:
    space = box_of(dtype)
    ours, theirs = (cls(ROWS, space, ACTIONS, "cpu") for cls in (WebscaleReplayBuffer, ReplayBuffer))
    RandomSteps(space, ACTIONS, 1).fill(ROWS, ours, theirs)
    for name in ("observations", "next_observations"):
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype == dtype
        assert getattr(ours.sample(3), name).dtype == getattr(theirs.sample(3), name).dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_bytes_stored(dtype: Any) -> None:
    """With 15 % of the steps ending an episode, 1.15 observations are distinct for each transition; SB3 keeps 2."""
    space = box_of(dtype)
    buffer = WebscaleReplayBuffer(ROWS, space, ACTIONS, "cpu")
    RandomSteps(space, ACTIONS, 1).fill(ROWS, buffer)
    assert buffer.nbytes < ROWS * (1.35 * ELEMENTS * np.dtype(dtype).itemsize + 64) + 4096


@pytest.mark.parametrize("actions", ACTION_SPACES.values(), ids=ACTION_SPACES.keys())
def test_action_type(actions: spaces.Space[Any]) -> None:
    space = FLAT_SPACES["float32"]
    ours, theirs = (cls(10, space, actions, "cpu") for cls in (WebscaleReplayBuffer, ReplayBuffer))
    RandomSteps(space, actions, 1).fill(5, ours, theirs)
    assert ours.actions.dtype == theirs.actions.dtype
    assert ours.sample(3).actions.dtype == theirs.sample(3).actions.dtype
