"""Each algorithm with networks small enough to train in a test, on environments whose episodes end in both ways."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.wrappers import TimeLimit
from sb3_contrib import QRDQN, TQC, CrossQ
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.envs import SimpleMultiObsEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

BATCH_SIZE = 16

_DISCRETE = {"exploration_fraction": 0.5, "train_freq": 1, "target_update_interval": 20}
_SETTINGS: dict[str, tuple[type[BaseAlgorithm], dict[str, Any], dict[str, Any]]] = {
    "DQN": (DQN, _DISCRETE, {}),
    "QRDQN": (QRDQN, _DISCRETE, {"n_quantiles": 8}),
    "SAC": (SAC, {}, {}),
    "TD3": (TD3, {}, {}),
    "DDPG": (DDPG, {}, {}),
    "TQC": (TQC, {"top_quantiles_to_drop_per_net": 2}, {"n_quantiles": 8}),
    "CrossQ": (CrossQ, {}, {}),
}

ALGORITHMS = tuple(_SETTINGS)
DISCRETE_ALGORITHMS = ("DQN", "QRDQN")


class ShortPendulum(gym.Wrapper[Any, Any, Any, Any]):
    """Pendulum that terminates when it is upright, and is cut after 15 steps."""

    def __init__(self) -> None:
        super().__init__(TimeLimit(PendulumEnv(), 15))

    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = self.env.step(action)
        return obs, reward, bool(obs[0] > 0.9), truncated, info


class EndlessCartPole(gym.Wrapper[Any, Any, Any, Any]):
    """CartPole that goes on from where it fell, set upright."""

    def __init__(self) -> None:
        super().__init__(CartPoleEnv())

    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = self.env.step(action)
        if terminated:
            obs, _ = self.env.reset()
        return obs, reward, False, False, info


def short_cart_pole() -> gym.Env[Any, Any]:
    return TimeLimit(CartPoleEnv(), 15)


def multi_input_env(discrete: bool) -> gym.Env[Any, Any]:
    np.random.seed(0)  # it draws its images from the global generator when it is made
    return SimpleMultiObsEnv(num_col=3, num_row=3, random_start=True, discrete_actions=discrete)


def endless_env(name: str) -> VecEnv:
    return DummyVecEnv([EndlessCartPole if name in DISCRETE_ALGORITHMS else PendulumEnv])


def vector_env(name: str, n_envs: int = 1) -> VecEnv:
    return DummyVecEnv([short_cart_pole if name in DISCRETE_ALGORITHMS else ShortPendulum] * n_envs)


def tiny_model(name: str, *, env: VecEnv | None = None, policy: str = "MlpPolicy", **options: Any) -> BaseAlgorithm:
    """
    :param name: one of ``ALGORITHMS``
    :param options: replace the arguments that the algorithm gets here; ``policy_kwargs`` are added to
    """
    th.set_num_threads(1)
    algorithm, settings, policy_settings = _SETTINGS[name]
    policy_kwargs = {"net_arch": [8, 8], **policy_settings, **options.pop("policy_kwargs", {})}
    arguments: dict[str, Any] = {
        "batch_size": BATCH_SIZE,
        "buffer_size": 100,
        "learning_starts": 30,
        "learning_rate": 1e-2,
        "seed": 3,
        "device": "cpu",
        **settings,
        **options,
    }
    return algorithm(policy, env if env is not None else vector_env(name), policy_kwargs=policy_kwargs, **arguments)


def all_parameters(model: BaseAlgorithm) -> dict[str, Any]:
    """Networks, target networks and the state of every optimiser."""
    return {name: part for name, part in model.get_parameters().items() if np.size(part) or part}
