"""Single transitions raised by hand, and the ids of the latest ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sb3_webscale import WebscaleReplayBuffer
from sb3_webscale.errors import BufferStateError, InvalidInputError
from sb3_webscale.testing.counting_env import CountingStream

from .same_bits import assert_same_bits
from .test_her import WORLD as GOAL_WORLD
from .test_her import her_buffer
from .test_priorities import WORLD, filled
from .test_save_load import world_and_buffer


def test_a_mark_multiplies_until_the_next_feedback() -> None:
    buffer = filled(8)
    buffer.update_priorities(np.arange(8), np.arange(1.0, 9.0))
    before = buffer.priorities(np.arange(8))
    assert buffer.mark_for_replay([2, 5, 2]) == 3
    assert buffer.mark_for_replay([5], boost=10) == 1
    factors = np.array([1, 1, 1.5, 1, 1, 15, 1, 1])
    np.testing.assert_allclose(buffer.priorities(np.arange(8)), before * factors)
    masses = (before * factors) ** 0.6
    np.testing.assert_allclose(buffer._replay.total_mass, masses.sum())
    buffer.update_priorities([5], [6.0])
    np.testing.assert_array_equal(buffer.priorities([5]), before[5])


def test_marks_that_come_too_late_are_counted() -> None:
    buffer = filled(8)
    CountingStream(WORLD).fill(buffer, 3)
    before = buffer.priorities(np.arange(3, 11))
    assert buffer.mark_for_replay([0, 1, 2, -1, 10**12]) == 0
    assert_same_bits(buffer.priorities(np.arange(3, 11)), before)
    numbers = buffer.statistics()
    assert (numbers["stale_marks"], numbers["stale_updates"]) == (5, 0)


@pytest.mark.parametrize("boost", [0.0, 0.99, -1.5, np.nan, np.inf])
def test_bad_boost_changes_nothing(boost: float) -> None:
    buffer = filled(8)
    before = buffer.priorities(np.arange(8))
    with pytest.raises(InvalidInputError, match="boost is"):
        buffer.mark_for_replay([1], boost)
    assert_same_bits(buffer.priorities(np.arange(8)), before)
    uniform = WebscaleReplayBuffer(8, WORLD.observation_space, WORLD.action_space, "cpu")
    with pytest.raises(BufferStateError, match="prioritized=True"):
        uniform.mark_for_replay([1])


def test_endless_marks_stay_finite() -> None:
    buffer = filled(8)
    for _ in range(10):
        buffer.mark_for_replay([3], 1e60)
    assert buffer.priorities([3]) == 1e100
    assert np.isfinite(buffer.statistics()["entropy"])
    assert buffer.sample(32).weights.isfinite().all()


def test_a_mark_does_not_admit_an_open_episode() -> None:
    buffer = her_buffer(1, prioritized=True)
    CountingStream(GOAL_WORLD, 1).fill(buffer, 9)  # an episode of 7 steps, and 2 steps of the next
    assert buffer.mark_for_replay(buffer.recent(9), 2.0) == 7
    assert buffer.statistics()["stale_marks"] == 2
    assert buffer.priorities(buffer.recent(9)).tolist() == [2.0] * 7 + [0.0] * 2


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("prioritized", [False, True])
def test_recent_ids_at_every_write_head(n_envs: int, prioritized: bool) -> None:
    buffer = WebscaleReplayBuffer(
        5 * n_envs, WORLD.observation_space, WORLD.action_space, "cpu", n_envs, prioritized=prioritized
    )
    stream = CountingStream(WORLD, n_envs)
    assert buffer.recent(4).tolist() == []
    added: list[Any] = []
    for step in range(17):
        if step == 12:
            buffer.reset()
            added = []
            assert buffer.recent(4).tolist() == []
        stream.fill(buffer, 1)
        slot = (buffer.pos - 1) % buffer.buffer_size
        # What the ids name, by the buffer's own account of its slots.
        added += buffer._replay.ids_of_rows(slot * n_envs + np.arange(n_envs)).tolist()
        for count in (0, 1, 2, n_envs, 2 * n_envs + 1, 5 * n_envs, 1000):
            found = buffer.recent(count)
            assert found.dtype == np.int64
            assert found.tolist() == added[-5 * n_envs :][max(0, min(len(added), 5 * n_envs) - count) :]
    with pytest.raises(InvalidInputError, match="count is -1"):
        buffer.recent(-1)


def test_recent_of_dict_observations() -> None:
    world, buffer = world_and_buffer("dict", prioritized=True)
    CountingStream(world, 3).fill(buffer, 33)
    assert buffer.mark_for_replay(buffer.recent(60), 4.0) == 60
    np.testing.assert_array_equal(buffer.priorities(buffer.recent(2)), 4.0)
