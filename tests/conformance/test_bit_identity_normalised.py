"""Samples normalised by VecNormalize are SB3's, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleReplayBuffer
from sb3_webscale.testing.counting_env import CountingEnv, CountingStream, CountingWorld

from .same_bits import assert_same_draws

N_ENVS = 3


def normalized_env(world: CountingWorld, **options: Any) -> VecNormalize:
    def make(env: int) -> Any:
        return lambda: CountingEnv(world, env)

    env = VecNormalize(DummyVecEnv([make(env) for env in range(N_ENVS)]), **options)
    env.reset()
    step_on(env, 25)
    return env


def step_on(env: VecNormalize, n_steps: int) -> None:
    for _ in range(n_steps):
        env.step(env.venv.action_space.sample()[None].repeat(N_ENVS, axis=0))


@pytest.mark.parametrize("options", [{}, {"norm_reward": False}, {"norm_obs": False}], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "int8", "matrix"])
def test_flat_observations(kind: str, options: dict[str, Any]) -> None:
    world = CountingWorld(kind, lengths=(3, 5))
    env = normalized_env(world, **options)
    arguments = (60, world.observation_space, world.action_space, "cpu", N_ENVS)
    ours, theirs = WebscaleReplayBuffer(*arguments), ReplayBuffer(*arguments)
    assert_same_while_statistics_move(ours, theirs, world, env)


def test_dict_observations() -> None:
    world = CountingWorld("goal", lengths=(3, 5))
    env = normalized_env(world, norm_obs_keys=["observation", "achieved_goal"])
    arguments = (60, world.observation_space, world.action_space, "cpu", N_ENVS)
    ours, theirs = WebscaleDictReplayBuffer(*arguments), DictReplayBuffer(*arguments)
    assert_same_while_statistics_move(ours, theirs, world, env)


def test_n_step_returns() -> None:
    world = CountingWorld(lengths=(3, 5))
    env = normalized_env(world)
    arguments = (60, world.observation_space, world.action_space, "cpu", N_ENVS)
    ours = WebscaleReplayBuffer(*arguments, n_steps=3, gamma=0.9)
    theirs = NStepReplayBuffer(*arguments, n_steps=3, gamma=0.9)
    assert_same_while_statistics_move(ours, theirs, world, env)


def assert_same_while_statistics_move(ours: Any, theirs: Any, world: CountingWorld, env: VecNormalize) -> None:
    CountingStream(world, N_ENVS).fill(ours, 27)
    CountingStream(world, N_ENVS).fill(theirs, 27)
    for seed in range(4):
        assert_same_draws(ours, theirs, seed=seed, env=env)
        step_on(env, 5)
