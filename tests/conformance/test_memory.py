"""Memory follows the content of the ring, not how much has passed through it, and never exceeds SB3's by much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gymnasium import spaces

from sb3_webscale import WebscaleReplayBuffer

from .sampled_spaces import ACTION_SPACES

SLOTS = 100
SHAPE = (4, 16, 16)
SPACE = spaces.Box(0, 255, SHAPE, np.uint8)
ACTIONS = ACTION_SPACES["discrete"]
ROW_BYTES = int(np.prod(SHAPE))

Observe = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def noise(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    return rng.integers(0, 256, (1, *SHAPE)).astype(np.uint8)


def stack(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    """Frames move up by one, as in Atari."""
    return np.concatenate([previous[:, 1:], noise(rng, previous)[:, :1]], axis=1)


def still_planes(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    """Planes of a grid world: some stay blank for ever, others change."""
    return noise(rng, previous) * np.array([0, 0, 1, 1], dtype=np.uint8)[:, None, None]


def one_still_plane(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    return noise(rng, previous) * np.array([1, 1, 0, 1], dtype=np.uint8)[:, None, None]


def mostly_still(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    """Each plane changes now and then, on its own."""
    changed = rng.random(4) < np.array([0.0, 0.01, 0.1, 0.9])
    return np.where(changed[:, None, None], noise(rng, previous), previous)


def equal_planes(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    return np.repeat(noise(rng, previous)[:, :1], 4, axis=1)


def still(rng: np.random.Generator, previous: np.ndarray) -> np.ndarray:
    return previous


@pytest.mark.parametrize(
    "observe",
    [noise, stack, still_planes, one_still_plane, mostly_still, equal_planes, still],
    ids=lambda f: f.__name__,
)
def test_bytes_do_not_grow_once_the_ring_is_full(observe: Observe) -> None:
    buffer = WebscaleReplayBuffer(SLOTS, SPACE, ACTIONS, "cpu")
    rng = np.random.default_rng(0)
    obs = observe(rng, np.zeros((1, *SHAPE), dtype=np.uint8))
    largest = 0
    for step in range(20 * SLOTS):
        done = step % 13 == 12
        next_obs = observe(rng, obs)
        buffer.add(obs, next_obs, np.array([0]), np.zeros(1), np.array([done]), [{}])
        obs = observe(rng, np.zeros_like(obs)) if done else next_obs
        largest = max(largest, buffer.nbytes)
    sb3_bytes = SLOTS * 2 * ROW_BYTES
    assert largest < 1.3 * sb3_bytes


def test_a_stack_of_frames_costs_little_more_than_its_newest_frame() -> None:
    buffer = WebscaleReplayBuffer(SLOTS, SPACE, ACTIONS, "cpu")
    rng = np.random.default_rng(0)
    obs = noise(rng, np.zeros(0))
    for _ in range(3 * SLOTS):
        next_obs = stack(rng, obs)
        buffer.add(obs, next_obs, np.array([0]), np.zeros(1), np.array([False]), [{}])
        obs = next_obs
    per_transition = buffer.nbytes / SLOTS
    assert per_transition < 1.5 * ROW_BYTES / 4 + 64
