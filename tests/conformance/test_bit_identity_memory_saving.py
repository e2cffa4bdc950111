"""``optimize_memory_usage`` gives SB3's bits, but for the next observation of an episode's last transition.

SB3's buffer has overwritten that one with the first observation of the following episode; ours still has the true one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer

from .random_steps import RandomSteps
from .same_bits import SB3_FIELDS, assert_same_bits, assert_same_samples
from .sampled_spaces import ACTIONS, FLAT_SPACES

SLOTS = 20
FILL_LEVELS = (1, 2, SLOTS - 1, SLOTS, SLOTS + 1, 2 * SLOTS, 3 * SLOTS + 7)


@pytest.mark.parametrize("n_envs", [1, 3, 8])
@pytest.mark.parametrize("space", FLAT_SPACES.values(), ids=FLAT_SPACES.keys())
def test_samples(space: spaces.Space[Any], n_envs: int) -> None:
    arguments = (SLOTS * n_envs, space, ACTIONS, "cpu", n_envs)
    saving = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    ours, theirs = WebscaleReplayBuffer(*arguments, **saving), ReplayBuffer(*arguments, **saving)
    complete = ReplayBuffer(*arguments, handle_timeout_termination=False)
    steps, filled = RandomSteps(space, ACTIONS, n_envs), 0
    for level in FILL_LEVELS:
        steps.fill(level - filled, ours, theirs, complete)
        filled = level
        np.random.seed(level)
        wanted = theirs.sample(100)
        np.random.seed(level)
        found = ours.sample(100)
        np.random.seed(level)
        truth = complete._get_samples(drawn_slots(theirs, 100))
        assert_same_samples(found, wanted, tuple(name for name in SB3_FIELDS if name != "next_observations"))
        goes_on = wanted.dones.numpy().ravel() == 0
        assert_same_bits(found.next_observations[goes_on], wanted.next_observations[goes_on], "next_observations")
        assert_same_samples(found, truth)


def drawn_slots(buffer: ReplayBuffer, batch_size: int) -> np.ndarray:
    """The slots that SB3's memory-saving ``sample`` draws."""
    if buffer.full:
        return (np.random.randint(1, buffer.buffer_size, size=batch_size) + buffer.pos) % buffer.buffer_size
    return np.random.randint(0, buffer.pos, size=batch_size)
