"""Bad input is refused with a message that names it, and nothing is stored or changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.errors import BufferStateError, DataError, InvalidInputError
from sb3_webscale.testing.counting_env import CountingStep, CountingStream, CountingWorld

from .every_row import every_row

N_ENVS = 3
BAD = [np.nan, np.inf, -np.inf]


def world_and_buffer(kind: str = "float32", **options: Any) -> tuple[CountingWorld, Any]:
    world = CountingWorld(kind, lengths=(5,))
    buffer_class = WebscaleDictReplayBuffer if kind in ("dict", "goal") else WebscaleReplayBuffer
    buffer = buffer_class(30, world.observation_space, world.action_space, "cpu", N_ENVS, **options)
    return world, buffer


def assert_refused(buffer: Any, world: CountingWorld, step: CountingStep, match: str) -> None:
    before = (buffer.pos, buffer.full, buffer.size(), buffer.rewards.copy(), buffer.dones.copy(), buffer.actions.copy())
    with pytest.raises(DataError, match=match):
        buffer.add(*step)
    after = (buffer.pos, buffer.full, buffer.size(), buffer.rewards, buffer.dones, buffer.actions)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new, old)
    world.check(every_row(buffer))


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n_steps", [4, 13])
@pytest.mark.parametrize("bad", BAD)
def test_reward(bad: float, n_steps: int, prioritized: bool) -> None:
    world, buffer = world_and_buffer()
    stream = CountingStream(world, N_ENVS)
    stream.fill(buffer, n_steps)
    step = stream.step()
    step.reward[1] = bad
    assert_refused(buffer, world, step, "reward of environment 1 is")


@pytest.mark.parametrize("which", ["obs", "next_obs"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "matrix"])
def test_observation(kind: str, bad: float, which: str) -> None:
    world, buffer = world_and_buffer(kind)
    stream = CountingStream(world, N_ENVS)
    stream.fill(buffer, 13)
    step = stream.step()
    values = getattr(step, which).copy()
    values[2].flat[2] = bad
    assert_refused(buffer, world, step._replace(**{which: values}), f"{which}.*environment 2|environment 2.*{which}")
    stream_again = CountingStream(world, N_ENVS)
    stream_again.fill(buffer, 13)
    world.check(every_row(buffer))


@pytest.mark.parametrize("which", ["obs", "next_obs"])
def test_observation_inside_a_dict(which: str) -> None:
    world, buffer = world_and_buffer("dict")
    stream = CountingStream(world, N_ENVS)
    stream.fill(buffer, 4)
    step = stream.step()
    getattr(step, which)["position"][0, 1] = np.nan
    with pytest.raises(DataError, match="position") as caught:
        buffer.add(*step)
    for word in (which, "environment 0", "nan", "[1]"):
        assert word in str(caught.value)
    assert buffer.pos == 4


@pytest.mark.parametrize("bad", BAD)
def test_stored_as_in_sb3_when_asked(bad: float) -> None:
    world, buffer = world_and_buffer(check_finite=False)
    step = CountingStream(world, N_ENVS).step()
    step.reward[1] = bad
    step.obs[2, 1] = bad
    buffer.add(*step)
    np.testing.assert_array_equal(buffer.rewards[0, 1], np.float32(bad))
    np.testing.assert_array_equal(buffer.observations[0, 2, 1], np.float32(bad))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("obs", np.zeros((2, 5), dtype=np.float32)),
        ("next_obs", np.zeros((3, 4), dtype=np.float32)),
        ("action", np.zeros((3, 3), dtype=np.float32)),
        ("reward", np.zeros(2, dtype=np.float32)),
        ("done", np.zeros(4, dtype=bool)),
    ],
)
def test_wrong_shape(name: str, value: np.ndarray) -> None:
    world, buffer = world_and_buffer()
    stream = CountingStream(world, N_ENVS)
    stream.fill(buffer, 4)
    assert_refused(buffer, world, stream.step()._replace(**{name: value}), f"{name} has shape")


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_wrong_number_of_infos(count: int) -> None:
    world, buffer = world_and_buffer()
    stream = CountingStream(world, N_ENVS)
    stream.fill(buffer, 4)
    assert_refused(buffer, world, stream.step()._replace(infos=[{"TimeLimit.truncated": True}] * count), "infos")


def test_missing_key() -> None:
    world, buffer = world_and_buffer("dict")
    step = CountingStream(world, N_ENVS).step()
    del step.obs["position"]
    with pytest.raises((DataError, KeyError), match="position"):
        buffer.add(*step)
    assert buffer.pos == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", -0.1),
        ("alpha", 1.1),
        ("alpha", np.nan),
        ("beta_start", -0.1),
        ("beta_start", 1.5),
        ("beta_end", 2.0),
        ("beta_end", np.nan),
        ("beta_steps", 0),
        ("priority_epsilon", 0.0),
        ("priority_epsilon", -1e-6),
        ("priority_epsilon", np.inf),
        ("seed", -1),
        ("seed", 2**64),
        ("n_steps", 0),
        ("gamma", 1.5),
        ("gamma", -0.1),
        ("gamma", np.nan),
    ],
)
@pytest.mark.parametrize("kind", ["float32", "dict"])
def test_constructor_argument_out_of_range(kind: str, name: str, value: float) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} is {value}"):
        world_and_buffer(kind, prioritized=True, **{name: value})


@pytest.mark.parametrize("name", ["alpha", "beta_start", "beta_end"])
def test_ends_of_the_ranges_are_allowed(name: str) -> None:
    for value in (0, 1, 0.0, 1.0):
        world_and_buffer(prioritized=True, **{name: value})


@pytest.mark.parametrize(("size", "n_envs"), [(0, 1), (-5, 1), (10, 0), (10, -1)])
def test_sizes_below_1(size: int, n_envs: int) -> None:
    box = spaces.Box(-1, 1, (2,), np.float32)
    with pytest.raises(InvalidInputError, match="must be at least 1"):
        WebscaleReplayBuffer(size, box, box, "cpu", n_envs)


def test_unknown_argument() -> None:
    with pytest.raises(TypeError, match="alhpa"):
        world_and_buffer(alhpa=0.5)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("batch_size", [0, -3])
def test_batch_size_below_1(batch_size: int, prioritized: bool) -> None:
    world, buffer = world_and_buffer(prioritized=prioritized)
    CountingStream(world, N_ENVS).fill(buffer, 4)
    with pytest.raises(InvalidInputError, match=f"batch_size is {batch_size}"):
        buffer.sample(batch_size)


def test_distinct_rows() -> None:
    world, buffer = world_and_buffer()
    CountingStream(world, N_ENVS).fill(buffer, 4)
    assert len(np.unique(buffer.sample(12, replace=False).indices.numpy())) == 12
    with pytest.raises(BufferStateError, match="batch_size is 13, but only 12 transitions"):
        buffer.sample(13, replace=False)
    world, buffer = world_and_buffer(prioritized=True)
    CountingStream(world, N_ENVS).fill(buffer, 4)
    with pytest.raises(InvalidInputError, match="replace=False"):
        buffer.sample(3, replace=False)


def test_empty_is_a_value_error_as_in_sb3() -> None:
    for options in ({}, {"prioritized": True}, {"n_steps": 3}, {"optimize_memory_usage": True}):
        with pytest.raises(ValueError, match="none is stored"):
            world_and_buffer(**options)[1].sample(1)
