"""Building the algorithm that a configuration describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.noise import (
    ActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)

from sb3_webscale.errors import ConfigError, WebscaleError
from sb3_webscale.experiments.algorithms import algorithm_class, constructor_names
from sb3_webscale.experiments.class_paths import BUFFER_CLASSES, load_class

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from sb3_webscale.experiments.config import RunConfig

__all__ = ["build_model", "replay_buffer_arguments"]


def build_model(config: RunConfig, vec_env: VecEnv) -> BaseAlgorithm:
    """Build the algorithm with its policy, noise and replay buffer.

    :param config: the run
    :param vec_env: its training environments
    :raises ConfigError: when the algorithm refuses a value
    """
    algorithm = algorithm_class(config.algo)
    arguments = {**config.hyperparameters, **replay_buffer_arguments(config)}
    if config.policy_kwargs:
        arguments["policy_kwargs"] = config.policy_kwargs
    if config.noise_type is not None:
        arguments["action_noise"] = _action_noise(config, vec_env.action_space)
    policy: Any = load_class(config.policy, "policy") if "." in config.policy else config.policy
    try:
        return algorithm(policy, vec_env, seed=config.seed, verbose=0, **arguments)
    except WebscaleError:
        raise
    except (AssertionError, TypeError, ValueError) as error:
        msg = f"{config.env_id}: {algorithm.__name__} refuses the configuration: {error}"
        raise ConfigError(msg) from error


def replay_buffer_arguments(config: RunConfig) -> dict[str, Any]:
    """Arguments of the algorithm that choose the replay buffer.

    :param config: the run
    :return: empty when the configuration leaves the choice to Stable-Baselines3
    :raises ConfigError: when there is history but the buffer cannot hold it
    """
    buffer_class: Any = None
    if config.replay_buffer_class is not None:
        buffer_class = load_class(config.replay_buffer_class, "replay_buffer_class", BUFFER_CLASSES)
    is_mixed = hasattr(buffer_class, "load_history")
    if config.data is not None and not is_mixed:
        msg = (
            f"{config.env_id}.replay_buffer_class = {config.replay_buffer_class!r} cannot hold the history of the "
            "section data; write replay_buffer_class: MixedReplayBuffer"
        )
        raise ConfigError(msg)
    if buffer_class is None:
        return {}
    kwargs = dict(config.replay_buffer_kwargs)
    if is_mixed:
        kwargs.setdefault("total_timesteps", config.n_timesteps)
        if config.data is not None and config.data.online_ratio is not None:
            kwargs["online_ratio"] = config.data.online_ratio
    return {"replay_buffer_class": buffer_class, "replay_buffer_kwargs": kwargs}


def _action_noise(config: RunConfig, action_space: spaces.Space[Any]) -> ActionNoise:
    if "action_noise" not in constructor_names(algorithm_class(config.algo)):
        msg = f"{config.env_id}.noise_type = {config.noise_type!r}: {config.algo} takes no action noise; remove it"
        raise ConfigError(msg)
    if not isinstance(action_space, spaces.Box):
        where = f"{config.env_id}.noise_type = {config.noise_type!r}"
        msg = f"{where} needs continuous actions, not {action_space}; remove it"
        raise ConfigError(msg)
    mean = np.zeros(action_space.shape)
    sigma = np.full(action_space.shape, config.noise_std)
    noise: ActionNoise = (
        NormalActionNoise(mean, sigma) if config.noise_type == "normal" else OrnsteinUhlenbeckActionNoise(mean, sigma)
    )
    return VectorizedActionNoise(noise, config.n_envs) if config.n_envs > 1 else noise
