"""What SB3 reads and writes on a buffer directly: ``pos``, ``full``, ``dones``, ``timeouts`` and their siblings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_webscale import WebscaleReplayBuffer
from sb3_webscale.errors import BufferStateError
from sb3_webscale.testing.counting_env import CountingStream, CountingWorld

from .every_row import every_row
from .same_bits import assert_same_bits
from .tiny_models import tiny_model

N_ENVS = 3
WORLD = CountingWorld("image", lengths=(20,))


def filled(n_steps: int, **options: Any) -> WebscaleReplayBuffer:
    buffer = WebscaleReplayBuffer(30, WORLD.observation_space, WORLD.action_space, "cpu", N_ENVS, **options)
    CountingStream(WORLD, N_ENVS).fill(buffer, n_steps)
    return buffer


@pytest.mark.parametrize("n_steps", [3, 14])
@pytest.mark.parametrize("name", ["actions", "rewards", "dones", "timeouts"])
def test_written_values_are_sampled(name: str, n_steps: int) -> None:
    buffer = filled(n_steps)
    view = getattr(buffer, name)
    assert view.flags.writeable
    view[1, 2] = 1
    assert (getattr(buffer, name)[1, 2] == 1).all()
    samples = every_row(buffer)
    at = samples.indices.numpy() % (10 * N_ENVS) == 1 * N_ENVS + 2
    assert at.sum() == 1
    if name == "timeouts":
        buffer.dones[1, 2] = 1
        assert every_row(buffer).dones.sum() == 0
    else:
        assert (getattr(samples, name)[at] == 1).all()


def test_views_outlive_later_steps_and_the_buffer() -> None:
    buffer = filled(3)
    dones, rewards = buffer.dones, buffer.rewards
    CountingStream(WORLD, N_ENVS).fill(buffer, 20)
    assert_same_bits(rewards, buffer.rewards)
    wanted = rewards.copy()
    del buffer
    assert_same_bits(rewards, wanted)
    assert dones.shape == (10, N_ENVS)


def test_second_learn_in_memory_saving_mode_closes_the_last_episode() -> None:
    options = {"replay_buffer_kwargs": {"handle_timeout_termination": False}, "optimize_memory_usage": True}
    ends = []
    for buffer_options in ({"replay_buffer_class": WebscaleReplayBuffer}, {}):
        model: Any = tiny_model("SAC", **options, **buffer_options)
        model.learn(40)
        last = model.replay_buffer.pos - 1
        before = float(model.replay_buffer.dones[last, 0])
        with pytest.warns(UserWarning, match="last trajectory"):
            model.learn(20)
        ends.append((before, float(model.replay_buffer.dones[last, 0]), model.replay_buffer.pos))
    assert ends[0] == ends[1] == (0.0, 1.0, 60)


def test_position_follows_what_was_added() -> None:
    buffer = filled(4)
    buffer.pos, buffer.full = 4, False
    with pytest.raises(BufferStateError, match="pos is 4"):
        buffer.pos = 2
    with pytest.raises(BufferStateError, match="full is False"):
        buffer.full = True


@pytest.mark.parametrize("name", ["observations", "next_observations"])
@pytest.mark.parametrize("n_steps", [4, 10, 23])
def test_observations_are_indexed_as_in_sb3(n_steps: int, name: str) -> None:
    buffer = filled(n_steps)
    theirs = ReplayBuffer(30, WORLD.observation_space, WORLD.action_space, "cpu", N_ENVS)
    CountingStream(WORLD, N_ENVS).fill(theirs, n_steps)
    view, array = getattr(buffer, name), getattr(theirs, name)
    slots, envs = np.array([0, 9, -1, 3]), np.array([2, 0, 1, -1])
    keys: list[Any] = [
        2,
        -1,
        slice(1, 7, 2),
        slots,
        (slots, envs),
        (slots, envs, slice(None)),
        (3, 1),
        (3, 1, 0),
        (slice(None), 1),
        (slots, 1),
        (slots[:, None], envs[None, :]),
        array[:, :, 0, 0, 0] > 1,
        (Ellipsis, 0),
        (slice(2, 4), slice(None), 1, slice(0, 2)),
    ]
    for key in keys:
        assert_same_bits(np.asarray(view[key]), np.asarray(array[key]), f"{name}[{key}]")
    assert (view.shape, view.dtype, view.ndim, len(view)) == (array.shape, array.dtype, array.ndim, len(array))
    assert_same_bits(np.asarray(view), array)
    assert_same_bits(np.array(view, dtype=np.float32), array.astype(np.float32))


def test_observations_cannot_be_written() -> None:
    buffer = filled(4)
    with pytest.raises(TypeError, match="read-only"):
        buffer.observations[0] = 0
    for key in (10, -11, (0, 3), (np.array([0, 10]), np.array([0, 0]))):
        with pytest.raises(IndexError):
            buffer.observations[key]


def test_device_is_a_plain_attribute() -> None:
    buffer = filled(4)
    buffer.device = "meta"
    assert buffer.sample(2).rewards.device.type == "meta"
