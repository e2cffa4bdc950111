"""Saved states: a snapshot of their own, refused when damaged, never a crash."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sb3_webscale import WebscaleReplayBuffer
from sb3_webscale.errors import DataError, SnapshotFormatError

SPACE = spaces.Box(0, 255, (4, 16, 16), np.uint8)


def filled(steps: int = 30) -> WebscaleReplayBuffer:
    buffer = WebscaleReplayBuffer(20, SPACE, spaces.Discrete(2), device="cpu", n_envs=2, prioritized=True, seed=1)
    add(buffer, steps)
    return buffer


def add(buffer: WebscaleReplayBuffer, steps: int) -> None:
    random = np.random.default_rng(0)
    for step in range(steps):
        obs, next_obs = random.integers(0, 256, (2, 2, 4, 16, 16)).astype(np.uint8)
        done = np.array([False, step % 5 == 0])
        buffer.add(obs, next_obs, np.array([0, 1]), np.array([1.0, 2.0], np.float32), done, [{}, {}])


def restored(state: dict[str, Any]) -> WebscaleReplayBuffer:
    buffer = WebscaleReplayBuffer.__new__(WebscaleReplayBuffer)
    buffer.__setstate__(state)
    return buffer


def test_a_state_stays_as_it_was_whatever_the_buffer_does() -> None:
    buffer = filled()
    expected = restored(copy.deepcopy(buffer.__getstate__()))
    state = buffer.__getstate__()
    add(buffer, 100)
    buffer.reset()
    add(buffer, 7)
    found = restored(state)
    for _ in range(20):
        pair = zip(found.sample(16), expected.sample(16), strict=True)
        assert all(a is b or th.equal(a, b) for a, b in pair)


def changed(path: tuple[Any, ...], change: Any) -> dict[str, Any]:
    state = copy.deepcopy(filled().__getstate__())
    target: Any = state
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = change(target[path[-1]])
    return state


COLUMN = ("native", "columns", 0)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("native", "steps"), lambda _: 10**12 + 3),
        (("native", "steps"), lambda _: 2**64 - 1),
        (("native", "steps"), lambda _: -1),
        (("native", "steps"), lambda _: 3),
        (("native", "first_step"), lambda _: 7),
        (("native", "rewards"), lambda a: a[:5]),
        (("native", "actions"), lambda a: a[:0]),
        (("native", "columns"), lambda a: []),
        (("native", "columns"), lambda a: a * 2),
        ((*COLUMN, "references"), lambda a: a[:3]),
        ((*COLUMN, "references"), lambda a: a[::-1]),
        ((*COLUMN, "references"), lambda a: a + 1000),
        ((*COLUMN, "streams"), lambda a: a[:1]),
        ((*COLUMN, "streams", 1, "begin"), lambda _: 2**31),
        ((*COLUMN, "streams", 1, "frames"), lambda a: [a[0][:100]]),
        ((*COLUMN, "streams", 1, "frames"), lambda a: []),
        (("native", "priorities", "raw"), lambda a: a[:0]),
        (("native", "priorities", "raw"), lambda a: a * np.nan),
        (("native", "priorities", "raw"), lambda a: np.tile(a, 2)),
        (("attributes", "_layouts"), lambda _: None),
        (("native",), lambda _: None),
    ],
)
def test_damage_is_named_and_never_crashes(path: tuple[Any, ...], change: Any) -> None:
    with pytest.raises(SnapshotFormatError, match="damaged"):
        restored(changed(path, change))


def test_observations_of_another_shape_are_refused() -> None:
    buffer = filled(3)
    turned = np.zeros((2, 16, 16, 4), np.uint8)
    with pytest.raises(DataError, match=r"obs has shape \(2, 16, 16, 4\), but \(2, 4, 16, 16\) is needed"):
        buffer.add(turned, turned, np.array([0, 1]), np.zeros(2, np.float32), np.zeros(2, bool), [{}, {}])
    assert buffer.pos == 3
