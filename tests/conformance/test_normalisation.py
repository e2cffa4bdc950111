"""Raw values are stored; VecNormalize's statistics of the moment are applied when sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleHerReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.testing.counting_env import CountingEnv, CountingStream, CountingWorld

from .same_bits import assert_same_bits


def normalized(world: CountingWorld, **options: Any) -> VecNormalize:
    env = VecNormalize(DummyVecEnv([lambda: CountingEnv(world)]), **options)
    env.reset()
    return env


def as_numpy(values: Any) -> Any:
    return {key: value.numpy() for key, value in values.items()} if isinstance(values, dict) else values.numpy()


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "matrix", "image", "goal"])
def test_statistics_of_the_moment(kind: str, prioritized: bool) -> None:
    world = CountingWorld(kind, lengths=(7,))
    env = normalized(world)
    buffer_class = WebscaleDictReplayBuffer if kind == "goal" else WebscaleReplayBuffer
    buffer = buffer_class(30, world.observation_space, world.action_space, "cpu", prioritized=prioritized, seed=1)
    CountingStream(world).fill(buffer, 40)
    seen = []
    for _ in range(3):
        for _ in range(4):
            env.step(np.zeros((1, 2), dtype=np.float32))
        samples = buffer.sample(100, env=env)
        rows = {int(i): code for i, code in zip(*ids_and_codes(buffer, world), strict=True)}
        codes = np.array([rows[int(i)] for i in samples.indices])
        wanted = world.expected(codes)
        assert_same_bits(as_numpy(samples.observations), env.normalize_obs(world.code.encode(codes)), "observations")
        assert_same_bits(
            as_numpy(samples.next_observations), env.normalize_obs(wanted.next_observations), "next_observations"
        )
        assert_same_bits(samples.rewards.numpy(), env.normalize_reward(wanted.rewards).astype(np.float32), "rewards")
        assert_same_bits(samples.dones.numpy(), wanted.dones, "dones")
        seen.append(env.obs_rms["observation"].mean.copy() if kind == "goal" else env.obs_rms.mean.copy())
    assert not np.array_equal(seen[0], seen[2])


def ids_and_codes(buffer: Any, world: CountingWorld) -> tuple[np.ndarray, np.ndarray]:
    """Which raw transition each id stands for, from raw samples."""
    samples = buffer.sample(1000)
    ids, first = np.unique(samples.indices.numpy(), return_index=True)
    assert len(ids) == buffer.size() * buffer.n_envs
    return ids, world.check(samples)[first]


def test_relabelled_goals_are_normalised_with_the_rest() -> None:
    world = CountingWorld("goal", lengths=(5,))
    env = normalized(world)
    for _ in range(8):
        env.step(np.zeros((1, 2), dtype=np.float32))
    buffer = WebscaleHerReplayBuffer(20, world.observation_space, world.action_space, env.venv, "cpu")
    CountingStream(world).fill(buffer, 15)
    np.random.seed(0)
    raw = buffer.sample(50)
    np.random.seed(0)
    samples = buffer.sample(50, env=env)
    for name in ("observations", "next_observations"):
        assert_same_bits(as_numpy(getattr(samples, name)), env.normalize_obs(as_numpy(getattr(raw, name))), name)
    assert_same_bits(samples.rewards.numpy(), env.normalize_reward(raw.rewards.numpy()).astype(np.float32), "rewards")
