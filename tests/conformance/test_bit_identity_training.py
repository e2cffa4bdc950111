"""With the same seed, training with our buffer ends with the weights that SB3's buffer gives, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from sb3_webscale import WebscaleDictReplayBuffer, WebscaleHerReplayBuffer, WebscaleReplayBuffer

from .same_bits import assert_same_bits
from .tiny_models import (
    ALGORITHMS,
    DISCRETE_ALGORITHMS,
    all_parameters,
    endless_env,
    multi_input_env,
    tiny_model,
    vector_env,
)

OURS = {"replay_buffer_class": WebscaleReplayBuffer}
STEPS = 100


def assert_same_training(ours: BaseAlgorithm, theirs: BaseAlgorithm, n_steps: int = STEPS) -> None:
    """Trains one after the other, so that each has the global random generators for itself."""
    before = all_parameters_copied(theirs)
    for model in (ours, theirs):
        model.set_random_seed(5)
        model.learn(n_steps)
    assert theirs._n_updates >= 40
    assert_same_bits(all_parameters(ours), all_parameters(theirs), "parameters")
    with pytest.raises(AssertionError):
        assert_same_bits(all_parameters(theirs), before)


def all_parameters_copied(model: BaseAlgorithm) -> dict[str, Any]:
    return th.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, th.Tensor) else x, all_parameters(model))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm(name: str) -> None:
    assert_same_training(tiny_model(name, **OURS), tiny_model(name))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_four_environments(name: str) -> None:
    def model(**options: Any) -> BaseAlgorithm:
        return tiny_model(name, env=vector_env(name, 4), gradient_steps=2, **options)

    assert_same_training(model(**OURS), model(), 200)


@pytest.mark.parametrize("name", ["DQN", "SAC", "TD3", "QRDQN"])
def test_n_step_returns(name: str) -> None:
    ours = tiny_model(name, **OURS, replay_buffer_kwargs={"n_steps": 3, "gamma": 0.9}, gamma=0.9)
    assert_same_training(ours, tiny_model(name, n_steps=3, gamma=0.9))


@pytest.mark.parametrize("name", ["SAC", "TD3", "CrossQ"])
def test_actions_of_64_bits(name: str) -> None:
    def model(**options: Any) -> BaseAlgorithm:
        return tiny_model(name, env=DummyVecEnv([DoubleActions]), **options)

    assert_same_training(model(**OURS), model(), 80)


class DoubleActions(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__(vector_env("SAC").envs[0])  # type: ignore[attr-defined]
        self.action_space = gym.spaces.Box(-2, 2, (1,), np.float64)


@pytest.mark.parametrize("name", ["SAC", "DQN"])
def test_normalised_observations_and_rewards(name: str) -> None:
    def model(**options: Any) -> BaseAlgorithm:
        return tiny_model(name, env=VecNormalize(vector_env(name, 2)), **options)

    assert_same_training(model(**OURS), model(), 200)


@pytest.mark.parametrize("name", ["DQN", "SAC", "TQC"])
def test_memory_saving_without_ends_of_episodes(name: str) -> None:
    """Where no episode ends before training does, the one deliberate difference of that mode cannot show."""

    def model(**options: Any) -> BaseAlgorithm:
        kwargs = {"handle_timeout_termination": False}
        return tiny_model(
            name, env=endless_env(name), optimize_memory_usage=True, replay_buffer_kwargs=kwargs, **options
        )

    assert_same_training(model(**OURS), model())


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_dict_observations(name: str) -> None:
    def model(**options: Any) -> BaseAlgorithm:
        env = DummyVecEnv([lambda: multi_input_env(discrete=name in DISCRETE_ALGORITHMS)])
        policy_kwargs = {"features_extractor_kwargs": {"cnn_output_dim": 4}}
        return tiny_model(
            name, env=env, policy="MultiInputPolicy", policy_kwargs=policy_kwargs, batch_size=8, **options
        )

    assert_same_training(model(replay_buffer_class=WebscaleDictReplayBuffer), model(), 70)


@pytest.mark.parametrize(("strategy", "n_envs"), [("future", 1), ("future", 3), ("final", 1), ("episode", 1)])
@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_hindsight(name: str, strategy: str, n_envs: int) -> None:
    def model(buffer_class: type[HerReplayBuffer]) -> BaseAlgorithm:
        continuous = name not in DISCRETE_ALGORITHMS
        env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=5, continuous=continuous)] * n_envs)
        kwargs = {"goal_selection_strategy": strategy, "copy_info_dict": True}
        options = {"replay_buffer_class": buffer_class, "replay_buffer_kwargs": kwargs}
        return tiny_model(name, env=env, policy="MultiInputPolicy", **options)

    assert_same_training(model(WebscaleHerReplayBuffer), model(HerReplayBuffer), 90 * n_envs)


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_buffer_saved_and_loaded_on_the_way(name: str, tmp_path: Path) -> None:
    parameters = []
    for options in (OURS, {}):
        model = tiny_model(name, **options)
        model.learn(80)
        model.save_replay_buffer(tmp_path / "buffer")
        model.load_replay_buffer(tmp_path / "buffer.pkl")
        model.learn(80, reset_num_timesteps=False)
        parameters.append(all_parameters(model))
    assert_same_bits(*parameters, "parameters")
