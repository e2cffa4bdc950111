"""Building the vectorised environment that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack, VecNormalize

from sb3_webscale.errors import ConfigError, MissingExtraError
from sb3_webscale.experiments.class_paths import nearest
from sb3_webscale.experiments.installed_plugins import installed_plugins
from sb3_webscale.reproducibility.deterministic_env import DeterministicEnv

if TYPE_CHECKING:
    from sb3_webscale.experiments.config import RunConfig

__all__ = ["make_vec_env", "register_environment"]


def make_vec_env(config: RunConfig, seeds: tuple[int, ...], *, training: bool = True) -> VecEnv:
    """Build the environments: Monitor, the wrappers, the deterministic wrapper; then frame stack and normalisation.

    :param config: the run
    :param seeds: one seed for each environment; their number is the number of environments
    :param training: update and apply normalisation statistics; False for evaluation
    :return: the vectorised environment
    :raises ConfigError: when the environment or a wrapper is unknown or refuses its arguments
    """
    register_environment(config.env_id)
    makers = [_EnvironmentMaker(config, seed) for seed in seeds]
    vec_env: VecEnv
    if config.vec_env == "subproc" and training:
        vec_env = SubprocVecEnv(makers)  # type: ignore[arg-type]
    else:
        vec_env = DummyVecEnv(makers)  # type: ignore[arg-type]
    for i, reference in enumerate(config.vec_env_wrapper):
        vec_env = reference.factory(f"vec_env_wrapper[{i}]")(vec_env)
    if config.frame_stack is not None and config.frame_stack > 1:
        vec_env = VecFrameStack(vec_env, config.frame_stack)
    if config.normalize:
        vec_env = _normalized(vec_env, config, training)
    return vec_env


def register_environment(env_id: str) -> None:
    """Make sure that Gymnasium knows an environment, asking Atari and the plugins for it if need be.

    :param env_id: Gymnasium id
    :raises ConfigError: when nobody registers it
    :raises MissingExtraError: when it is an Atari environment and Atari support is not installed
    """
    if env_id in gym.registry or ":" in env_id:
        return
    if env_id.startswith("ALE/") or "NoFrameskip-" in env_id:
        _register_atari(env_id)
    else:
        installed_plugins()
    if env_id not in gym.registry:
        msg = (
            f"env = {env_id!r} is not registered with Gymnasium, nor by a plugin; {nearest(env_id, dict(gym.registry))}"
        )
        raise ConfigError(msg)


class _EnvironmentMaker:
    """Builds one environment; a class, so that it can be sent to another process."""

    def __init__(self, config: RunConfig, seed: int) -> None:
        self.config = config
        self.seed = seed

    def __call__(self) -> gym.Env[Any, Any]:
        register_environment(self.config.env_id)
        env = self._build(gym.make, "env_kwargs", self.config.env_id, **self.config.resolved_env_kwargs())
        env = self._build(Monitor, "monitor_kwargs", env, **self.config.monitor_kwargs)
        for i, reference in enumerate(self.config.env_wrapper):
            where = f"env_wrapper[{i}]"
            env = self._build(reference.factory(where), where, env)
        return DeterministicEnv(env, self.seed)

    def _build(self, factory: Callable[..., Any], where: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return factory(*args, **kwargs)
        except TypeError as error:
            msg = f"{self.config.env_id}.{where} is refused: {error}; check the names of the arguments"
            raise ConfigError(msg) from error


def _normalized(vec_env: VecEnv, config: RunConfig, training: bool) -> VecNormalize:
    kwargs = dict(config.normalize_kwargs)
    if "gamma" in config.hyperparameters:
        kwargs.setdefault("gamma", config.hyperparameters["gamma"])
    try:
        normalized = VecNormalize(vec_env, training=training, **kwargs)
    except TypeError as error:
        msg = f"{config.env_id}.normalize is refused: {error}; check the names of the arguments"
        raise ConfigError(msg) from error
    if not training:
        # Evaluation reports the rewards of the environment itself.
        normalized.norm_reward = False
    return normalized


def _register_atari(env_id: str) -> None:
    try:
        import ale_py
    except ModuleNotFoundError as error:
        msg = f"env = {env_id!r} needs ale_py, which is not installed; run: pip install sb3-webscale[atari]"
        raise MissingExtraError(msg) from error
    gym.register_envs(ale_py)
