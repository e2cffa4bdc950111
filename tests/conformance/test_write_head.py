"""The slots around the write head are right at every fill level, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

from sb3_webscale import WebscaleReplayBuffer
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

from .every_row import every_row, newest_codes

LENGTH = 7


@pytest.mark.parametrize("kind", ["float32", "image"])
@pytest.mark.parametrize("saves_memory", [False, True])
@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("slots", [1, 2, 3, 50])
def test_every_slot(slots: int, n_envs: int, saves_memory: bool, kind: str) -> None:
    world = CountingWorld(kind, lengths=(LENGTH,))
    for handle_timeouts in (True, False):
        for filled in (1, slots - 1, slots, slots + 1, 2 * slots, 3 * slots + 1):
            buffer = WebscaleReplayBuffer(
                slots * n_envs,
                world.observation_space,
                world.action_space,
                "cpu",
                n_envs,
                optimize_memory_usage=saves_memory,
                handle_timeout_termination=handle_timeouts,
            )
            if filled < 1:
                continue
            CountingStream(world, n_envs).fill(buffer, filled)
            codes = world.check(every_row(buffer), timeouts_bootstrap=handle_timeouts)
            assert sorted(map(tuple, codes.tolist())) == newest_codes(filled, slots, n_envs, LENGTH)
            world.check(buffer.sample(200), timeouts_bootstrap=handle_timeouts)


def test_memory_saving_mode_leaves_out_the_oldest_slot_as_sb3_does() -> None:
    world = CountingWorld(lengths=(60,))
    buffer = WebscaleReplayBuffer(
        10,
        world.observation_space,
        world.action_space,
        "cpu",
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    CountingStream(world).fill(buffer, 33)
    codes = world.check(buffer.sample(1000), timeouts_bootstrap=False)
    assert sorted(set(codes[:, 2].tolist())) == list(range(24, 33))


def test_ids_name_slot_and_version() -> None:
    world = CountingWorld(lengths=(60,))
    buffer = WebscaleReplayBuffer(30, world.observation_space, world.action_space, "cpu", 3)
    stream = CountingStream(world, 3)
    seen: set[int] = set()
    for step in range(35):
        stream.fill(buffer, 1)
        samples = every_row(buffer)
        codes = world.check(samples)
        np.testing.assert_array_equal(samples.indices.numpy(), codes[:, 2] * 3 + codes[:, 0])
        seen |= set(samples.indices.tolist())
        assert len(seen) == 3 * (step + 1)


def test_ids_are_not_reused_after_reset() -> None:
    world = CountingWorld()
    buffer = WebscaleReplayBuffer(10, world.observation_space, world.action_space, "cpu")
    CountingStream(world).fill(buffer, 8)
    before = set(every_row(buffer).indices.tolist())
    buffer.reset()
    assert (buffer.pos, buffer.full, buffer.size()) == (0, False, 0)
    CountingStream(world).fill(buffer, 8)
    after = every_row(buffer)
    world.check(after)
    assert not before & set(after.indices.tolist())
