"""The algorithms that a configuration may name, and the check of their hyperparameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sb3_webscale.errors import ConfigError, MissingExtraError
from sb3_webscale.experiments.class_paths import nearest

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["ALGORITHMS", "algorithm_class", "check_hyperparameters", "constructor_names", "hyperparameter_names"]

ALGORITHMS = {
    "a2c": "stable_baselines3.A2C",
    "crossq": "sb3_contrib.CrossQ",
    "ddpg": "stable_baselines3.DDPG",
    "dqn": "stable_baselines3.DQN",
    "ppo": "stable_baselines3.PPO",
    "qrdqn": "sb3_contrib.QRDQN",
    "sac": "stable_baselines3.SAC",
    "td3": "stable_baselines3.TD3",
    "tqc": "sb3_contrib.TQC",
}

# Given by the trainer, or read from a key of their own.
_NOT_HYPERPARAMETERS = ("self", "env", "seed", "tensorboard_log", "verbose", "action_noise", "_init_setup_model")

# Keys of rl-baselines3-zoo files written for versions before Stable-Baselines3 2.
_RETIRED = {
    "model_class": "name the algorithm with 'algo'",
    "n_episodes_rollout": 'write train_freq: [1, "episode"]',
    "online_sampling": "remove it, hindsight goals are always sampled when a batch is drawn",
    "n_sampled_goal": "move it into replay_buffer_kwargs of replay_buffer_class: HerReplayBuffer",
    "goal_selection_strategy": "move it into replay_buffer_kwargs of replay_buffer_class: HerReplayBuffer",
    "max_episode_length": "remove it, the length of an episode is detected",
}


def algorithm_class(name: str) -> type[BaseAlgorithm]:
    """Find an algorithm by name.

    :param name: a key of :data:`ALGORITHMS`, in any case
    :raises ConfigError: when the name is unknown
    :raises MissingExtraError: when its package is not installed
    """
    path = ALGORITHMS.get(name.lower())
    if path is None:
        msg = f"algo = {name!r} is not an algorithm; {nearest(name.lower(), ALGORITHMS)}"
        raise ConfigError(msg)
    module, attribute = path.rsplit(".", 1)
    try:
        found: type[BaseAlgorithm] = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        msg = f"algo = {name!r} needs {module}, which is not installed; run: pip install sb3-webscale[contrib]"
        raise MissingExtraError(msg) from error
    return found


def constructor_names(algorithm: type[BaseAlgorithm]) -> list[str]:
    """:return: every argument of the algorithm's constructor"""
    return list(inspect.signature(algorithm).parameters)


def hyperparameter_names(algorithm: type[BaseAlgorithm]) -> list[str]:
    """:return: arguments of the algorithm's constructor that a configuration may set"""
    return [name for name in constructor_names(algorithm) if name not in _NOT_HYPERPARAMETERS]


def check_hyperparameters(
    algorithm: type[BaseAlgorithm], values: Mapping[str, Any], other_keys: list[str], where: str
) -> dict[str, Any]:
    """Refuse unknown keys, and give every whole number the type its parameter has.

    :param algorithm: class whose constructor is the reference
    :param values: keys and values as read from the file
    :param other_keys: keys that the configuration itself understands, for the suggestion
    :param where: file and environment, for the error message
    :return: the values, with ``1e6`` as ``1000000`` where the parameter is an integer
    :raises ConfigError: for an unknown key, or a fraction where an integer is due
    """
    names = hyperparameter_names(algorithm)
    parameters = inspect.signature(algorithm).parameters
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in names:
            hint = _RETIRED.get(key) or nearest(key, names + other_keys)
            msg = (
                f"{where}.{key} = {value!r} is not a hyperparameter of {algorithm.__name__} nor a key of a run; {hint}"
            )
            raise ConfigError(msg)
        is_integer = parameters[key].annotation in (int, "int")
        checked[key] = _as_integer(value, f"{where}.{key}") if is_integer and isinstance(value, float) else value
    return checked


def _as_integer(value: float, where: str) -> int:
    if not value.is_integer():
        msg = f"{where} = {value!r} must be a whole number; write for example {round(value)}"
        raise ConfigError(msg)
    return int(value)
