"""The memory of batches is recycled, but never while anybody can still see it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sb3_webscale import WebscaleReplayBuffer

SHAPES = [(3,), (4, 84, 84)]


def filled(shape: tuple[int, ...]) -> WebscaleReplayBuffer:
    buffer = WebscaleReplayBuffer(64, spaces.Box(0, 255, shape, np.uint8), spaces.Discrete(2), device="cpu")
    for step in range(64):
        obs = np.full((1, *shape), step, np.uint8)
        buffer.add(obs, obs + 1, np.array([0]), np.array([step], np.float32), np.array([False]), [{}])
    return buffer


def is_whole(batch: Any) -> bool:
    steps = batch.rewards[:, 0].long()
    rows = batch.observations.reshape(len(steps), -1).long()
    next_rows = batch.next_observations.reshape(len(steps), -1).long()
    same = (rows == steps[:, None]).all() and (next_rows == steps[:, None] + 1).all()
    return bool(same and (batch.indices == steps).all())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batches_that_are_held_stay_as_they_were(shape: tuple[int, ...]) -> None:
    buffer = filled(shape)
    held = [buffer.sample(64) for _ in range(12)]
    kept = [[field.clone() for field in batch if field is not None] for batch in held]
    for _ in range(50):
        buffer.sample(64)
    for batch, copies in zip(held, kept, strict=True):
        assert is_whole(batch)
        assert all(th.equal(a, b) for a, b in zip((f for f in batch if f is not None), copies, strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_field_or_a_view_of_it_keeps_the_whole_batch(shape: tuple[int, ...]) -> None:
    buffer = filled(shape)
    views = []
    for _ in range(12):
        batch = buffer.sample(64)
        views.append((batch.observations[3:5].numpy(), batch.rewards[3:5].clone()))
        del batch
        gc.collect()
    for view, rewards in views:
        assert (view.reshape(2, -1) == rewards.numpy()).all()


def test_memory_of_dropped_batches_is_used_again() -> None:
    buffer = filled((4, 84, 84))
    addresses = {buffer.sample(64).observations.data_ptr() for _ in range(100)}
    assert len(addresses) <= 2


def test_batches_outlive_their_buffer() -> None:
    buffer = filled((3,))
    batch = buffer.sample(64)
    del buffer
    gc.collect()
    assert is_whole(batch)


@pytest.mark.parametrize("sizes", [(256, 1, 64), (1, 300, 7)])
def test_batches_of_changing_size(sizes: tuple[int, ...]) -> None:
    buffer = filled((4, 84, 84))
    for _ in range(5):
        assert all(is_whole(buffer.sample(size)) for size in sizes)
